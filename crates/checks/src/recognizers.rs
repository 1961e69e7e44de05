//! Personal data of a project's own kinds: a pattern, a check digit, the words around it.

use std::ops::Range;

use crate::pattern::watch::{GiveUp, PatternList, Watch};
use crate::pattern::work::{Budget, GivenUp};
use crate::pattern::{Pattern, TOO_LONG_TO_COMPILE, cost_of, prefixes};
use crate::report::MAX_FINDINGS;
use crate::text::{checksum, words};
use domain::safety::{Checksum, Recognizer};

/// How far before a match a word of its context may begin, in bytes, and how far behind it may end.
const BEFORE: usize = 64;
const BEHIND: usize = 32;
/// Fewer characters than this prove nothing by adding up.
const FEWEST: usize = 2;

/// The recognizers of one project, compiled.
#[derive(Debug)]
pub(crate) struct Recognizers(Vec<Compiled>);

#[derive(Debug)]
struct Compiled {
    name: String,
    pattern: Pattern,
    /// For streams: what a match begins with, at the end of a text.
    begun: Option<Pattern>,
    /// Any of the words of which one must be near.
    context: Option<Pattern>,
    checksum: Checksum,
    score: f64,
}

/// A match of one of them.
pub(crate) struct Match<'r> {
    /// The name of the recognizer.
    pub(crate) name: &'r str,
    /// Its range in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// The score of the recognizer.
    pub(crate) score: f64,
}

impl Recognizers {
    /// Compiles them, for streams as well if asked. Every error names the setting it is about.
    pub(crate) fn compile(
        settings: &[Recognizer],
        streams: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, Vec<String>> {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for (index, recognizer) in settings.iter().enumerate() {
            if stop() {
                return Err(vec![TOO_LONG_TO_COMPILE.to_owned()]);
            }
            match Compiled::new(recognizer, streams) {
                Ok(compiled) => all.push(compiled),
                Err((field, fault)) => {
                    errors.push(format!("settings.safety.recognizers[{index}].{field}: {fault}"));
                }
            }
        }
        if errors.is_empty() { Ok(Self(all)) } else { Err(errors) }
    }

    /// How many units of work their patterns take together for a byte at the most.
    pub(crate) fn worst(&self) -> u64 {
        cost_of(self.0.iter().map(|own| &own.pattern))
    }

    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the start of the first uncertain match in a text that goes on, if there is one.
    pub(crate) fn open_from(&self, text: &str) -> Option<usize> {
        let watch = Watch::new(GiveUp::Never);
        watch.allow(text.len());
        let first = self.0.iter().map(|own| own.open_from(text, &watch)).min();
        first.filter(|&at| at < text.len())
    }

    /// Everything that they recognize, in no order. So many matches of each are looked at and no more: to
    /// search for one may take time as long as the text is.
    pub(crate) fn find(&self, text: &str, watch: &Watch<'_>) -> impl Iterator<Item = Match<'_>> {
        self.0.iter().enumerate().flat_map(move |(index, own)| {
            let found = watch.search(PatternList::Recognizers, index, || own.find(text, watch));
            let named = |bytes| Match { name: &own.name, bytes, score: own.score };
            found.into_iter().flatten().map(named)
        })
    }
}

impl Compiled {
    /// Returns the start of the first part of a text that goes on that may become a match, or may count as one.
    fn open_from(&self, text: &str, watch: &Watch<'_>) -> usize {
        // If it cannot be found, all of the text counts as the beginning of a match.
        self.begun_from(text, watch).unwrap_or_default()
    }

    fn begun_from(&self, text: &str, watch: &Watch<'_>) -> Option<usize> {
        let budget = || watch.budget(text.len());
        let begun = self.begun.as_ref()?.find_at(text, 0, &mut budget()).ok()?;
        let mut open = begun.map_or(text.len(), |found| found.start);
        if self.context.is_some() {
            let waits = |found: Range<usize>| {
                let is_far = found.end + BEHIND < text.len();
                if !is_far {
                    open = open.min(found.start);
                }
                is_far
            };
            self.pattern.each(text, &mut budget(), waits).ok()?;
        }
        Some(open)
    }

    fn find(&self, text: &str, watch: &Watch<'_>) -> Result<Vec<Range<usize>>, GivenUp> {
        let mut found =
            self.pattern.first(MAX_FINDINGS + 1, text, &mut watch.budget(text.len()))?;
        found.retain(|range| self.adds_up(&text[range.clone()]));
        // The stretches searched for words overlap little if matches do not.
        let around = text.len().saturating_add(found.len() * (BEFORE + BEHIND));
        let mut budget = watch.budget(around);
        let mut given_up = Ok(());
        found.retain(|range| {
            self.is_near(text, range, &mut budget).unwrap_or_else(|error| {
                given_up = Err(error);
                false
            })
        });
        given_up.map(|()| found)
    }

    fn new(recognizer: &Recognizer, streams: bool) -> Result<Self, (&'static str, String)> {
        let pattern = Pattern::compile(&recognizer.pattern).map_err(|fault| ("pattern", fault))?;
        if pattern.matches_nothing() {
            return Err(("pattern", "the pattern matches an empty text".to_owned()));
        }
        Ok(Self {
            name: recognizer.name.clone(),
            begun: streams.then(|| prefixes::compile(&recognizer.pattern)).flatten(),
            pattern,
            context: context(&recognizer.context).map_err(|fault| ("context", fault))?,
            checksum: recognizer.checksum,
            score: recognizer.score,
        })
    }

    fn adds_up(&self, value: &str) -> bool {
        let digits = || -> Vec<u8> {
            value.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect()
        };
        let compact = || -> Vec<u8> {
            let kept = value.bytes().filter(u8::is_ascii_alphanumeric);
            kept.map(|byte| byte.to_ascii_uppercase()).collect()
        };
        let holds =
            |values: Vec<u8>, check: fn(&[u8]) -> bool| values.len() >= FEWEST && check(&values);
        match self.checksum {
            Checksum::None => true,
            Checksum::Luhn => holds(digits(), checksum::luhn),
            Checksum::Verhoeff => holds(digits(), checksum::verhoeff),
            Checksum::Mod11_10 => holds(digits(), checksum::mod_11_10),
            Checksum::Mod97 => holds(compact(), |values| checksum::mod_97(values.iter())),
            Checksum::Iban => holds(compact(), checksum::iban),
        }
    }

    fn is_near(
        &self,
        text: &str,
        found: &Range<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<bool, GivenUp> {
        let Some(context) = &self.context else { return Ok(true) };
        let start = words::floor(text, found.start.saturating_sub(BEFORE));
        let end = words::ceil(text, found.end.saturating_add(BEHIND).min(text.len()));
        Ok(context.find_at(&text[start..end], 0, budget)?.is_some())
    }
}

/// Any of the words, whole and in any case. Scripts without spaces have no borders that could be asked
/// for.
fn context(all: &[String]) -> Result<Option<Pattern>, String> {
    if all.is_empty() {
        return Ok(None);
    }
    let border = |edge: Option<char>| {
        if edge.is_some_and(|c| c.is_ascii_alphanumeric()) { r"(?-u:\b)" } else { "" }
    };
    let any = all.iter().map(|word| {
        let word = word.trim();
        let (left, right) = (border(word.chars().next()), border(word.chars().next_back()));
        format!("{left}{}{right}", regex::escape(word))
    });
    Pattern::compile(&format!("(?i:{})", any.collect::<Vec<_>>().join("|"))).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(recognizer: Recognizer, text: &str) -> Vec<String> {
        let all = Recognizers::compile(&[recognizer], false, &|| false).unwrap();
        all.find(text, &Watch::new(crate::pattern::watch::GiveUp::Never))
            .map(|found| text[found.bytes].to_owned())
            .collect()
    }

    fn own(pattern: &str, checksum: Checksum, context: &[&str]) -> Recognizer {
        Recognizer {
            name: "OWN".to_owned(),
            pattern: pattern.to_owned(),
            checksum,
            context: context.iter().map(|word| (*word).to_owned()).collect(),
            score: 0.6,
        }
    }

    #[test]
    fn a_checksum_tells_values_from_look_alikes() {
        for (checksum, good, bad) in [
            (Checksum::Luhn, "79927398713", "79927398710"),
            (Checksum::Verhoeff, "2363", "2364"),
            (Checksum::Mod97, "5493001KJTIIGC8Y1R12", "5493001KJTIIGC8Y1R13"),
            (Checksum::Iban, "GB82WEST12345698765432", "GB82WEST12345698765433"),
            (Checksum::Mod11_10, "86095742719", "86095742718"),
        ] {
            let text = format!("{good} and {bad}");
            let found = found(own("[0-9A-Z]{4,}", checksum, &[]), &text);
            assert_eq!(found, [good], "{checksum:?}");
        }
        assert!(found(own("[0-9A-Z]+", Checksum::Luhn, &[]), "0 or K").is_empty());
    }

    #[test]
    fn a_word_of_the_context_has_to_be_near() {
        let staff = || own(r"\b[0-9]{6}\b", Checksum::None, &["staff no.", "ID", "社員"]);
        for near in ["Staff no. 123456", "123456 is my id", "社員番号は 123456", "(id=123456)"]
        {
            assert_eq!(found(staff(), near), ["123456"], "{near}");
        }
        let far = format!("staff no. {} 123456", "x ".repeat(40));
        for other in ["123456", "an idea: 123456", "kid 123456", &far] {
            assert!(found(staff(), other).is_empty(), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_compiled_says_where() {
        let fault = |pattern: &str| {
            let all = [own("x", Checksum::None, &[]), own(pattern, Checksum::None, &[])];
            Recognizers::compile(&all, true, &|| false).unwrap_err().join("; ")
        };
        let at = "settings.safety.recognizers[1].pattern: ";
        assert!(fault("(").starts_with(at));
        assert_eq!(fault("x*"), format!("{at}the pattern matches an empty text"));
        let large = format!("{at}the pattern is too large once compiled");
        assert_eq!(fault(r"\w{500}{50}x"), large);
    }
}

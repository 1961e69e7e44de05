//! The cues that classification looks for, in groups.
//!
//! Written by hand from what makes a request hard or easy to answer. Outcomes and published questions
//! were looked at while they grew, so results on those flatter. A trailing `*` matches any ending;
//! otherwise a cue matches whole words only. A cue begins with a letter, and no cue occurs twice.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::tier::Intent;

use crate::counts::{letters, padded};
use crate::languages;

/// The group of a cue: the property of a request that it is a sign of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Group {
    /// Asks for a proof or a derivation.
    Proof,
    /// Asks for an argument, or for depth.
    Reason,
    /// Sets up a case: suppose, let, given that.
    Condition,
    /// Bounds the answer: must, exactly, no more than.
    Constraint,
    /// Turns a question round: not, except, false.
    Negation,
    /// Asks for an amount.
    Quantity,
    /// Orders things: first, then, finally.
    Sequence,
    /// Asks for something to be designed, built, mended or weighed.
    Build,
    /// Asks for work on a text at hand, or for a short list.
    Task,
    /// Everyday matters and small talk.
    Everyday,
    /// Mathematics.
    Maths,
    /// Physics, chemistry, engineering.
    Science,
    /// Programs and the machines they run on.
    Technical,
    /// Law and ethics.
    Law,
    /// Medicine and biology.
    Medicine,
    /// History, art, society.
    Humanities,
    /// Business and economics.
    Business,
    /// Asks the model to play a part.
    Persona,
}

/// Number of groups.
pub(crate) const GROUPS: usize = 18;

/// One cue that was found.
pub(crate) struct Heard {
    pub(crate) group: Group,
    pub(crate) intent: Option<Intent>,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// Cues of a group and an intent, separated by `|`.
pub(crate) type Row = (Group, Option<Intent>, &'static str);

/// Cues of a group, separated by `|`.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    (Group::Proof, None, "prove|proof|proofs|derive|derivation|show that|demonstrate that|counterexample*|conjecture"),
    (Group::Reason, None, "justify|justification|step by step|step-by-step|reason through|explain why|explain how|why does|why do|why is|why are|why would|implication*|consequences|trade-off*|tradeoff*|pros and cons|critically|in depth|in-depth|in detail|detailed|thorough*|rigorous*|comprehensive*|hypothesis|hypotheses|infer|deduce|contradiction|conclude|theorem|lemma|corollary|think carefully|root cause|chain of thought|nuanced|elaborate"),
    (Group::Condition, None, "suppose|assume|assuming|given that|such that|let|if and only if|unless|whenever|provided that|consider|where|in terms of|satisfies|satisfy|satisfying|respectively|otherwise|depending on|as a function of|subject to|for all|for every|there exists"),
    (Group::Constraint, None, "must|exactly|at least|at most|no more than|no less than|do not|don't|without|only|should not|ensure|make sure|requirement*|required|constraint*|include|including|format|avoid|limit|within|strictly|follow these|following rules|rules|criteria|never|always|in the style of|output should|json format|as follows|specified|specification*"),
    (Group::Negation, None, "not|except|false|incorrect|least|neither|none of|cannot|isn't|doesn't|inconsistent"),
    (Group::Quantity, None, "how many|how much|what percent*|total|average|twice|half|percent|percentage|per|each|altogether|remaining|how long|how far|how old|ratio|probability|sum|product|difference between|more than|less than|fraction|times as|minutes|hours|miles|dollars"),
    (Group::Sequence, None, "first|firstly|second|secondly|then|next|finally|afterwards|after that|step 1|step 2|part a|part b|lastly|multiple|several|both"),
    (Group::Build, Some(Intent::Code), "implement|implementation*|refactor*|debug*|code|codebase|script|write a function|write a program|program that|function that|class that|unit test*|regex|regular expression*|snippet|write code|write a python|write a c++|write a c#|write a java|write a javascript|write a typescript|write a sql|write an sql|write an algorithm|write a recursive|python function|python program|python script|python class|python code|java function|java program|java class|java code|javascript function|javascript code|typescript function|c++ function|c++ program|c++ class|c++ code|c# class|rust function|rust program|bash script|shell script|powershell script|sql query|sql queries|source code|stack trace|traceback|compile*|boilerplate"),
    (Group::Build, None, "design|designing|develop|build|create a system|architecture|architect|optimize*|optimise*|optimization|optimisation|analyze|analyse|analysis|analyzing|evaluate|assess|compare|comparison|contrast|strategy|strategies|strategic|plan|roadmap|framework*|methodology|simulate|simulation|model|modeling|modelling|integrate|integration|migrate|migration|deploy*|configure*|configuration|troubleshoot*|propose|proposal|research|investigate|synthesize|formulate|calculate|compute|estimate|solve|determine|construct|verify|validate|improve|automate|automation|workflow|how can i|how do i|how to|how would|best practice*|set up|setup"),
    (Group::Task, Some(Intent::Summarise), "summarize|summarise|summary|summarization|tl;dr|tldr|shorten|condense|key points|main points|in one sentence|in a few sentences|gist"),
    (Group::Task, Some(Intent::Translate), "translate|translation|translated|into french|into spanish|into german|into english|to english|to french|to spanish|to german|in french|in spanish|in german"),
    (Group::Task, Some(Intent::Classify), "classify|categorize|categorise|category|sentiment|positive or negative|true or false|label|spam|yes or no|is this|which category|detect if|decide whether|determine whether|toxic"),
    (Group::Task, Some(Intent::Extract), "extract|find all|identify the|pull out|named entities|list all|keywords|from the text|from the following|according to the passage|based on the passage|based on the text|based on the information|in the article|in the passage|in the paragraph|given a paragraph"),
    (Group::Task, Some(Intent::Rewrite), "rewrite|rephrase|paraphrase|reword|proofread|correct the|fix the grammar|grammar|grammatical|edit the|more formal|more polite|simplify the|convert the|capitalize|capitalise|capitalization|capitalisation|punctuation|spelling|misspell*|typo|typos|synonym*|antonym*|friendlier|nicer|politer|make it shorter|make this shorter|shorten this|bulleted|bullet points|alphabetical order|alphabetically|replace the|rearrange|reorder|convert this|convert these|into a table|past tense|present tense|future tense|plural|into a question|into a list|into a sentence|sound better|sounds better|sound nicer|sounds okay|odd one out|hashtag*|subject line"),
    (Group::Task, Some(Intent::Generate), "suggest|recommend|think of|guess the|match the|pick one|list|name a|name the|name some|name three|name five|give me|give an example|give examples|generate a|come up with|brainstorm|write a sentence|write a short|create a list|compile a list|make a list|fill in|complete the sentence|provide a list|write an email|write a letter|write a message|write a note|write an invitation|write a card|headline|slogan|caption|tweet|title for"),
    (Group::Everyday, Some(Intent::Generate), "write a poem|poem|haiku|story|joke|song|lyrics|letter|email|e-mail|essay|blog post|speech|birthday|recipe|wedding|invitation|toast|thank you note|cover letter|limerick|write an|compose|dialogue|podcast script|video script|movie script|film script|radio script|sales script|call script|script for a video|script for a youtube|script for a podcast|script for a play|script for a commercial|script for an episode"),
    (Group::Everyday, Some(Intent::Chat), "hello|hi|hey|good morning|good evening|good night|how are you|thanks|thank you|what's up|nice to meet|goodbye|bye"),
    (Group::Everyday, None, "breakfast|lunch|dinner|cook|cooking|food|movie*|film|song lyrics|music|travel|trip|vacation|friend|friends|family|mom|dad|kids|dog|cat|weather|weekend|gift|restaurant*|hotel|workout|exercise*|sleep|clothes|shopping|hobby|hobbies|tv show|holiday|favorite|favourite|sports|football|basketball|game night|pet|garden*|cake|coffee|wine|beach|dating|advice|sentence|word|words|sentences|capital of|color|colour|animal*|dress code|zip code|postal code|discount code|promo code|coupon code|area code|qr code"),
    (Group::Maths, None, "integral*|derivative*|matrix|matrices|eigenvalue*|eigenvector*|polynomial*|equation*|triangle|circle|angle*|prime|primes|integer*|modulo|mod|divisible|divisor*|vector*|converge*|continuous function|differentiable|differential|probability that|random variable*|permutation*|combination*|perpendicular|radius|tangent|cosine|sine|logarithm*|geometric|arithmetic sequence|real number*|complex number*|subgroup|isomorphi*|homomorphism|topolog*|graph theory|f(x)|positive integers|squared|square root|coefficient*|quadratic|function f|linear algebra|regression|variance|standard deviation|statistic*|bayes*|stochastic|hexagon|polygon|parabola|ellipse|inequality|algebra*|calculus|combinatoric*|mathematic*|numerical"),
    (Group::Science, None, "velocity|acceleration|momentum|quantum|electron*|photon*|wavelength|frequency|voltage|resistor*|circuit*|capacitor*|thermodynamic*|entropy|enthalpy|temperature|pressure|molar|mole|moles|molecule*|reaction*|oxidation|acid|equilibrium|orbital*|isotope*|kinetic|potential energy|gravitational|magnetic|electric field|torque|fluid|viscosity|heat|laser|optical|lens|spectrum|spectra*|relativity|particle*|semiconductor*|signal*|engineer*|mechanical|physics|chemistry|chemical|solvent|solution of|catalyst|nuclear|astronom*|galaxy|star|planet*|material*|sensor*|motor|robot*|antenna|bandwidth|hydraulic|alloy|steel|newton*|joule*|kg|mol|ghz|mhz"),
    (Group::Technical, Some(Intent::Code), "python|javascript|typescript|java|c++|c#|golang|rust|kotlin|swift|php|ruby|sql|html|css|bash|powershell|react|reactjs|nextjs|vue|angular|django|flask|fastapi|spring boot|nodejs|node.js|pandas|numpy|pytorch|tensorflow|vba|matlab|def|import|struct|void|const|async|await|null|println|printf|fn|select * from|latex code|excel formula"),
    (Group::Technical, None, "algorithm*|database*|api|apis|server*|client-side|docker*|kubernetes|k8s|aws|azure|gcp|linux|ubuntu|windows server|terraform|git|github|endpoint*|microservice*|distributed|concurren*|thread*|mutex|deadlock|cache|caching|latency|throughput|load balanc*|encryption|encrypt*|hash|oauth|jwt|authentication|tcp|udp|http|https|dns|firewall|network*|protocol*|compiler*|runtime|memory leak|pointer*|recursion|recursive|data structure*|linked list|binary tree|hash table|time complexity|machine learning|deep learning|neural*|transformer*|llm|llms|embedding*|gpu|cpu|kernel|dataset*|training data|gradient*|backpropagation|query|queries|schema|postgres*|mysql|mongodb|redis|kafka|json|xml|yaml|csv|excel|spreadsheet*|unity|unreal|blender|arduino|raspberry pi|android|ios|app|application*|software|frontend|backend|full stack|devops|ci/cd|pipeline*|saas|crud|rest|graphql|websocket*|variable*|array*|string|loop|object-oriented|exception*|error|bug|library|package|module|plugin|command line|terminal|virtual machine|cloud|bitcoin|blockchain|smart contract*|solidity|cryptograph*|parser|parsing|semantic search|chatbot|prompt engineering|openai|fine-tun*|tokenizer"),
    (Group::Law, None, "court|plaintiff|defendant|statute*|liability|contract|contracts|negligence|jurisdiction|constitution*|amendment|tort|easement|deed|prosecut*|legal|lawsuit|attorney|lawyer|law|laws|regulation*|compliance|moral*|ethic*|kant|utilitarian*|argument|premise*|fallacy|philosoph*|justice|penal code|civil code|criminal code|building code|tax code|code of conduct|code of ethics"),
    (Group::Medicine, None, "patient*|diagnosis|diagnos*|symptom*|disease*|clinical|treatment|therapy|surgery|chronic|acute|tumor|cancer|blood|artery|nerve|muscle|hormone*|gene|genes|genetic*|protein*|enzyme*|cell|cells|dna|rna|bacteria*|virus*|infection*|receptor*|antibod*|species|evolution*|organism*|metaboli*|syndrome|physician|medication*|dose|psycholog*|cognitive|anatom*|pharmac*|immun*|neuron*|brain|biolog*|plant|plants"),
    (Group::Humanities, None, "century|war|empire|emperor|king|revolution*|treaty|president|political|politics|government|soviet|roman|greek|medieval|religion|religious|buddhis*|christian*|islam*|jewish|culture|cultural|novel|poet|author|literature|painting|civilization*|archaeolog*|sociolog*|colonial*|communist|democra*|history|historical*|foreign policy|united nations|cold war|social"),
    (Group::Business, None, "market|marketing|demand|supply|price|prices|inflation|monetary|fiscal|gdp|interest rate|investment*|investor*|stock|stocks|bond|bonds|revenue|profit|profits|accounting|balance sheet|tax|taxes|firm|firms|company|companies|business*|startup|customer*|consumer*|stakeholder*|management|manager*|economic*|economy|monopoly|cost|costs|budget|depreciation|asset*|portfolio|option pricing|supply chain|kpi|product manager"),
    (Group::Persona, None, "pretend to be|pretend you are|pretend you're|pretend that you are|pretend yourself|act as a|act as an|act as the|act as if|act like a|role-play as|roleplay as|take on the role|speak like|talk like|imagine you are a|imagine that you are a|imagine yourself as|stay in character|answer in character"),
];

/// Every cue, found by the first letters of a word.
pub(crate) struct Lexicon {
    /// A bit for each beginning of a word that some cue has: it rejects most words.
    filter: Box<[u64; FILTER / 64]>,
    /// Open addressing: the index of a key, counted from 1; 0 ends a probe.
    slots: Vec<u16>,
    /// The keys, each with the range of its cues.
    keys: Vec<(u32, usize, usize)>,
    /// Cues of one key are adjacent, the longest first.
    cues: Vec<Cue>,
}

struct Cue {
    text: &'static str,
    /// Its first word as [`letters`] reads it, and the mask of bits of a text's word that must agree.
    head: u64,
    mask: u64,
    /// Up to eight bytes that follow, and their mask: most cues of several words differ here.
    tail: u64,
    tail_mask: u64,
    prefix: bool,
    group: Group,
    intent: Option<Intent>,
}

/// Eight times the number of keys: a probe rarely meets a slot that is taken.
const SLOTS: usize = 8192;

/// Bits of the filter; a power of two.
const FILTER: usize = 1 << 15;

static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::build);

impl Lexicon {
    /// Returns the one lexicon.
    pub(crate) fn get() -> &'static Self {
        &LEXICON
    }

    fn build() -> Self {
        let mut by_key: BTreeMap<u32, Vec<Cue>> = BTreeMap::new();
        for cue in ROWS.iter().chain(languages::ROWS).flat_map(split).map(Cue::new) {
            by_key.entry(cue.head as u32).or_default().push(cue);
        }
        let mut lexicon = Self {
            filter: Box::new([0; FILTER / 64]),
            slots: vec![0; SLOTS],
            keys: Vec::new(),
            cues: Vec::new(),
        };
        for (key, mut cues) in by_key {
            for bit in cues.iter().flat_map(Cue::filter_bits) {
                lexicon.filter[bit / 64] |= 1 << (bit % 64);
            }
            cues.sort_by_key(|cue| Reverse(cue.text.len()));
            let from = lexicon.cues.len();
            lexicon.cues.extend(cues);
            let mut slot = slot_of(key);
            while lexicon.slots[slot] > 0 {
                slot = (slot + 1) % SLOTS;
            }
            lexicon.keys.push((key, from, lexicon.cues.len()));
            lexicon.slots[slot] = lexicon.keys.len() as u16;
        }
        lexicon
    }

    /// Returns the longest cue that begins with the word at `at`, whose first eight letters are `word`.
    #[inline]
    pub(crate) fn hear(&self, text: &[u8], at: usize, word: u64) -> Option<Heard> {
        let bit = filter_bit(word);
        if self.filter[bit / 64] >> (bit % 64) & 1 == 0 { None } else { self.find(text, at, word) }
    }

    fn find(&self, text: &[u8], at: usize, word: u64) -> Option<Heard> {
        let key = word as u32;
        let mut slot = slot_of(key);
        let (from, to) = loop {
            let number = usize::from(self.slots[slot]).checked_sub(1)?;
            let (found, from, to) = self.keys[number];
            if found == key {
                break (from, to);
            }
            slot = (slot + 1) % SLOTS;
        };
        let behind = eight(text, at + length(word));
        let matches = |cue: &&Cue| {
            let end = at + cue.text.len();
            word & cue.mask == cue.head
                && behind & cue.tail_mask == cue.tail
                && text.get(at..end).is_some_and(|part| cue.is(part))
                && (cue.prefix || text.get(end).is_none_or(|&next| !is_word(next)))
        };
        let cue = self.cues[from..to].iter().find(matches)?;
        Some(Heard { group: cue.group, intent: cue.intent, at, end: at + cue.text.len() })
    }
}

impl Cue {
    fn new((group, intent, text): (Group, Option<Intent>, &'static str)) -> Self {
        let prefix = text.ends_with('*');
        let text = text.trim_end_matches('*');
        let (head, length) = letters(text.as_bytes(), 0);
        // A word may continue after a prefix, and after a cue that is shorter than its first word.
        let whole = !prefix || length < text.len();
        let mask = if whole || length == 8 { u64::MAX } else { (1 << (8 * length)) - 1 };
        // If a word may continue after a prefix, any bytes may follow.
        let tail_mask = match text.len() - length {
            _ if mask != u64::MAX => 0,
            more @ 0..8 => (1 << (8 * more)) - 1,
            _ => u64::MAX,
        };
        let tail = eight(text.as_bytes(), length) & tail_mask;
        Self { text, head, mask, tail, tail_mask, prefix, group, intent }
    }

    /// The bits of the filter that must be set: one for a word, or those of all words that continue a
    /// short beginning.
    fn filter_bits(&self) -> impl Iterator<Item = usize> {
        let open = if self.mask > u64::from(u32::MAX) { 1 } else { 1 << 8 };
        let head = self.head;
        (0..open).map(move |fifth: u64| filter_bit(head | fifth << 32))
    }

    /// Whether a part of a text is this cue; at most its first eight letters are known to agree.
    fn is(&self, part: &[u8]) -> bool {
        let known = length(self.head).min(part.len());
        part[known..].eq_ignore_ascii_case(&self.text.as_bytes()[known..])
    }
}

/// Number of letters that [`letters`] has read.
fn length(word: u64) -> usize {
    8 - word.leading_zeros() as usize / 8
}

/// Returns the eight bytes at an index, with the bit set in which letters differ by case.
fn eight(text: &[u8], at: usize) -> u64 {
    const CASELESS: u64 = 0x2020_2020_2020_2020;
    let rest = text.get(at..).unwrap_or_default();
    u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_else(|| padded(rest))) | CASELESS
}

/// Returns the filter bit for the first five letters of a word; four make a key.
fn filter_bit(word: u64) -> usize {
    (word << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (64 - FILTER.trailing_zeros())
}

fn slot_of(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> 19) as usize % SLOTS
}

fn split(row: &'static Row) -> impl Iterator<Item = (Group, Option<Intent>, &'static str)> {
    row.2.split('|').map(|text| (row.0, row.1, text))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::classify::Shape;
    use crate::features::measure_with;

    #[test]
    fn no_cue_stands_twice() {
        let mut seen = BTreeSet::new();
        for (_, _, text) in ROWS.iter().flat_map(split) {
            assert!(seen.insert(text.trim_end_matches('*')), "twice: {text}");
            assert_eq!(text, text.to_ascii_lowercase());
            assert!(text.starts_with(|first: char| first.is_ascii_lowercase()));
            assert!(text.find('*').is_none_or(|letters| letters >= 4), "too short: {text}");
        }
        assert_eq!(Group::Persona as usize + 1, GROUPS);
    }

    #[test]
    fn whole_words_only_unless_the_cue_says_otherwise() {
        let groups = |text: &str| -> Vec<Group> {
            let mut groups = Vec::new();
            measure_with(text, &Shape::default(), |heard| groups.push(heard.group));
            groups
        };
        assert_eq!(groups("PROVE it"), [Group::Proof]);
        assert_eq!(groups("algorithms"), [Group::Technical]);
        assert_eq!(groups("improved letters"), []);
        // The longest cue wins, and its words begin no other cue.
        assert_eq!(groups("good morning to the cold war"), [Group::Everyday, Group::Humanities]);
        assert_eq!(groups("the podcast script; our dress code"), [Group::Everyday; 2]);
        assert_eq!(groups("a bash script, its source code"), [Group::Build; 2]);
        assert_eq!(
            groups("C++, c#, TL;DR; don't"),
            [Group::Technical, Group::Technical, Group::Task, Group::Constraint]
        );
    }
}

//! `settings.safety`, read.

use super::reader::Reader;
use crate::safety::{Action, Checksum, PolicyRule, Recognizer, Safety};

const MAX_RULES: usize = 100;
const MAX_RECOGNIZERS: usize = 100;
const MAX_PATTERN: usize = 1024;
const MAX_NAME: usize = 32;
const MAX_WORDS: usize = 20;
const MAX_WORD: usize = 64;
/// The score of a recognizer that names none: as sure as a number behind its label.
const SCORE: f64 = 0.6;

const CHECKSUMS: [(&str, Checksum); 6] = [
    ("none", Checksum::None),
    ("luhn", Checksum::Luhn),
    ("verhoeff", Checksum::Verhoeff),
    ("mod97", Checksum::Mod97),
    ("iban", Checksum::Iban),
    ("mod11_10", Checksum::Mod11_10),
];

pub(super) fn read(r: &mut Reader<'_>) -> Safety {
    let plain = Safety::default();
    let any = [Action::Flag, Action::Redact, Action::Block];
    let no_redact = [Action::Flag, Action::Block];
    let mut safety = Safety {
        block_threshold: r.unit("block_threshold").unwrap_or(plain.block_threshold),
        review_threshold: r.unit("review_threshold").unwrap_or(plain.review_threshold),
        secrets: r
            .object("secrets", |r| r.action("action", &any))
            .flatten()
            .unwrap_or(plain.secrets),
        ..plain
    };
    r.object("injection", |r| {
        safety.injection = r.action("action", &no_redact).unwrap_or(safety.injection);
        safety.injection_application =
            r.action("application", &no_redact).unwrap_or(safety.injection_application);
    });
    r.object("pii", |r| {
        safety.pii = r.action("action", &any).unwrap_or(safety.pii);
        safety.pii_entities = r.texts("entities");
        safety.pii_restore = r.flag("restore").unwrap_or(true);
    });
    r.object("output", |r| {
        let read = |r: &mut Reader<'_>| r.action("action", &any);
        safety.output_secrets = r.object("secrets", read).flatten().unwrap_or(Action::Flag);
        safety.output_pii = r.object("pii", read).flatten().unwrap_or(Action::Flag);
    });
    safety.rules = read_rules(r, &no_redact);
    safety.recognizers = read_recognizers(r);
    safety
}

fn read_rules(r: &mut Reader<'_>, actions: &[Action]) -> Vec<PolicyRule> {
    let rules = r.objects("rules", |r| {
        let rule = PolicyRule {
            name: r.required_text("name"),
            pattern: r.required_text("pattern"),
            action: r.action("action", actions).unwrap_or(Action::Block),
            weight: r.unit("weight").unwrap_or(1.0),
        };
        if rule.pattern.len() > MAX_PATTERN {
            r.fault("pattern", &format!("is longer than {MAX_PATTERN} bytes"));
        }
        rule
    });
    if rules.len() > MAX_RULES {
        r.fault("rules", &format!("holds more than {MAX_RULES} rules"));
    }
    rules
}

fn read_recognizers(r: &mut Reader<'_>) -> Vec<Recognizer> {
    let all = r.objects("recognizers", |r| {
        let own = Recognizer {
            name: r.required_text("name"),
            pattern: r.required_text("pattern"),
            checksum: r.one_of("checksum", &CHECKSUMS).unwrap_or(Checksum::None),
            context: r.texts("context").unwrap_or_default(),
            score: r.unit("score").unwrap_or(SCORE),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if own.name.len() > MAX_NAME || !own.name.bytes().all(plain) {
            r.fault("name", &format!("has at most {MAX_NAME} letters, digits, '_' and '-'"));
        }
        if own.pattern.len() > MAX_PATTERN {
            r.fault("pattern", &format!("is longer than {MAX_PATTERN} bytes"));
        }
        let is_word = |word: &String| !word.trim().is_empty() && word.len() <= MAX_WORD;
        if own.context.len() > MAX_WORDS || !own.context.iter().all(is_word) {
            let what = format!("holds at most {MAX_WORDS} words of at most {MAX_WORD} bytes");
            r.fault("context", &what);
        }
        own
    });
    if all.len() > MAX_RECOGNIZERS {
        r.fault("recognizers", &format!("holds more than {MAX_RECOGNIZERS} recognizers"));
    }
    all
}

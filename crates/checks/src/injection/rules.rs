//! Which words together show what an attack does. A rule names a mechanism, never a wording.

use crate::vocabulary::injection::{
    ABOVE, ADDRESSED, AUTHORITY, BEFORE, CHARACTER, CIPHER, CONCEAL, DOUBLE, ENCODE, FORCE, FORGED,
    FORGET, GRANTED, HARM, LAST, LIMITS, LITERAL, MACHINE, MARKUP, OBEY, ORDERS, OUTSIDE, OVERRIDE,
    OWN, PERSONA, PRIOR, REFUSAL, REVEAL, RULES, SECRET, SECTION, SEND, SHOW, SHOWN, SYSTEM, TASK,
    TOLD, UNBOUND, UPDATE, VERBATIM, WITHOUT, YOUR,
};

/// Words in order, close to each other, in one sentence.
pub(crate) struct Sequence {
    /// The mechanism.
    pub(crate) kind: &'static str,
    /// How sure, 0 to 1.
    pub(crate) weight: f64,
    /// Classes (any of the bits), and how many bytes may stand in front of each.
    pub(crate) steps: &'static [(u64, usize)],
}

/// Classes that must all be somewhere in the text.
pub(crate) struct Together {
    /// The mechanism.
    pub(crate) kind: &'static str,
    /// How sure, 0 to 1.
    pub(crate) weight: f64,
    /// All of these; each entry is met by any of its bits.
    pub(crate) all: &'static [u64],
    /// How many different words of the last entry it takes.
    pub(crate) count: usize,
}

const fn s(kind: &'static str, weight: f64, steps: &'static [(u64, usize)]) -> Sequence {
    Sequence { kind, weight, steps }
}

const fn t(kind: &'static str, weight: f64, all: &'static [u64], count: usize) -> Together {
    Together { kind, weight, all, count }
}

/// Rules on neighbouring words. The surest of each mechanism comes first: the others are then not looked at.
#[rustfmt::skip]
pub(crate) const SEQUENCES: &[Sequence] = &[
    s("instruction_override", 0.85, &[(OVERRIDE, 0), (BEFORE | YOUR, 24), (TASK | SYSTEM, 24)]),
    s("instruction_override", 0.85, &[(OVERRIDE, 0), (PRIOR, 12), (TASK | SYSTEM, 24)]),
    s("instruction_override", 0.85, &[(FORGET, 0), (BEFORE | YOUR, 24), (RULES, 24)]),
    s("instruction_override", 0.8, &[(OVERRIDE, 0), (YOUR, 16), (LIMITS, 40)]),
    s("instruction_override", 0.8, &[(OVERRIDE, 0), (TASK | SYSTEM, 30), (PRIOR | ABOVE | TOLD, 30)]),
    s("instruction_override", 0.75, &[(OVERRIDE, 0), (OWN, 12)]),
    s("instruction_override", 0.75, &[(OVERRIDE, 0), (YOUR, 40), (TOLD, 12)]),
    s("instruction_override", 0.75, &[(OVERRIDE, 0), (ABOVE, 20), (FORCE | REVEAL | PERSONA, 40)]),
    s("instruction_override", 0.75, &[(TASK | SYSTEM | OWN, 0), (UPDATE, 40)]),
    s("instruction_override", 0.75, &[(OVERRIDE, 0), (PRIOR | TOLD, 24), (PERSONA, 80)]),
    s("instruction_override", 0.72, &[(PRIOR, 0), (TASK | SYSTEM, 24), (OVERRIDE, 30)]),
    s("instruction_override", 0.7, &[(FORGET, 0), (PRIOR, 24), (TOLD, 40), (BEFORE, 12)]),
    s("instruction_override", 0.7, &[(FORGET, 0), (LIMITS, 12), (LIMITS | TASK, 3)]),
    s("instruction_override", 0.65, &[(FORGET, 0), (PRIOR, 12), (RULES, 24)]),
    s("instruction_override", 0.65, &[(TASK | RULES, 0), (LAST, 8)]),
    s("instruction_override", 0.62, &[(FORGET, 0), (RULES, 30), (BEFORE | ABOVE | TOLD, 30)]),
    s("instruction_override", 0.6, &[(WITHOUT, 0), (OBEY, 20), (YOUR | PRIOR | ABOVE, 24), (ORDERS | LIMITS, 30)]),
    s("instruction_override", 0.5, &[(OVERRIDE, 0), (PRIOR | YOUR, 24), (ORDERS, 40)]),
    s("instruction_override", 0.5, &[(OVERRIDE, 0), (PRIOR, 24), (TOLD, 40)]),
    s("instruction_override", 0.5, &[(OVERRIDE, 0), (ABOVE, 20)]),
    s("instruction_override", 0.5, &[(BEFORE, 0), (ORDERS, 24), (OVERRIDE, 30)]),
    s("instruction_override", 0.5, &[(SECTION, 0), (ORDERS | OVERRIDE | REVEAL | FORCE, 60)]),
    s("instruction_override", 0.5, &[(OVERRIDE, 0), (FORCE, 60)]),
    s("instruction_override", 0.45, &[(OVERRIDE, 0), (TASK | RULES | SYSTEM, 20)]),
    s("instruction_override", 0.45, &[(RULES | ABOVE, 0), (UPDATE, 40)]),
    s("instruction_override", 0.45, &[(TOLD | ABOVE, 0), (UPDATE, 60)]),
    s("instruction_override", 0.4, &[(OVERRIDE, 0), (TOLD, 24)]),
    s("instruction_override", 0.3, &[(YOUR, 0), (UPDATE, 60)]),
    s("prompt_extraction", 0.75, &[(SHOW, 0), (SYSTEM, 50)]),
    s("prompt_extraction", 0.8, &[(SHOW, 0), (YOUR, 40), (SYSTEM | TASK, 30)]),
    s("prompt_extraction", 0.75, &[(REVEAL, 0), (TASK, 40), (YOUR | ABOVE | TOLD, 40)]),
    s("prompt_extraction", 0.72, &[(REVEAL, 0), (BEFORE, 30), (TASK, 20)]),
    s("prompt_extraction", 0.72, &[(REVEAL, 0), (LITERAL, 40), (TASK | SYSTEM, 50)]),
    s("prompt_extraction", 0.72, &[(VERBATIM, 0), (YOUR | BEFORE, 30), (TASK | SYSTEM, 20)]),
    s("prompt_extraction", 0.7, &[(SHOW, 0), (LITERAL, 40), (ABOVE, 50)]),
    s("prompt_extraction", 0.7, &[(SHOW, 0), (ABOVE, 40), (LITERAL, 30)]),
    s("prompt_extraction", 0.75, &[(SYSTEM | OWN, 0), (SHOWN, 40)]),
    s("prompt_extraction", 0.72, &[(YOUR, 0), (TASK, 20), (SHOWN, 40)]),
    s("prompt_extraction", 0.5, &[(YOUR, 0), (RULES, 20), (SHOWN, 40)]),
    s("prompt_extraction", 0.65, &[(REVEAL, 0), (YOUR, 40), (SYSTEM | TASK, 30)]),
    s("prompt_extraction", 0.65, &[(YOUR, 0), (BEFORE, 12), (TASK | RULES | SYSTEM, 12)]),
    s("prompt_extraction", 0.6, &[(REVEAL, 0), (YOUR, 40), (TOLD, 12)]),
    s("prompt_extraction", 0.55, &[(REVEAL, 0), (VERBATIM, 40), (ABOVE, 50)]),
    s("prompt_extraction", 0.5, &[(REVEAL, 0), (PRIOR, 30), (TASK, 20)]),
    s("prompt_extraction", 0.5, &[(REVEAL, 0), (RULES, 40), (YOUR | ABOVE | TOLD, 40)]),
    s("prompt_extraction", 0.5, &[(REVEAL, 0), (VERBATIM, 40), (ORDERS | SYSTEM, 50)]),
    s("prompt_extraction", 0.45, &[(REVEAL, 0), (SYSTEM, 50)]),
    s("prompt_extraction", 0.45, &[(REVEAL, 0), (YOUR, 40), (RULES, 30)]),
    s("prompt_extraction", 0.45, &[(REVEAL, 0), (ABOVE, 40)]),
    s("prompt_extraction", 0.4, &[(REVEAL, 0), (BEFORE, 30), (RULES, 20)]),
    s("prompt_extraction", 0.35, &[(REVEAL, 0), (TOLD, 40)]),
    s("prompt_extraction", 0.35, &[(YOUR, 0), (TASK | SYSTEM, 12)]),
    s("secret_extraction", 0.6, &[(SHOW, 0), (YOUR | BEFORE, 30), (SECRET, 30)]),
    s("secret_extraction", 0.5, &[(SHOW, 0), (SECRET, 6)]),
    s("secret_extraction", 0.4, &[(REVEAL, 0), (YOUR, 30), (SECRET, 30)]),
    s("secret_extraction", 0.3, &[(REVEAL, 0), (SECRET, 30)]),
    s("secret_extraction", 0.2, &[(YOUR, 0), (SECRET, 12)]),
    s("refusal_suppression", 0.4, &[(WITHOUT, 0), (REFUSAL, 60)]),
    s("jailbreak", 0.65, &[(PERSONA, 0), (UNBOUND, 12)]),
    s("jailbreak", 0.6, &[(PERSONA, 0), (MACHINE, 120), (UNBOUND, 160)]),
    s("jailbreak", 0.6, &[(PERSONA, 0), (WITHOUT, 24), (LIMITS, 8)]),
    s("jailbreak", 0.5, &[(MACHINE, 0), (WITHOUT, 40), (LIMITS, 30)]),
    s("jailbreak", 0.45, &[(PERSONA, 0), (UNBOUND, 120)]),
    s("jailbreak", 0.45, &[(WITHOUT, 0), (YOUR | PRIOR, 30), (LIMITS, 30)]),
    s("jailbreak", 0.35, &[(WITHOUT, 0), (LIMITS, 30), (LIMITS, 40)]),
    s("markup_smuggling", 0.65, &[(FORGED, 0), (ORDERS | OVERRIDE | REVEAL | FORCE | PERSONA | YOUR | OBEY | UNBOUND, 80)]),
    s("markup_smuggling", 0.5, &[(MARKUP, 0), (ORDERS | OVERRIDE | REVEAL | FORCE | PERSONA | YOUR, 80)]),
    s("forced_answer", 0.6, &[(FORCE, 0), (GRANTED, 60)]),
    s("forced_answer", 0.45, &[(GRANTED, 0), (GRANTED, 200)]),
    s("exfiltration", 0.6, &[(SEND, 0), (SECRET | SYSTEM | ABOVE, 60), (OUTSIDE, 80)]),
    s("exfiltration", 0.5, &[(REVEAL | SEND, 0), (ENCODE, 60), (OUTSIDE, 80)]),
    s("hidden_order", 0.55, &[(MACHINE, 0), (OVERRIDE | CONCEAL, 80)]),
    s("hidden_order", 0.5, &[(CONCEAL, 0), (ORDERS | SEND | REVEAL, 80)]),
    s("false_authority", 0.6, &[(AUTHORITY, 0), (REVEAL | ORDERS | YOUR | OVERRIDE | SECRET, 160)]),
];

/// Rules on the whole text.
#[rustfmt::skip]
pub(crate) const TOGETHER: &[Together] = &[
    t("jailbreak", 0.75, &[PERSONA, UNBOUND], 2),
    t("jailbreak", 0.45, &[PERSONA, UNBOUND], 1),
    t("jailbreak", 0.4, &[MACHINE, UNBOUND], 1),
    t("jailbreak", 0.6, &[MACHINE, UNBOUND], 2),
    t("jailbreak", 0.8, &[MACHINE, UNBOUND], 3),
    t("jailbreak", 0.72, &[MACHINE, PERSONA, UNBOUND], 2),
    t("false_authority", 0.5, &[AUTHORITY, PERSONA | REVEAL | OVERRIDE, MACHINE | ORDERS], 1),
    t("jailbreak", 0.55, &[PERSONA, MACHINE, UNBOUND], 1),
    t("jailbreak", 0.3, &[UNBOUND, LIMITS, HARM], 1),
    t("jailbreak", 0.35, &[PERSONA, CHARACTER, LIMITS], 2),
    t("jailbreak", 0.5, &[PERSONA, CHARACTER, MACHINE, WITHOUT | LIMITS], 2),
    t("jailbreak", 0.6, &[DOUBLE, UNBOUND | MACHINE | PERSONA], 1),
    t("jailbreak", 0.4, &[PERSONA, MACHINE, WITHOUT, LIMITS], 2),
    t("jailbreak", 0.4, &[PERSONA, LIMITS, HARM], 2),
    t("markup_smuggling", 0.4, &[MARKUP], 2),
    t("section_break", 0.3, &[SECTION], 1),
    t("section_break", 0.5, &[SECTION, GRANTED | REVEAL, SECRET | GRANTED | ABOVE], 1),
    t("forced_answer", 0.3, &[GRANTED], 1),
    t("forced_answer", 0.4, &[GRANTED, ORDERS | SECRET, FORCE], 1),
    t("hidden_order", 0.3, &[CONCEAL], 1),
    t("hidden_order", 0.45, &[ADDRESSED], 1),
    t("false_authority", 0.3, &[AUTHORITY], 1),
    t("forced_answer", 0.5, &[FORCE, GRANTED], 1),
    t("refusal_suppression", 0.6, &[FORCE, WITHOUT, REFUSAL], 2),
    t("false_authority", 0.55, &[AUTHORITY, SECRET | SYSTEM | MACHINE], 1),
    t("encoded_order", 0.4, &[CIPHER, ABOVE | SYSTEM], 1),
    t("encoded_order", 0.4, &[ENCODE, SYSTEM], 1),
];

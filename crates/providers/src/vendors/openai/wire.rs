//! The pieces of the format that whole and streamed answers share.

use std::borrow::Cow;

use domain::step::FinishReason;
use domain::usage::{MOST_TOKENS, Open, Usage};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::wire::token_counts::{Count, Group, split_writes};

/// Returns the canonical reason; `None` for unknown words.
pub(super) fn finish_reason(word: &str) -> Option<FinishReason> {
    Some(match word {
        "stop" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::Refusal,
        _ => return None,
    })
}

/// The format's own words for the reason.
const FORMAL: [&str; 5] = ["stop", "length", "content_filter", "tool_calls", "function_call"];

/// Puts the reasons of all choices into the format's words: clients support no others, and some servers
/// use words of their own.
pub(super) fn formalise_reasons(answer: &mut Map<String, Value>) {
    let choices = answer.get_mut("choices").and_then(Value::as_array_mut);
    for choice in choices.into_iter().flatten() {
        let Some(Value::String(word)) = choice.get_mut("finish_reason") else { continue };
        if !word.is_empty() && !FORMAL.contains(&word.as_str()) {
            // An unknown reason still ends the answer.
            let reason = finish_reason(word).unwrap_or(FinishReason::Stop);
            reason.chat_word().clone_into(word);
        }
    }
}

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Group<PromptDetails>,
    completion_tokens_details: Group<CompletionDetails>,
}

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names of the wire format")]
struct PromptDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
    cache_write_1h_tokens: Count,
}

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

impl WireUsage {
    /// Returns the usage; `None` if it has no count of the prompt.
    pub(super) fn read(&self) -> Option<Usage> {
        let mut usage = self.halves()?;
        let input = self.prompt_tokens_details.read(&mut usage.open);
        let output = self.completion_tokens_details.read(&mut usage.open);
        usage.cached = input.cached_tokens.or_none(&mut usage.open);
        let hour = input.cache_write_1h_tokens;
        split_writes(input.cache_write_tokens, hour, Count::Missing, &mut usage);
        if hour.known().is_some() {
            usage.open.cache_write = 0;
        }
        usage.reasoning = output.reasoning_tokens.or_none(&mut usage.open);
        self.compare_with_total(&mut usage);
        // More tokens were read from the cache than the prompt has: the count is unknown then.
        if usage.cached > usage.prompt && usage.cached <= MOST_TOKENS {
            usage.cached = 0;
            usage.open.detail = true;
        }
        usage.open.detail |= usage.cached.saturating_add(usage.cache_write) > usage.prompt
            || usage.reasoning > usage.completion;
        usage.reported()
    }

    /// Returns the tokens of the prompt, for answers that count nothing else; some servers write them
    /// as the total.
    pub(super) fn prompt(&self) -> Option<u64> {
        let prompt = match self.prompt_tokens {
            Count::Missing => self.total_tokens,
            prompt => prompt,
        };
        prompt.known().filter(|tokens| *tokens <= MOST_TOKENS)
    }

    /// Returns prompt and completion. A half that is missing is the rest of the total, if there is one.
    fn halves(&self) -> Option<Usage> {
        let (prompt, completion) = (self.prompt_tokens, self.completion_tokens);
        let rest = |known: u64| self.total_tokens.known()?.checked_sub(known);
        let mut open = Open::default();
        let (prompt, completion) = match (prompt.known(), completion.known()) {
            (Some(prompt), Some(completion)) => (prompt, completion),
            (Some(known), None) => {
                let rest = rest(known);
                open.completion = rest.is_none() || completion.is_nonsense();
                (known, rest.unwrap_or(0))
            }
            (None, Some(known)) => {
                let rest = rest(known);
                if rest.is_none() && !prompt.is_nonsense() {
                    return None;
                }
                open.prompt = rest.is_none() || prompt.is_nonsense();
                (rest.unwrap_or(0), known)
            }
            (None, None) => return None,
        };
        Some(Usage { completion, open, ..Usage::of_prompt(prompt) })
    }

    /// Compares the parts with the total. Some servers count reasoning, or cached tokens, in the total
    /// alone. Tokens in the total beside all parts were generated: they are paid for.
    fn compare_with_total(&self, usage: &mut Usage) {
        let total = match self.total_tokens {
            Count::Missing => return,
            Count::Sound(total) if total <= MOST_TOKENS => total,
            _ => {
                usage.open.detail = true;
                return;
            }
        };
        let sum = usage.prompt.saturating_add(usage.completion);
        let Some(rest) = total.checked_sub(sum) else {
            usage.open.detail = true;
            return;
        };
        if rest > 0 && rest == usage.cached.saturating_add(usage.cache_write) {
            usage.prompt += rest;
        } else if rest > 0 {
            usage.open.detail |= rest != usage.reasoning;
            usage.completion += rest;
        }
    }
}

/// A text that is copied only when it contains escapes. Null counts as empty.
#[derive(Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or null")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Whether a member has any content: not null, not empty.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Says(pub(super) bool);

impl<'de> Deserialize<'de> for Says {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SaysVisitor)
    }
}

struct SaysVisitor;

impl<'de> Visitor<'de> for SaysVisitor {
    type Value = Says;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Says, E> {
        Ok(Says(true))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Says, E> {
        Ok(Says(true))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Says, E> {
        Ok(Says(true))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Says, E> {
        Ok(Says(true))
    }

    fn visit_str<E>(self, text: &str) -> Result<Says, E> {
        Ok(Says(!text.is_empty()))
    }

    fn visit_unit<E>(self) -> Result<Says, E> {
        Ok(Says(false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Says, A::Error> {
        let mut says = false;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            says = true;
        }
        Ok(Says(says))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Says, A::Error> {
        let mut says = false;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            says = true;
        }
        Ok(Says(says))
    }
}

/// The content of one choice in a chunk, and whether it is more than role and text.
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub(super) content: Text<'a>,
    pub(super) more: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Delta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DeltaVisitor;
        impl<'de> Visitor<'de> for DeltaVisitor {
            type Value = Delta<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a delta")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Delta::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut delta = Delta::default();
                while let Some(name) = map.next_key::<Text<'de>>()? {
                    match &*name.0 {
                        "content" => delta.content = map.next_value()?,
                        "role" => drop(map.next_value::<IgnoredAny>()?),
                        "" => return Err(A::Error::custom("a member without a name")),
                        _ => delta.more |= map.next_value::<Says>()?.0,
                    }
                }
                Ok(delta)
            }
        }
        deserializer.deserialize_any(DeltaVisitor)
    }
}

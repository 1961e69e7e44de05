//! The parts of a request in a vendor's format that have no canonical form: one table of what becomes
//! of each.
//!
//! Everything that changes nothing a reader of the answer relies on is left out and named in the
//! header `X-Sluice-Dropped-Params`: so is what nobody knows yet, because a vendor's clients send new
//! parameters long before a gateway knows them. Refused is what would let a caller choose the model,
//! the address, the account or the key, and what the caller's next request, bill or answer depends on.

use domain::original::LONGEST_NAME;
pub(crate) use domain::original::shown_name as shown;
use gateway::CHOOSES_MODEL;
use serde_json::{Value, json};

use crate::http::error::{Failure, Result};
use crate::inference::canonical::read::{Node, invalid};
use crate::inference::canonical::translation_gaps::TranslationGaps;

/// A vendor's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    /// Anthropic's, of `/messages`.
    Anthropic,
    /// OpenAI's newer one, of `/responses`.
    Openai,
    /// Google's, of `/gemini`.
    Gemini,
}

/// The fate of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Left out without a word: it has no effect here.
    Ignored,
    /// Left out and named.
    Dropped,
    /// Refused, with the reason if there is more to explain than that.
    Refused(Option<&'static str>),
}

/// The parameter by which Anthropic's packages ask it to keep the conversation. They continue without
/// it if the error reports in the vendor's format that it is not supported.
const THREAD: &str = "thread";

const NOTHING_KEPT: Option<&str> =
    Some("nothing is kept between two requests; send the conversation in input");
const NO_CACHE_OF_OURS: Option<&str> =
    Some("send the contents themselves, which providers keep by themselves");
const NONE_OF_THE_KIND: Option<&str> = Some("this endpoint has none of the kind");

/// The parameters that are not left out and named.
const PARAMETERS: &[(Vendor, &str, Fate)] = &[
    (Vendor::Anthropic, THREAD, Fate::Refused(None)),
    // Addresses of servers with their credentials, which the vendor would call.
    (Vendor::Anthropic, MCP_SERVERS, Fate::Refused(None)),
    // Files and skills that the vendor keeps.
    (Vendor::Anthropic, "container", Fate::Refused(None)),
    (Vendor::Openai, "previous_response_id", Fate::Refused(NOTHING_KEPT)),
    (Vendor::Openai, "conversation", Fate::Refused(NOTHING_KEPT)),
    (Vendor::Openai, "prompt", Fate::Refused(NONE_OF_THE_KIND)),
    (Vendor::Openai, "background", Fate::Refused(NONE_OF_THE_KIND)),
    (Vendor::Openai, "top_logprobs", Fate::Refused(NONE_OF_THE_KIND)),
    (Vendor::Openai, "stream_options", Fate::Ignored),
    (Vendor::Gemini, "cachedContent", Fate::Refused(NO_CACHE_OF_OURS)),
    (Vendor::Gemini, "responseLogprobs", Fate::Refused(NONE_OF_THE_KIND)),
];

/// The parameter of Anthropic's that lists MCP servers.
pub(crate) const MCP_SERVERS: &str = "mcp_servers";

/// The types of tools by which a vendor calls an MCP server of the caller's choice.
pub(crate) const MCP_TOOLS: [&str; 3] = ["mcp", "mcp_toolset", "mcpServers"];

/// The tools that are refused because they search what the vendor keeps for its customer.
pub(crate) const SEARCHING_TOOLS: [&str; 3] = ["file_search", "fileSearch", "retrieval"];

/// The fate of a parameter that the canonical form has no place for.
pub(crate) fn fate(vendor: Vendor, name: &str, value: &Value) -> Fate {
    if value.is_null() || is_idle(vendor, name, value) {
        return Fate::Ignored;
    }
    if chooses_model(name) {
        return Fate::Refused(Some("the project decides which model answers"));
    }
    let row = PARAMETERS.iter().find(|(of, row, _)| *of == vendor && *row == name);
    row.map_or(Fate::Dropped, |(_, _, fate)| *fate)
}

/// Whether a parameter would choose another model, in whichever case it is spelled.
pub(crate) fn chooses_model(name: &str) -> bool {
    let letters = |name: &str| name.replace('_', "").to_ascii_lowercase();
    // The names are short.
    name.len() <= LONGEST_NAME && CHOOSES_MODEL.iter().any(|known| letters(known) == letters(name))
}

/// Whether a value is the one that applies anyway.
fn is_idle(vendor: Vendor, name: &str, value: &Value) -> bool {
    match (vendor, name) {
        (Vendor::Openai, "truncation") => value == "disabled",
        (Vendor::Openai, "background") | (Vendor::Gemini, "responseLogprobs") => value == false,
        (Vendor::Openai, "top_logprobs") => value == 0,
        _ => false,
    }
}

/// The name of a parameter that is left out, if the caller learns it, or its refusal.
pub(crate) fn leave_out(vendor: Vendor, name: &str, value: &Value) -> Result<Option<String>> {
    match fate(vendor, name, value) {
        Fate::Ignored => Ok(None),
        Fate::Dropped => Ok(Some(shown(name))),
        Fate::Refused(why) => Err(unsupported(name, why)),
    }
}

fn unsupported(name: &str, why: Option<&str>) -> Failure {
    let shown = shown(name);
    let failure = invalid(match why {
        Some(why) => format!("{shown} is not supported: {why}"),
        None => format!("{shown} is not supported"),
    });
    match name {
        THREAD => failure
            .details(json!({"error_code": "thread_unsupported_request", "unsupported": [THREAD]})),
        MCP_SERVERS => failure.reaches_address(),
        _ => failure,
    }
}

/// The tools of a request: those that any model can be offered, and those that only a vendor has.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    functions: Vec<Value>,
    /// Each with its name as the header shows it, its own name and its type.
    left_out: Vec<(String, String, String)>,
}

impl Offered {
    /// Adds a function.
    pub(crate) fn add(&mut self, function: Value) {
        self.functions.push(function);
    }

    /// Leaves out a tool that only a vendor has; one that would act beyond the conversation is
    /// refused. The vendor's own tools have no name but their type.
    pub(crate) fn leave_out(&mut self, mut tool: Node, kind: String) -> Result<()> {
        if MCP_TOOLS.contains(&kind.as_str()) {
            return Err(tool.unsupported("a tool", &kind).reaches_address());
        }
        if SEARCHING_TOOLS.contains(&kind.as_str()) {
            return Err(tool.unsupported("a tool", &kind));
        }
        let name = tool.maybe_text("name")?.unwrap_or_else(|| kind.clone());
        self.left_out.push((format!("{} ({})", tool.at(), shown(&kind)), name, shown(&kind)));
        Ok(())
    }

    /// The result of [`Self::choose`]; in a request that may pass through, a choice that cannot be met is
    /// no fault.
    pub(crate) fn choose_if_possible(
        self,
        choice: Option<&Value>,
        gaps: &mut TranslationGaps,
    ) -> Result<(Vec<Value>, Vec<String>)> {
        let functions = if gaps.may_pass_through() { self.functions.clone() } else { Vec::new() };
        let chosen = gaps.allow(self.choose(choice))?;
        Ok(chosen.unwrap_or((functions, Vec::new())))
    }

    /// The functions, and the names of the tools that are left out. A choice that only those could
    /// meet is refused.
    pub(crate) fn choose(self, choice: Option<&Value>) -> Result<(Vec<Value>, Vec<String>)> {
        let Self { functions, left_out } = self;
        let of = |function: &Value| function["function"]["name"].as_str().map(str::to_owned);
        let named = choice
            .and_then(of)
            .filter(|named| functions.iter().all(|function| of(function).as_ref() != Some(named)));
        if let Some((_, name, kind)) =
            named.and_then(|named| left_out.iter().find(|(_, name, _)| *name == named))
        {
            return Err(invalid(format!(
                "tool_choice demands '{}', a tool of type '{kind}' that only its vendor has: offer a \
                 function of your own instead",
                shown(name)
            )));
        }
        if functions.is_empty()
            && let Some((first, ..)) = left_out.first()
            && choice.is_some_and(|choice| choice == "required")
        {
            return Err(invalid(format!(
                "tool_choice demands a call, and no tool is left to call: {first} is one that only \
                 its vendor has. Offer a function of your own"
            )));
        }
        Ok((functions, left_out.into_iter().map(|(shown, ..)| shown).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_no_harm_is_left_out_and_named() {
        use Vendor::{Anthropic, Gemini, Openai};
        let table = [
            (Anthropic, "context_management", json!({"edits": []}), Fate::Dropped),
            (Anthropic, "speed", json!("fast"), Fate::Dropped),
            (Anthropic, "of_tomorrow", json!(1), Fate::Dropped),
            (Anthropic, "of_tomorrow", Value::Null, Fate::Ignored),
            (Anthropic, "mcp_servers", json!([{"url": "https://a.example"}]), Fate::Refused(None)),
            (Anthropic, "container", json!("c"), Fate::Refused(None)),
            (Openai, "client_metadata", json!({"a": "b"}), Fate::Dropped),
            (Openai, "truncation", json!("auto"), Fate::Dropped),
            (Openai, "truncation", json!("disabled"), Fate::Ignored),
            (Openai, "background", json!(false), Fate::Ignored),
            (Openai, "background", json!(true), Fate::Refused(NONE_OF_THE_KIND)),
            (Openai, "top_logprobs", json!(2), Fate::Refused(NONE_OF_THE_KIND)),
            (Openai, "previous_response_id", json!("resp_1"), Fate::Refused(NOTHING_KEPT)),
            (Openai, "container", json!("c"), Fate::Dropped),
            (Gemini, "safetySettings", json!([]), Fate::Dropped),
            (Gemini, "cachedContent", json!("cachedContents/1"), Fate::Refused(NO_CACHE_OF_OURS)),
            (Gemini, "responseLogprobs", json!(false), Fate::Ignored),
            (Gemini, "responseLogprobs", json!(true), Fate::Refused(NONE_OF_THE_KIND)),
        ];
        for (vendor, name, value, expected) in table {
            assert_eq!(fate(vendor, name, &value), expected, "{name} {value}");
        }
        for name in CHOOSES_MODEL {
            for vendor in [Anthropic, Openai, Gemini] {
                let refused = matches!(fate(vendor, name, &json!("x")), Fate::Refused(Some(_)));
                assert!(refused, "{name}");
            }
        }
        assert!(
            chooses_model("apiBase") && chooses_model("Base_Url") && !chooses_model("baseball")
        );
    }

    #[test]
    fn a_name_cannot_forge_a_header() {
        let name = format!("a, b\r\nc\u{e9}{}", "d".repeat(100));
        let left_out = leave_out(Vendor::Openai, &name, &json!(1)).unwrap().unwrap();
        assert!(left_out.starts_with("a??b??c?ddd") && left_out.len() == LONGEST_NAME);
    }
}

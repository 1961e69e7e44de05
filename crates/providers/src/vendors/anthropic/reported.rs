//! The charges beside tokens that an answer reports.

use domain::fees::{Extras, MOST_USES, Surcharge, VendorTool};
use domain::usage::Open;
use serde::Deserialize;
use serde_json::Value;

use crate::chat_form::text;
use crate::wire::token_counts::Count;

/// The tools that run in a container.
const IN_CONTAINERS: [&str; 3] =
    ["code_execution", "bash_code_execution", "text_editor_code_execution"];

/// The charges of an answer as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    searches: Count,
    is_fast: Option<bool>,
    is_us: Option<bool>,
    /// The calls in the answer itself. The vendor does not charge for searches that failed: its own
    /// count wins.
    seen_searches: u32,
    runs_code: bool,
}

impl Reported {
    /// Notes a block of the answer. Returns whether it is a use that is charged for.
    pub(super) fn see(&mut self, block: &Value) -> bool {
        if text(block.get("type")) != "server_tool_use" {
            return false;
        }
        match text(block.get("name")) {
            "web_search" => self.seen_searches = self.seen_searches.saturating_add(1),
            name if IN_CONTAINERS.contains(&name) => self.runs_code = true,
            _ => return false,
        }
        true
    }

    /// The charges with a later report of the answer's usage.
    pub(super) fn with(self, usage: &Value) -> Self {
        let uses = usage.get("server_tool_use");
        let searches = uses.and_then(|uses| uses.get("web_search_requests"));
        let searches = searches.and_then(|count| Count::deserialize(count).ok());
        let is = |name: &str, yes: &str| {
            let word = usage.get(name).and_then(Value::as_str)?;
            Some(word == yes)
        };
        Self {
            searches: self.searches.followed_by(searches.unwrap_or_default()),
            is_fast: is("speed", "fast").or(self.is_fast),
            is_us: is("inference_geo", "us").or(self.is_us),
            ..self
        }
    }

    /// The extras of the usage. A count that makes no sense is none.
    pub(super) fn extras(self, open: &mut Open) -> Extras {
        let mut extras = Extras::default();
        let searches = self.searches.known().filter(|count| *count <= MOST_USES);
        open.detail |= searches.is_none() && self.searches != Count::Missing;
        let searches = searches.and_then(|count| u32::try_from(count).ok());
        extras.uses[VendorTool::WebSearch] = searches.unwrap_or(self.seen_searches);
        extras.uses[VendorTool::CodeExecution] = u32::from(self.runs_code);
        extras.surcharges[Surcharge::Fast] = self.is_fast;
        extras.surcharges[Surcharge::Us] = self.is_us;
        extras
    }
}

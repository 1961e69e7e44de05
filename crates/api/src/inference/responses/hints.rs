//! Members of a tool that only some vendors' models know.

use serde_json::json;

use crate::http::error::Result;
use crate::inference::canonical::members;
use crate::inference::canonical::read::Node;

/// Members of tools that other vendors' models lack: refused, or at the vendor's root left out.
pub(super) struct Hints<'a> {
    is_root: bool,
    dropped: &'a mut Vec<String>,
}

impl<'a> Hints<'a> {
    pub(super) fn new(is_root: bool, dropped: &'a mut Vec<String>) -> Self {
        Self { is_root, dropped }
    }

    /// Ends the reading of a tool. A deferred one is offered at once, to every model.
    pub(super) fn end(&mut self, mut tool: Node) -> Result<()> {
        let idle = [
            ("allowed_callers", json!(["direct"])),
            ("defer_loading", false.into()),
            ("async", false.into()),
        ];
        for (name, value) in idle {
            match tool.idle(name, &value) {
                Err(_) if self.is_root => self.dropped.push(name.to_owned()),
                idle => idle?,
            }
        }
        if !self.is_root {
            return tool.end();
        }
        self.dropped.extend(tool.left().map(|name| members::shown(&name)));
        Ok(())
    }
}

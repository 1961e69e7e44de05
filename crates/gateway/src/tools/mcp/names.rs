//! The names of the tools of MCP servers for models.

use std::collections::{HashMap, HashSet};

/// The longest name of a function that every provider takes.
const LONGEST: usize = 64;

/// Gives every tool of every server a name of its own that all providers accept: its own name if
/// nothing else has it, else one that begins with the label of its server.
pub(crate) struct Names {
    taken: HashSet<String>,
    uses: HashMap<String, usize>,
}

impl Names {
    /// `functions` are the names that are given, `tools` those of all servers.
    pub(crate) fn new<'a>(
        functions: impl Iterator<Item = &'a str>,
        tools: impl Iterator<Item = &'a str>,
    ) -> Self {
        let taken: HashSet<String> = functions.map(str::to_owned).collect();
        let mut uses = HashMap::new();
        for tool in tools {
            *uses.entry(tool.to_owned()).or_insert(0) += 1;
        }
        Self { taken, uses }
    }

    /// The name of one tool.
    pub(crate) fn give(&mut self, label: &str, tool: &str) -> String {
        let plain = clean(tool);
        let is_unique = self.uses.get(tool) == Some(&1) && !self.taken.contains(tool);
        let wanted =
            if plain == tool && is_unique { plain } else { clean(&format!("{label}__{tool}")) };
        let mut name = wanted.clone();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            let end = format!("_{number}");
            name = format!("{}{end}", &wanted[..wanted.len().min(LONGEST - end.len())]);
        }
        name
    }
}

/// Only what all providers take: letters, digits, `_` and `-`, with a letter or `_` in front.
fn clean(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut clean: String = name.chars().map(plain).collect();
    if !clean.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        clean.insert(0, '_');
    }
    clean.truncate(LONGEST);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own() {
        let long = "x".repeat(80);
        let tools = [
            ("eu", "search"),
            ("us", "search"),
            ("eu", "now"),
            ("eu", "weather"),
            ("eu", "files/read"),
            ("e u", "files.read"),
            ("eu", &long),
            ("us", &long),
            ("eu", "2d"),
        ];
        let mut names = Names::new(["weather"].into_iter(), tools.iter().map(|(_, tool)| *tool));
        let given: Vec<String> =
            tools.iter().map(|(label, tool)| names.give(label, tool)).collect();
        assert_eq!(given[..4], ["eu__search", "us__search", "now", "eu__weather"]);
        assert_eq!(given[4..6], ["eu__files_read", "e_u__files_read"]);
        assert_eq!(given[8], "eu__2d");
        assert!(given.iter().all(|name| name.len() <= LONGEST), "{given:?}");
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len(), "{given:?}");
    }

    #[test]
    fn names_that_become_alike_are_numbered() {
        let mut names = Names::new(std::iter::empty(), ["a.b", "a/b"].into_iter());
        assert_eq!(names.give("s", "a.b"), "s__a_b");
        assert_eq!(names.give("s", "a/b"), "s__a_b_2");
    }
}

//! A tool's answer, as the text that a model reads.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpAnswer {
    /// Its text; other content is only named.
    pub text: String,
    /// Whether the tool itself reports a failure.
    pub is_error: bool,
}

/// Most bytes of an answer that a model receives.
const MOST_TEXT_BYTES: usize = 256 * 1024;

const UNREADABLE: &str = "[something that is no text]";

/// Reads a result. Its texts are joined by line breaks; images and the like are only named.
pub(crate) fn read(result: CallToolResult) -> McpAnswer {
    let is_error = result.is_error.unwrap_or(false);
    let texts: Vec<String> = result.content.into_iter().map(text).collect();
    let text = match (texts.is_empty(), result.structured_content) {
        (true, Some(structured)) => structured.to_string(),
        _ => texts.join("\n"),
    };
    McpAnswer { text, is_error }
}

impl McpAnswer {
    /// Cuts a text off that is longer than a model may receive, and notes that in it.
    pub fn cut_off(&mut self) {
        if self.text.len() > MOST_TEXT_BYTES {
            self.text.truncate(self.text.floor_char_boundary(MOST_TEXT_BYTES));
            self.text.push_str("\n[cut off: the answer of the tool is longer than 256 KiB]");
        }
    }
}

fn text(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => format!("[a picture, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}]", audio.mime_type),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, .. } => format!("[a file, {uri}]"),
            _ => UNREADABLE.to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}, {}]", link.name, link.uri),
        _ => UNREADABLE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(result: Value) -> McpAnswer {
        let mut answer = read(serde_json::from_value(result).unwrap());
        answer.cut_off();
        answer
    }

    #[test]
    fn every_kind_of_content_becomes_text() {
        let answer = of(json!({"content": [
            {"type": "text", "text": "18 C"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ]}));
        let text = "18 C\n[a picture, image/png]\ninside\n[a file, file:///b]\n[c, file:///c]";
        assert_eq!(answer, McpAnswer { text: text.to_owned(), is_error: false });
    }

    #[test]
    fn structure_stands_in_for_missing_text() {
        let answer = of(json!({"content": [], "structuredContent": {"c": 18}, "isError": true}));
        assert_eq!(answer, McpAnswer { text: r#"{"c":18}"#.to_owned(), is_error: true });
    }

    #[test]
    fn a_long_answer_is_cut_off_and_says_so() {
        let long = "\u{e4}".repeat(MOST_TEXT_BYTES);
        let answer = of(json!({"content": [{"type": "text", "text": long}]}));
        assert!(answer.text.len() < MOST_TEXT_BYTES + 100, "{}", answer.text.len());
        assert!(answer.text.ends_with("256 KiB]"));
    }
}

//! Content blocks in Anthropic's format.

use serde_json::Value;

use crate::http::error::Result;
use crate::inference::canonical::documents::{self, titled};
use crate::inference::canonical::prompt::{call, image_part, text_part};
use crate::inference::canonical::read::{Node, invalid, malformed};

/// Content as blocks: a text is one of text.
pub(super) fn blocks(at: &str, content: Value) -> Result<Vec<Value>> {
    match content {
        Value::String(text) => Ok(vec![text_part(text)]),
        Value::Array(blocks) => Ok(blocks),
        _ => Err(malformed(format!("{at} must be a string or an array of blocks"))),
    }
}

/// Whether a block is the call of a tool that the vendor runs itself, or its result.
pub(super) fn is_of_vendors_tool(kind: &str) -> bool {
    kind == "server_tool_use"
        || ["tool_search", "web_search", "web_fetch", "code_execution"]
            .iter()
            .any(|tool| kind.ends_with("_tool_result") && kind.contains(tool))
}

/// A call of a tool.
pub(super) fn tool_use(block: &mut Node) -> Result<Value> {
    let (id, name) = (block.text("id")?, block.text("name")?);
    let arguments = match block.take("input") {
        None => "{}".to_owned(),
        Some(input @ Value::Object(_)) => input.to_string(),
        Some(_) => return Err(malformed(format!("{} must be an object", block.path("input")))),
    };
    block.pass_over(&["caller"]);
    Ok(call(&id, &name, &arguments))
}

/// An image, as bytes or by its address.
pub(super) fn image(block: &mut Node) -> Result<Value> {
    let Some(mut source) = block.maybe_node("source")? else {
        return Err(malformed(format!("Missing required parameter: {}", block.path("source"))));
    };
    let kind = source.text("type")?;
    let url = match kind.as_str() {
        "base64" => {
            let (media, data) = (source.text("media_type")?, source.text("data")?);
            format!("data:{media};base64,{data}")
        }
        "url" => source.text("url")?,
        _ => return Err(source.unsupported("a source", &kind)),
    };
    source.end()?;
    Ok(image_part(url, None))
}

/// A document, and whether what there is to know about it is lost: a file has no place for it.
pub(super) fn document(block: &mut Node) -> Result<(Value, bool)> {
    let (title, context) = (block.maybe_text("title")?, block.maybe_text("context")?);
    let Some(mut source) = block.maybe_node("source")? else {
        return Err(malformed(format!("Missing required parameter: {}", block.path("source"))));
    };
    let kind = source.text("type")?;
    let read = match kind.as_str() {
        "base64" => {
            let (media, data) = (source.text("media_type")?, source.text("data")?);
            let part = documents::document(&source.path("data"), title, &media, &data)?;
            (part, context.is_some())
        }
        "text" => {
            source.pass_over(&["media_type"]);
            (titled(title, context, &source.text("data")?), false)
        }
        "content" => {
            let at = source.path("content");
            let content = source.take("content").unwrap_or_default();
            let texts = Node::all(&at, blocks(&at, content)?).map(|block| {
                let mut block = block?;
                let kind = block.text("type")?;
                if kind != "text" {
                    return Err(block.unsupported("a block of a document", &kind));
                }
                block.pass_over(&["cache_control", "citations"]);
                let text = block.text("text")?;
                block.end()?;
                Ok(text)
            });
            let texts: Vec<String> = texts.collect::<Result<_>>()?;
            (titled(title, context, &texts.join("\n\n")), false)
        }
        "url" => {
            return Err(invalid(format!(
                "{} is not supported: documents are not fetched from addresses; send the document \
                 itself, in base64",
                source.path("url")
            ))
            .reaches_address());
        }
        _ => return Err(source.unsupported("a source", &kind)),
    };
    source.end()?;
    Ok(read)
}

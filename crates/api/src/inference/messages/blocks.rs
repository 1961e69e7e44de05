//! Content blocks in Anthropic's format.

use serde_json::Value;

use crate::http::error::Result;
use crate::inference::canonical::prompt::{call, image_part, text_part};
use crate::inference::canonical::read::{Node, malformed};

/// Content as blocks: a text is one of text.
pub(super) fn blocks(at: &str, content: Value) -> Result<Vec<Value>> {
    match content {
        Value::String(text) => Ok(vec![text_part(text)]),
        Value::Array(blocks) => Ok(blocks),
        _ => Err(malformed(format!("{at} must be a string or an array of blocks"))),
    }
}

/// A call of a tool.
pub(super) fn tool_use(mut block: Node) -> Result<Value> {
    let (id, name) = (block.text("id")?, block.text("name")?);
    let arguments = match block.take("input") {
        None => "{}".to_owned(),
        Some(input @ Value::Object(_)) => input.to_string(),
        Some(_) => return Err(malformed(format!("{} must be an object", block.path("input")))),
    };
    block.pass_over(&["caller"]);
    block.end()?;
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

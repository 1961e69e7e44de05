//! Documents: a PDF stays a file, a text becomes a text. So the words of a text are judged, and every
//! model can read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::error::Result;
use crate::inference::canonical::prompt::text_part;
use crate::inference::canonical::read::invalid;

const PDF: &str = "application/pdf";

/// The name of a PDF that has none: some providers require one.
const UNNAMED: &str = "document.pdf";

/// A document whose bytes are at a path in the request.
pub(crate) fn document(at: &str, name: Option<String>, media: &str, data: &str) -> Result<Value> {
    if media == PDF {
        let name = name.unwrap_or_else(|| UNNAMED.to_owned());
        let file = json!({"filename": name, "file_data": format!("data:{PDF};base64,{data}")});
        return Ok(json!({"type": "file", "file": file}));
    }
    if !media.starts_with("text/") {
        return Err(invalid(format!("{at}: a document must be a PDF or a text")));
    }
    let bytes = STANDARD.decode(data).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| invalid(format!("{at} must be a text in UTF-8 and base64")))?;
    Ok(titled(name, None, &text))
}

/// A document that is a text, with its name and what there is to know about it in front.
pub(crate) fn titled(name: Option<String>, context: Option<String>, text: &str) -> Value {
    let heads = [name, context].into_iter().flatten().filter(|head| !head.is_empty());
    let mut whole: String = heads.map(|head| head + "\n\n").collect();
    whole.push_str(text);
    text_part(whole)
}

//! The size of a prompt in tokens, at most.

use domain::conversation::{Body, Prompt};
use domain::model::Model;
use domain::original::{ExternalAccess, WireFormat};
use serde_json::Value;

use crate::pipeline::file_tokens;

/// Tokens around each message or part, in the formats that have any.
pub(super) const TOKENS_PER_MESSAGE: u64 = 4;
/// About the most tokens of an image in a prompt: its bytes give no count.
const TOKENS_PER_IMAGE: u64 = 4096;
/// The context window of a model whose window is not known: the largest of any vendor's models.
const LARGEST_WINDOW: u64 = 2_097_152;

/// Returns the bytes of the prompt (an upper bound of its tokens), and the bytes of everything but texts.
pub(super) fn sizes(prompt: &Prompt) -> (u64, u64) {
    let size = |value: &Value| value.to_string().len() as u64;
    let (mut bytes, mut unread, mut around) = (0, 0, 0);
    for message in &prompt.messages {
        around += TOKENS_PER_MESSAGE;
        unread += message.extra.values().map(size).sum::<u64>();
        match &message.body {
            Body::Empty => {}
            Body::Text(text) => bytes += text.len() as u64,
            Body::Parts(parts) => {
                for part in parts {
                    around += file_tokens::beyond_bytes(part);
                    let Some(members) = part.as_object() else {
                        unread += size(part);
                        continue;
                    };
                    // Every member counts: which of them is sent depends on the type and the provider.
                    for (name, value) in members {
                        match name.as_str() {
                            "type" => {}
                            "text" => {
                                around += TOKENS_PER_MESSAGE;
                                bytes += size(value);
                            }
                            "image_url" => unread += TOKENS_PER_IMAGE,
                            _ => unread += size(value),
                        }
                    }
                }
            }
        }
    }
    bytes += prompt.params.values().map(size).sum::<u64>();
    unread += prompt.original.as_ref().map_or(0, |original| original.bytes_beside() as u64);
    unread += TOKENS_PER_IMAGE.saturating_mul(images_beside(prompt));
    (bytes + unread + around, unread)
}

/// The images that a provider fetches for parts of the request which its canonical form lacks, such as a
/// screenshot in the result of a vendor's tool.
fn images_beside(prompt: &Prompt) -> u64 {
    let Some(original) = &prompt.original else { return 0 };
    let is_image = |access: &&ExternalAccess| {
        access.address.is_some() && matches!(&*access.kind, "image" | "image_url")
    };
    let fetched = original.external_access.iter().filter(is_image).count();
    if fetched == 0 {
        return 0;
    }
    let parts = prompt.messages.iter().filter_map(|message| match &message.body {
        Body::Parts(parts) => Some(parts),
        _ => None,
    });
    let images = parts.flatten().filter(|part| part.get("image_url").is_some()).count();
    fetched.saturating_sub(images) as u64
}

/// The most tokens of what has no bound in bytes: documents that the provider fetches or keeps, whose sizes
/// are not known here, and videos, whose pictures each count as much, however well they are compressed. A
/// provider refuses a prompt that is longer than the model's context window.
pub(super) fn uncounted(prompt: &Prompt, context_window: Option<u64>) -> u64 {
    let Some(original) = &prompt.original else { return 0 };
    let has_documents = original.external_access.iter().any(|access| match original.format {
        // Everything else is a tool's: its charges count it.
        WireFormat::Responses => matches!(&*access.kind, "document" | "file"),
        // Pictures are counted by themselves, and servers of tools with the tools.
        _ => !matches!(&*access.kind, "image" | "image_url" | "mcp" | "mcp_toolset"),
    });
    let is_unbounded = has_documents || original.has_video;
    if is_unbounded { context_window.unwrap_or(LARGEST_WINDOW) } else { 0 }
}

/// The most tokens of what a request continues, which are part of its prompt again: as they were counted,
/// or, if nothing counted them for this model, what its context window holds.
pub(super) fn continued(prompt: &Prompt, model: &Model) -> u64 {
    let Some(original) = &prompt.original else { return 0 };
    let continuation = &original.continuation;
    let window = model.config.context_window;
    if !continuation.adds_tokens() || !providers::keeps_answers(model) {
        0
    } else if continuation.counted_by.as_ref() == Some(&model.identifier) {
        continuation.tokens.min(window.unwrap_or(u64::MAX))
    } else {
        window.unwrap_or(LARGEST_WINDOW)
    }
}

//! The recorded contents of earlier calls, which a request continues.

use domain::ids::StepId;
use domain::step::Content;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bounded_read::bounded;
use crate::capacity::body_memory::{BodyOwner, json_bytes, plain_bytes};
use crate::capacity::offload::offload;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Caller;

/// A part of a content, without the rest.
pub(super) trait Part: for<'de> Deserialize<'de> {
    /// Whether it is all of the content.
    const IS_WHOLE: bool = false;

    /// It as JSON, for its weight. Not asked for if it is all of the content.
    fn json(&self) -> String {
        String::new()
    }
}

impl Part for Content {
    const IS_WHOLE: bool = true;
}

/// The placeholders, with their originals.
#[derive(Deserialize)]
pub(super) struct PlaceholdersPart {
    #[serde(default)]
    pub(super) placeholders: Option<Value>,
}

impl Part for PlaceholdersPart {
    fn json(&self) -> String {
        json!([self.placeholders]).to_string()
    }
}

/// The answer, and the placeholders in it.
#[derive(Deserialize)]
pub(super) struct AnswerPart {
    #[serde(default)]
    pub(super) output: Option<Value>,
    #[serde(default)]
    pub(super) placeholders: Option<Value>,
}

impl Part for AnswerPart {
    fn json(&self) -> String {
        json!([self.output, self.placeholders]).to_string()
    }
}

impl Gateway {
    /// A part of the content of a step of the caller's project; `None` if the content is not stored. It is
    /// read beside the event loop, and the memory that it takes is charged like that of the request's body,
    /// and as long.
    pub(super) async fn recorded_part<P: Part>(
        &self,
        caller: &Caller,
        step: StepId,
    ) -> Result<Option<P>> {
        let Some(sealed) = bounded(self.store.sealed_contents(&[step])).await?.pop() else {
            return Ok(None);
        };
        let (owner, share) = (BodyOwner::Project(caller.project.id()), caller.share());
        let sealing = &caller.project.sealing;
        let packed = offload(share, sealed.size(), || sealed.open_packed(sealing)).await??;
        let size = packed.size();
        let plain = plain_bytes(size);
        caller.charge.add(&self.body_memory, owner, plain).await?;
        let unpacked = offload(share, size, || {
            let json = packed.unpack()?;
            let weight = if P::IS_WHOLE { json_bytes(&json, true) } else { Ok(plain) };
            Ok::<_, store::Error>((json, weight))
        });
        let (json, weight) = unpacked.await??;
        let weight = weight.map_err(|_| {
            Error::invalid(format!(
                "the conversation before response {step} has too many parts to be read again: send the \
                 part of it that matters in input"
            ))
        })?;
        caller.charge.add(&self.body_memory, owner, weight.saturating_sub(plain)).await?;
        let read = offload(share, size, || {
            let part: P = serde_json::from_slice(&json)?;
            let kept = if P::IS_WHOLE {
                weight
            } else {
                json_bytes(part.json().as_bytes(), true).unwrap_or(weight)
            };
            Ok::<_, serde_json::Error>((part, kept))
        });
        let (part, kept) = read.await?.map_err(|error| {
            store::Error::Corrupt(format!("the content of step {step}: {error}"))
        })?;
        caller.charge.give_back(weight.saturating_sub(kept));
        Ok(Some(part))
    }
}

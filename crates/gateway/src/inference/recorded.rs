//! The recorded contents of earlier calls, which a request continues.

use domain::ids::StepId;
use domain::step::Content;
use serde::Deserialize;
use serde_json::Value;

use crate::bounded_read::bounded;
use crate::capacity::body_memory::{BodyOwner, json_bytes, plain_bytes};
use crate::capacity::offload::offload;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::caller::Caller;

/// The placeholders of a content, without the rest of it.
#[derive(Deserialize)]
struct PlaceholdersAlone {
    #[serde(default)]
    placeholders: Option<Value>,
}

impl Gateway {
    /// The content of a step of the caller's project; `None` if it is not stored. The memory that it takes
    /// is charged like that of the request's body, and as long.
    pub(super) async fn recorded_content(
        &self,
        caller: &Caller,
        step: StepId,
    ) -> Result<Option<Content>> {
        self.read_recorded(caller, step, true).await
    }

    /// The placeholders in the content of a step with their originals; `None` if there are none, or if the
    /// content is not stored.
    pub(super) async fn recorded_placeholders(
        &self,
        caller: &Caller,
        step: StepId,
    ) -> Result<Option<Value>> {
        let content = self.read_recorded::<PlaceholdersAlone>(caller, step, false).await?;
        Ok(content.and_then(|content| content.placeholders))
    }

    /// Reads a recorded content beside the event loop. `is_whole`: whether all of it stays in memory.
    async fn read_recorded<T: for<'de> Deserialize<'de>>(
        &self,
        caller: &Caller,
        step: StepId,
        is_whole: bool,
    ) -> Result<Option<T>> {
        let Some(sealed) = bounded(self.store.sealed_contents(&[step])).await?.pop() else {
            return Ok(None);
        };
        let owner = BodyOwner::Project(caller.project.id());
        let size = sealed.size();
        let mut charge = self.body_memory.charge(owner, plain_bytes(size)).await?;
        let sealing = &caller.project.sealing;
        let json = offload(caller.share(), size, || sealed.open(sealing)).await??;
        charge.raise(json_bytes(&json, is_whole)?).await?;
        let read = || serde_json::from_slice(&json);
        let read = offload(caller.share(), json.len(), read).await?;
        let read = read.map_err(|error| {
            store::Error::Corrupt(format!("the content of step {step}: {error}"))
        })?;
        if is_whole {
            caller.charge.hold(charge);
        }
        Ok(Some(read))
    }
}

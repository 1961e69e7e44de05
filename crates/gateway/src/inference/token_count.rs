//! The tokens of a conversation, before it is sent: nothing is called, recorded or charged.

use domain::conversation::Prompt;

use crate::capacity::offload::offload;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::inference::chat::{check_tools, prepare};
use crate::pipeline::tokens;
use crate::safety::prompt_strings::raw_size;
use crate::state::caller::Caller;

impl Gateway {
    /// About the tokens that a model counts in a prompt. A prompt that no conversation may have is
    /// refused, and so is a model that the project does not have.
    pub async fn count_tokens(
        &self,
        caller: &Caller,
        model: Option<&str>,
        mut prompt: Prompt,
    ) -> Result<u64> {
        caller.project.check_active()?;
        prepare(&mut prompt.params)?;
        check_tools(&prompt.params)?;
        let model = model.map(|model| caller.project.model(model)).transpose()?;
        let context_window = model.and_then(|model| model.config.context_window);
        let count = || tokens::count(&prompt, "", context_window).prompt;
        offload(caller.share(), raw_size(&prompt), count).await
    }
}

//! The tokens of a conversation, before it is sent: nothing is called, recorded or charged.

use domain::conversation::Prompt;
use domain::step::ApiEndpoint;

use crate::capacity::offload::offload;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::inference::chat::{check_tools, prepare};
use crate::pipeline::tokens;
use crate::safety::prompt_strings::raw_size;
use crate::state::caller::Caller;

impl Gateway {
    /// About the tokens that a model counts in a prompt of an endpoint. A prompt that no conversation may
    /// have is refused, and so are an endpoint that the key may not use, a model that it may not call,
    /// and one that the project does not have.
    pub async fn count_tokens(
        &self,
        caller: &Caller,
        api_endpoint: ApiEndpoint,
        model: Option<&str>,
        mut prompt: Prompt,
    ) -> Result<u64> {
        caller.project.check_active()?;
        caller.check_endpoint(api_endpoint)?;
        prepare(&mut prompt.params)?;
        check_tools(&prompt.params)?;
        let model = model.map(|model| caller.project.model(model)).transpose()?;
        if let Some(model) = model {
            caller.check_model(model)?;
        }
        let context_window = model.and_then(|model| model.config.context_window);
        let count = || tokens::count(&prompt, "", context_window).prompt;
        offload(caller.share(), raw_size(&prompt), count).await
    }
}

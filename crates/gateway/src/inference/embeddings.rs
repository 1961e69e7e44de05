//! Embeddings: texts in, vectors out, and no credential reaches an index.

use domain::conversation::{Message, Prompt};
use domain::step::ApiEndpoint;
use domain::usage::{Open, Usage};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::attributes::NamedInBody;
use crate::pipeline::auto_trace::{AutoTracing, Unanswered, completed};
use crate::pipeline::call_outcome::CallRecord;
use crate::pipeline::choose::Fallbacks;
use crate::pipeline::context::RequestContext;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::screen::{Leaks, PiiRule, ScreeningRequest};
use crate::state::caller::Caller;

/// The model if the caller names none.
const DEFAULT_MODEL: &str = "text-embedding-3-small";
/// The most texts of one request, as with OpenAI.
pub const MOST_TEXTS: usize = 2048;
const MOST_DIMENSIONS: u64 = 65_536;

/// Texts to embed.
#[derive(Debug)]
pub struct EmbeddingRequest {
    /// The trace; without one the call gets a trace of its own.
    pub trace_id: Option<String>,
    /// The model; without one a small one of OpenAI's.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
    /// The number of dimensions of each vector, if the model lets one choose.
    pub dimensions: Option<u64>,
    /// The user that it is for, as the client names it.
    pub user: Option<String>,
}

/// The result of a request for embeddings.
#[derive(Debug)]
pub enum Embeddings {
    /// Vectors, in the order of the texts.
    Vectors {
        /// One for each text.
        vectors: Vec<Vec<f32>>,
        /// The identifier of the model that made them.
        model: String,
        /// The tokens of the texts.
        tokens: u64,
        /// The record of the call.
        record: CallRecord,
    },
    /// Refused by safety, at no cost.
    Blocked(Refusal),
}

impl Gateway {
    /// Checks texts, has them embedded, and records what it cost.
    pub fn embed<'a>(
        &'a self,
        caller: &'a Caller,
        request: EmbeddingRequest,
    ) -> BoxFuture<'a, std::result::Result<Embeddings, Unanswered>> {
        Box::pin(async move {
            check(&request)?;
            let context = self
                .traced_context(
                    caller,
                    request.trace_id.as_deref(),
                    ApiEndpoint::Embeddings,
                    AutoTracing::BySession,
                    NamedInBody { user: request.user.as_deref(), ..NamedInBody::default() },
                )
                .await?;
            let opened = context.opened.clone();
            let answer = self.vectors(context, request).await;
            completed(opened, answer).await
        })
    }

    /// The vectors, recorded.
    fn vectors(
        &self,
        context: RequestContext,
        request: EmbeddingRequest,
    ) -> BoxFuture<'_, Result<Embeddings>> {
        Box::pin(async move {
            let name = request.model.as_deref().unwrap_or(DEFAULT_MODEL);
            let project = context.caller.project.clone();
            let check_model = || {
                let model = project.model_of_one_purpose(name)?;
                context.caller.check_model(model)?;
                providers::check_embeddings(model)
                    .map_err(|error| Error::invalid(error.to_string()))
            };
            // As with images: a default model that is not registered is not the caller's mistake, so
            // the texts are judged first.
            if request.model.is_some() {
                check_model()?;
            }
            let screening = ScreeningRequest {
                prompt: prompt(request.texts, request.dimensions),
                pii: PiiRule::Settings,
            };
            let screened = match self.screened(&context, screening).await? {
                Ok(screened) => screened,
                Err(refusal) => return Ok(Embeddings::Blocked(refusal)),
            };
            let is_public =
                project.model_of_one_purpose(name).is_ok_and(|model| !model.is_private());
            if let Some(reason) = leak(screened.leaks(), is_public) {
                let category = if screened.leaks().secret { "secret" } else { "pii" };
                let refused = screened.refused(reason.to_owned(), category, None);
                return self.refuse(&context, refused).await.map(Embeddings::Blocked);
            }
            check_model()?;
            let routed = screened.direct(name, Fallbacks::Yes)?;
            let (mut flight, answer) = self.call_embed(routed).await?;
            let outcome = &mut flight.outcome;
            outcome.usage = answer.tokens.map(|tokens| {
                let open = Open { prompt: answer.is_part, ..Open::default() };
                Usage { open, ..Usage::of_prompt(tokens) }
            });
            outcome.upstream_model.clone_from(&answer.upstream_model);
            outcome.message = Some(shape(&answer.vectors));
            let funded = flight.funded()?;
            let (model, step) = (funded.model().identifier.clone(), funded.step());
            let recorded = flight.finish().await?;
            let record = CallRecord { step, trace: context.trace.id(), cost: recorded.cost };
            let tokens = recorded.usage.prompt;
            Ok(Embeddings::Vectors { tokens, model, record, vectors: answer.vectors })
        })
    }
}

fn check(request: &EmbeddingRequest) -> Result<()> {
    let mut faults = Vec::new();
    if request.texts.is_empty() || request.texts.iter().any(String::is_empty) {
        faults.push("input can't be blank".to_owned());
    }
    if request.texts.len() > MOST_TEXTS {
        faults.push(format!("input holds more than {MOST_TEXTS} texts"));
    }
    if request.dimensions.is_some_and(|dimensions| !(1..=MOST_DIMENSIONS).contains(&dimensions)) {
        faults.push(format!("dimensions must be between 1 and {MOST_DIMENSIONS}"));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

/// The texts as messages: each is judged, redacted and counted for itself.
fn prompt(texts: Vec<String>, dimensions: Option<u64>) -> Prompt {
    let params = dimensions.map(|dimensions| ("dimensions".to_owned(), dimensions.into()));
    Prompt {
        messages: texts.into_iter().map(Message::user).collect(),
        params: params.into_iter().collect::<Map<_, _>>(),
        ..Prompt::default()
    }
}

/// Why texts may not leave for a model, whatever the project does with such texts elsewhere: an
/// index keeps its input.
pub(crate) fn leak(leaks: Leaks, is_public: bool) -> Option<&'static str> {
    if leaks.secret {
        Some("The input contains a credential")
    } else if leaks.high_sensitivity && is_public {
        Some("The input contains highly sensitive personal data, and the model is public")
    } else {
        None
    }
}

/// The form in which a step keeps vectors.
fn shape(vectors: &[Vec<f32>]) -> Value {
    json!({"embeddings": vectors.len(), "dimensions": vectors.first().map_or(0, Vec::len)})
}

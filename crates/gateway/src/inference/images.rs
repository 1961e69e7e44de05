//! Images: a prompt in, URLs out, and no brands in them.

use checks::Violation;
use domain::conversation::{Message, Prompt};
use domain::money::Usd;
use domain::step::ApiEndpoint;
use domain::usage::Usage;
use futures_util::future::BoxFuture;
use serde_json::{Map, json};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::attributes::NamedInBody;
use crate::pipeline::auto_trace::{AutoTracing, Unanswered, completed};
use crate::pipeline::call_outcome::CallRecord;
use crate::pipeline::choose::Fallbacks;
use crate::pipeline::context::RequestContext;
use crate::pipeline::operation::DEFAULT_SIZE;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::screen::{PiiRule, ScreeningRequest};
use crate::state::caller::Caller;

/// The model if the caller names none.
const DEFAULT_MODEL: &str = "gpt-image-2";
/// The most images of one request, and the most characters of a prompt, as with OpenAI.
const MOST_IMAGES: u64 = 10;
const MOST_CHARACTERS: usize = 32_000;
/// The words for how good an image is to be: OpenAI's, those of older servers in its format,
/// Amazon's.
const QUALITIES: [&str; 7] = ["auto", "low", "medium", "high", "standard", "hd", "premium"];
/// The reason of a refusal because of a brand.
const BRAND: &str = "Blocked by brand/copyright check";

/// Images to make.
#[derive(Debug)]
pub struct ImageRequest {
    /// The trace; without one the call gets a trace of its own.
    pub trace_id: Option<String>,
    /// The model; without one OpenAI's.
    pub model: Option<String>,
    /// The description of the images.
    pub prompt: String,
    /// Width and height in pixels, as in `1024x1024`, or `auto`.
    pub size: Option<String>,
    /// The quality: a word of the model's provider, such as `high`.
    pub quality: Option<String>,
    /// The number of images; one if none is given.
    pub count: Option<u64>,
    /// The user that they are for, as the client names it.
    pub user: Option<String>,
}

impl ImageRequest {
    fn size(&self) -> &str {
        self.size.as_deref().unwrap_or(DEFAULT_SIZE)
    }

    fn count(&self) -> u64 {
        self.count.unwrap_or(1)
    }
}

/// The result of a request for images.
#[derive(Debug)]
pub enum Images {
    /// Images.
    Urls {
        /// One per image: addresses, or `data:` URLs if the provider sent the bytes.
        urls: Vec<String>,
        /// The identifier of the model that made them.
        model: String,
        /// The usage, if the provider reports it.
        usage: Option<Usage>,
        /// The record of the call.
        record: CallRecord,
    },
    /// Refused by safety, at no cost.
    Blocked(Refusal),
    /// Refused because of the rights of others, at no cost.
    Violates {
        /// A sentence.
        error: &'static str,
        /// The violations that were found.
        violations: Vec<Violation>,
        /// The record of the refusal.
        record: CallRecord,
    },
}

impl Gateway {
    /// Checks a prompt, has images made, and records what they cost.
    pub fn generate_images<'a>(
        &'a self,
        caller: &'a Caller,
        request: ImageRequest,
    ) -> BoxFuture<'a, std::result::Result<Images, Unanswered>> {
        Box::pin(async move {
            check(&request)?;
            let context = self
                .traced_context(
                    caller,
                    request.trace_id.as_deref(),
                    ApiEndpoint::Images,
                    AutoTracing::BySession,
                    NamedInBody { user: request.user.as_deref(), ..NamedInBody::default() },
                )
                .await?;
            let opened = context.opened.clone();
            let answer = self.images(context, request).await;
            completed(opened, answer).await
        })
    }

    /// The images, recorded.
    fn images(
        &self,
        context: RequestContext,
        request: ImageRequest,
    ) -> BoxFuture<'_, Result<Images>> {
        Box::pin(async move {
            let name = request.model.as_deref().unwrap_or(DEFAULT_MODEL);
            let (size, count) = (request.size().to_owned(), request.count());
            let project = context.caller.project.clone();
            let check_model = || {
                let model = project.model_of_one_purpose(name)?;
                context.caller.check_model(model)?;
                providers::check_images(model).map_err(|error| Error::invalid(error.to_string()))
            };
            // A model that the caller names wrongly is the caller's mistake, whatever the prompt holds.
            // A default model that is not registered is not: the prompt is judged first.
            if request.model.is_some() {
                check_model()?;
            }
            let violations = project.blocked_terms.violations(&request.prompt);
            let prompt = prompt(request.prompt, &size, request.quality, count);
            let screening = ScreeningRequest { prompt, pii: PiiRule::Settings };
            let screened = match self.screened(&context, screening).await? {
                Ok(screened) => screened,
                Err(refusal) => return Ok(Images::Blocked(refusal)),
            };
            if !violations.is_empty() {
                let refused = screened.refused(BRAND.to_owned(), "policy", None);
                let Refusal { step, trace, .. } = self.refuse(&context, refused).await?;
                let record = CallRecord { step, trace, cost: Usd::ZERO };
                return Ok(Images::Violates { error: BRAND, violations, record });
            }
            check_model()?;
            let routed = screened.direct(name, Fallbacks::Yes)?;
            let (mut flight, answer) = self.call_image_generation(routed).await?;
            let made = answer.urls.len() as u64;
            let outcome = &mut flight.outcome;
            outcome.usage = answer.usage;
            outcome.upstream_model = answer.upstream_model;
            outcome.images = Some(made);
            outcome.message = Some(json!({"images": made, "size": size}));
            let funded = flight.funded()?;
            let (model, step) = (funded.model().identifier.clone(), funded.step());
            let cost = flight.finish().await?.cost;
            let record = CallRecord { step, trace: context.trace.id(), cost };
            Ok(Images::Urls { model, urls: answer.urls, usage: answer.usage, record })
        })
    }
}

fn check(request: &ImageRequest) -> Result<()> {
    let ImageRequest { prompt, quality, .. } = request;
    let mut faults = Vec::new();
    if prompt.trim().is_empty() {
        faults.push("prompt can't be blank".to_owned());
    }
    if prompt.chars().count() > MOST_CHARACTERS {
        faults.push(format!("prompt is longer than {MOST_CHARACTERS} characters"));
    }
    if !is_size(request.size()) {
        faults.push("size must be WIDTHxHEIGHT in pixels, such as 1024x1024, or auto".to_owned());
    }
    if quality.as_deref().is_some_and(|quality| !QUALITIES.contains(&quality)) {
        faults.push(format!("quality must be one of {}", QUALITIES.join(", ")));
    }
    if !(1..=MOST_IMAGES).contains(&request.count()) {
        faults.push(format!("n must be between 1 and {MOST_IMAGES}"));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

fn is_size(size: &str) -> bool {
    let is_length = |text: &str| {
        (1..=5).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && !text.starts_with('0')
    };
    let sides = size.split_once('x');
    size == "auto" || sides.is_some_and(|(width, height)| is_length(width) && is_length(height))
}

fn prompt(text: String, size: &str, quality: Option<String>, count: u64) -> Prompt {
    let params = [("size".to_owned(), size.into()), ("n".to_owned(), count.into())];
    let quality = quality.map(|quality| ("quality".to_owned(), quality.into()));
    Prompt {
        messages: vec![Message::user(text)],
        params: params.into_iter().chain(quality).collect::<Map<_, _>>(),
        ..Prompt::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_lengths() {
        for size in ["1024x1024", "1x99999", "auto"] {
            assert!(is_size(size), "{size}");
        }
        for size in
            ["", "x", "1024", "1024x", "0x5", "1024X1024", "100000x1", "10x10x10", "-1x5", "big"]
        {
            assert!(!is_size(size), "{size}");
        }
    }
}

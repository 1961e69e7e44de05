//! The operations that a provider is asked for: a completion, a stream, embeddings, images.

use domain::conversation::Reply;
use domain::model::Model;
use domain::trace_context::CallerTrace;
use providers::{
    Attempt, Client, Embedded, EmbeddingRequest, Error, EventStream, GeneratedImages, ImageRequest,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::pipeline::fund::Funded;

/// The size if the caller names none.
pub(crate) const DEFAULT_SIZE: &str = "1024x1024";

/// One kind of call.
pub(super) trait Operation {
    type Answer;

    /// Whether it writes a text that is not seen before all of it is there.
    const UNSEEN: bool = false;

    /// Calls one endpoint: `model` is the funded one as it is called there.
    fn call(
        client: &Client,
        funded: &Funded,
        model: &Model,
        deadline: Instant,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

/// A whole answer to a conversation.
pub(super) struct Completion;

/// A streamed answer to a conversation.
pub(super) struct Streaming;

/// Vectors for texts.
pub(super) struct Embedding;

/// Images for a prompt.
pub(super) struct ImageGeneration;

impl Operation for Completion {
    type Answer = Reply;

    const UNSEEN: bool = true;

    async fn call(
        client: &Client,
        funded: &Funded,
        model: &Model,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let trace = funded.outgoing_trace();
        let attempt = attempt(funded, model, trace.as_ref(), deadline);
        client.complete(attempt).await
    }
}

impl Operation for Streaming {
    type Answer = EventStream;

    async fn call(
        client: &Client,
        funded: &Funded,
        model: &Model,
        deadline: Instant,
    ) -> Result<EventStream, Error> {
        let trace = funded.outgoing_trace();
        let attempt = attempt(funded, model, trace.as_ref(), deadline);
        client.stream(attempt).await
    }
}

impl Operation for Embedding {
    type Answer = Embedded;

    async fn call(
        client: &Client,
        funded: &Funded,
        model: &Model,
        deadline: Instant,
    ) -> Result<Embedded, Error> {
        let prompt = funded.routed().screened().prompt();
        let inputs: Vec<String> = prompt.texts().map(str::to_owned).collect();
        let dimensions = prompt.params.get("dimensions").and_then(Value::as_u64);
        let trace = funded.outgoing_trace();
        let request =
            EmbeddingRequest { model, inputs: &inputs, dimensions, trace: trace.as_ref() };
        client.embed(request, deadline).await
    }
}

impl Operation for ImageGeneration {
    type Answer = GeneratedImages;

    async fn call(
        client: &Client,
        funded: &Funded,
        model: &Model,
        deadline: Instant,
    ) -> Result<GeneratedImages, Error> {
        let prompt = funded.routed().screened().prompt();
        let param = |name: &str| prompt.params.get(name);
        let trace = funded.outgoing_trace();
        let request = ImageRequest {
            model,
            prompt: prompt.texts().next().unwrap_or_default(),
            size: param("size").and_then(Value::as_str).unwrap_or(DEFAULT_SIZE),
            quality: param("quality").and_then(Value::as_str),
            count: param("n").and_then(Value::as_u64).unwrap_or(1),
            trace: trace.as_ref(),
        };
        client.generate_images(request, deadline).await
    }
}

/// The attempt; the methods of [`Client`] decide whether it is streamed.
fn attempt<'a>(
    funded: &'a Funded,
    model: &'a Model,
    trace: Option<&'a CallerTrace>,
    deadline: Instant,
) -> Attempt<'a> {
    Attempt {
        model,
        prompt: funded.routed().screened().prompt(),
        max_output_tokens: funded.max_output_tokens(),
        max_tool_uses: funded.max_tool_uses(),
        stream: false,
        trace,
        deadline,
    }
}

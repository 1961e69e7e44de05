//! Mode: what a provider is asked for, and how.

use domain::conversation::Reply;
use providers::{Attempt, Client, EmbedAsk, Embedded, Error, EventStream, ImageAsk, Painted};
use serde_json::Value;
use tokio::time::Instant;

use super::Funded;

/// One kind of call.
pub(super) trait Mode {
    type Answer;

    fn call(
        client: &Client,
        funded: &Funded,
        deadline: Instant,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

/// A whole answer to a conversation.
pub(super) struct Whole;

/// A streamed answer to a conversation.
pub(super) struct Streaming;

/// Vectors for texts.
pub(super) struct Embedding;

/// Images for a prompt.
pub(super) struct Painting;

impl Mode for Whole {
    type Answer = Reply;

    fn call(
        client: &Client,
        funded: &Funded,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, Error>> + Send {
        client.complete(attempt(funded, false, deadline))
    }
}

impl Mode for Streaming {
    type Answer = EventStream;

    fn call(
        client: &Client,
        funded: &Funded,
        deadline: Instant,
    ) -> impl Future<Output = Result<EventStream, Error>> + Send {
        client.stream(attempt(funded, true, deadline))
    }
}

impl Mode for Embedding {
    type Answer = Embedded;

    async fn call(client: &Client, funded: &Funded, deadline: Instant) -> Result<Embedded, Error> {
        let prompt = funded.routed().screened().prompt();
        let inputs: Vec<String> = prompt.texts().map(str::to_owned).collect();
        let dimensions = prompt.params.get("dimensions").and_then(Value::as_u64);
        client
            .embed(EmbedAsk { model: funded.model(), inputs: &inputs, dimensions }, deadline)
            .await
    }
}

impl Mode for Painting {
    type Answer = Painted;

    async fn call(client: &Client, funded: &Funded, deadline: Instant) -> Result<Painted, Error> {
        let asked = funded.routed().screened().prompt();
        let param = |name: &str| asked.params.get(name);
        let ask = ImageAsk {
            model: funded.model(),
            prompt: asked.texts().next().unwrap_or_default(),
            size: param("size").and_then(Value::as_str).unwrap_or(crate::images::DEFAULT_SIZE),
            count: param("n").and_then(Value::as_u64).unwrap_or(1),
        };
        client.paint(ask, deadline).await
    }
}

fn attempt(funded: &Funded, stream: bool, deadline: Instant) -> Attempt<'_> {
    Attempt {
        model: funded.model(),
        prompt: funded.routed().screened().prompt(),
        max_output_tokens: funded.max_output_tokens(),
        stream,
        deadline,
    }
}

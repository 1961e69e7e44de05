//! Against the simulator, which judges with the vendor's own SDK types.

use std::time::Duration;

use domain::fees::Surcharge;
use domain::model::Provider;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::json;
use tokio::time::Instant;

use crate::adapter::embeddings::EmbeddingRequest;
use crate::adapter::images::ImageRequest;
use crate::error::ErrorKind;
use crate::sim_testing::{Sim, prompt, rounds, tools};

/// The providers of the format, each with a credential.
const PROVIDERS: [(Provider, &str); 2] =
    [(Provider::Openai, "sk-sim-openai"), (Provider::Internal, "internal-sim-key")];

#[tokio::test]
async fn the_vendor_finds_no_fault() {
    for (provider, key) in PROVIDERS {
        let Some(sim) = Sim::find(provider) else { return };
        let model = sim.model("gpt-4.1-mini", key, &(sim.base_url() + "/v1"));

        // Text, turns, usage, parameters.
        let answer = json!({"text": "Grüße 🙂", "split_bytes": 1,
            "usage": {"input": 20, "output": 9, "cached": 5, "reasoning": 2}});
        sim.script(json!([answer, answer]));
        let said = [("system", "Be brief."), ("user", "One"), ("assistant", "Two"), ("user", "3")];
        let ask = prompt(&said, &json!({"temperature": 0.2, "stop": ["END"], "seed": 1}));
        let reply = sim.complete(&model, &ask).await.unwrap();
        let heard = sim.stream(&model, &ask).await.unwrap();
        let usage = Usage {
            prompt: 20,
            cached: 5,
            cache_write: 0,
            completion: 9,
            reasoning: 2,
            ..Usage::default()
        };
        assert_eq!((&*reply.text, &*heard.text), ("Grüße 🙂", "Grüße 🙂"));
        // Whole answers report the tier that served them.
        let mut served = usage;
        served.extras.surcharges[Surcharge::Priority] = Some(false);
        assert_eq!((reply.usage, heard.usage), (Some(served), Some(usage)));

        // Rounds of tools.
        sim.chain(&model, &json!({"tools": tools()}), &rounds()).await;

        for (stop, finish) in [
            ("stop", FinishReason::Stop),
            ("length", FinishReason::Length),
            ("content_filter", FinishReason::ContentFilter),
        ] {
            let answer = json!({"text": "a", "stop": stop});
            sim.script(json!([answer, answer]));
            let reply = sim.complete(&model, &ask).await.unwrap();
            let heard = sim.stream(&model, &ask).await.unwrap();
            assert_eq!((reply.finish, heard.finish), (Some(finish), Some(finish)), "{stop}");
        }
        for (kind, status, retryable) in [
            ("rate_limit", 429, true),
            ("server", 500, true),
            ("auth", 401, false),
            ("context", 400, false),
        ] {
            sim.script(json!([{"error": {"kind": kind}}]));
            let error = sim.complete(&model, &ask).await.unwrap_err();
            assert_eq!(
                (error.provider_status(), error.retryable_here()),
                (Some(status), retryable)
            );
        }
        for how in ["eof", "truncate", "reset"] {
            sim.script(json!([{"text": "A longer answer", "fail_after": 3, "fail_how": how}]));
            let heard = sim.stream(&model, &ask).await.unwrap();
            assert!(heard.error.is_some() && heard.finish.is_none(), "{how}: {heard:?}");
        }
        assert_eq!(sim.violations(), json!([]));
    }
}

#[tokio::test]
async fn nor_with_embeddings_and_images() {
    for (provider, key) in PROVIDERS {
        let Some(sim) = Sim::find(provider) else { return };
        let base = sim.base_url() + "/v1";
        let deadline = Instant::now() + Duration::from_mins(1);
        let model = sim.model("text-embedding-3-small", key, &base);
        for (count, dimensions, length) in [(1, None, 8), (3, Some(16), 16), (1025, None, 8)] {
            let inputs: Vec<String> = (0..count).map(|number| format!("text {number}")).collect();
            let ask = EmbeddingRequest { model: &model, inputs: &inputs, dimensions, trace: None };
            let embedded = sim.client.embed(ask, deadline).await.unwrap();
            assert_eq!(embedded.vectors.len(), count);
            assert!(embedded.vectors.iter().all(|vector| vector.len() == length));
            assert!(embedded.tokens > Some(0));
        }
        let inputs = ["one".to_owned()];
        let ask =
            EmbeddingRequest { model: &model, inputs: &inputs, dimensions: None, trace: None };
        sim.script(json!([{"error": {"kind": "rate_limit"}}]));
        let error = sim.client.embed(ask, deadline).await.unwrap_err();
        assert_eq!((&error.kind, error.retryable_here()), (&ErrorKind::RateLimited, true));
        sim.script(json!([{"malformed": true}]));
        let error = sim.client.embed(ask, deadline).await.unwrap_err();
        assert!(error.is_endpoint_fault() && !error.retryable_here(), "{error}");

        let model = sim.model("gpt-image-2", key, &base);
        for size in ["1024x1024", "auto"] {
            let ask = ImageRequest {
                model: &model,
                prompt: "A red boat",
                size,
                count: 2,
                quality: None,
                trace: None,
            };
            let made = sim.client.generate_images(ask, deadline).await.unwrap();
            // Servers of one's own return addresses here, and report no usage.
            let own = provider == Provider::Openai;
            let start = if own { "data:image/png;base64,iVBOR" } else { "http://images.invalid/" };
            assert_eq!(made.urls.len(), 2);
            assert!(made.urls.iter().all(|url| url.starts_with(start)), "{made:?}");
            assert_eq!(made.usage.map(|usage| usage.completion), own.then_some(544));
        }
        assert_eq!(sim.violations(), json!([]));
    }
}

//! Against the simulator, which judges with the vendor's own SDK types.

use std::time::Duration;

use domain::fees::Surcharge;
use domain::model::Provider;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::json;
use tokio::time::Instant;

use super::tests::at;
use crate::adapter::embeddings::EmbeddingRequest;
use crate::adapter::images::ImageRequest;
use crate::error::ErrorKind;
use crate::sim_testing::{Sim, prompt, rounds, tools};

#[tokio::test]
async fn the_vendor_finds_no_fault() {
    let Some(sim) = Sim::find(Provider::Azure) else { return };
    let root = sim.base_url();
    let named = |base: &str| sim.model("our-gpt-4o", "azure-sim-key-0123456789", base);
    for model in [
        at(named(&root), json!({"api_version": "2024-10-21"})),
        at(named(&(root.clone() + "/openai/")), json!({"api_version": "2024-06-01"})),
        at(named(&root), json!({"api_version": "2025-04-01-preview", "deployment": "dep-1"})),
        at(named(&(root.clone() + "/openai/v1")), json!({})),
        at(named(&(root.clone() + "/openai/v1/")), json!({"api_version": "preview"})),
    ] {
        let answer = json!({"text": "Grüße 🙂", "split_bytes": 1,
            "usage": {"input": 20, "output": 9, "cached": 5, "reasoning": 2}});
        sim.script(json!([answer, answer]));
        let said = [("system", "Be brief."), ("user", "One"), ("assistant", "Two"), ("user", "3")];
        let ask = prompt(&said, &json!({"temperature": 0.2, "stop": ["END"]}));
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
        assert_eq!((reply.finish, heard.finish), (Some(FinishReason::Stop), reply.finish));
        // Whole answers report the tier that served them.
        let mut served = usage;
        served.extras.surcharges[Surcharge::Priority] = Some(false);
        assert_eq!(reply.usage, Some(served));
        // Earlier versions do not report the usage of streams.
        let reports = model.config.all.get("api_version") != Some(&json!("2024-06-01"));
        assert_eq!(heard.usage, reports.then_some(usage));
        sim.chain(&model, &json!({"tools": tools()}), &rounds()).await;
    }

    let model = at(named(&root), json!({"api_version": "2024-10-21"}));
    let ask = prompt(&[("user", "Fail")], &json!({}));
    for (kind, status, retryable) in
        [("content_filter", 400, false), ("auth", 401, false), ("rate_limit", 429, true)]
    {
        sim.script(json!([{"error": {"kind": kind}}]));
        let error = sim.stream(&model, &ask).await.unwrap_err();
        assert_eq!((error.provider_status(), error.retryable_here()), (Some(status), retryable));
        assert_eq!(matches!(error.kind, ErrorKind::Rejected { .. }), !retryable, "{kind}");
    }
    sim.script(json!([{"text": "a", "stop": "content_filter"}]));
    let reply = sim.complete(&model, &ask).await.unwrap();
    assert_eq!(reply.finish, Some(FinishReason::ContentFilter));
    assert_eq!(sim.violations(), json!([]));
}

#[tokio::test]
async fn nor_with_embeddings_and_images() {
    let Some(sim) = Sim::find(Provider::Azure) else { return };
    let root = sim.base_url();
    let deadline = Instant::now() + Duration::from_mins(1);
    for config in [
        json!({"api_version": "2024-10-21", "deployment": "our dep"}),
        json!({"api_version": "2025-04-01-preview"}),
        json!({"deployment": "our-dep"}),
    ] {
        let named =
            |name: &str| at(sim.model(name, "azure-sim-key-0123456789", &root), config.clone());
        let model = named("our-embeddings");
        let inputs = ["one", "two"].map(str::to_owned);
        for (inputs, dimensions, length) in [(&inputs[..1], None, 8), (&inputs[..], Some(16), 16)] {
            let ask = EmbeddingRequest { model: &model, inputs, dimensions, trace: None };
            let embedded = sim.client.embed(ask, deadline).await.unwrap();
            assert_eq!(embedded.vectors.len(), inputs.len());
            assert!(embedded.vectors.iter().all(|vector| vector.len() == length));
            assert!(embedded.tokens > Some(0));
        }
        let model = named("our-images");
        let ask = ImageRequest {
            model: &model,
            prompt: "A crab",
            size: "1536x1024",
            count: 2,
            quality: None,
            trace: None,
        };
        let made = sim.client.generate_images(ask, deadline).await.unwrap();
        assert_eq!(made.urls.len(), 2);
        assert!(made.urls[1].starts_with("data:image/png;base64,iVBOR"));
        assert_eq!(made.usage.map(|usage| usage.completion), Some(544));
    }
    assert_eq!(sim.violations(), json!([]));
}

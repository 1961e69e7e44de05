//! Embeddings and images against the simulator, which judges with the vendor's own SDK types.

use std::time::Duration;

use domain::model::Provider;
use serde_json::json;
use tokio::time::Instant;

use crate::adapter::{EmbedAsk, ImageAsk};
use crate::error::ErrorKind;
use crate::sim_testing::Sim;

#[tokio::test]
async fn the_vendor_finds_no_fault() {
    for (provider, key) in
        [(Provider::Openai, "sk-sim-openai"), (Provider::Internal, "internal-sim-key")]
    {
        let Some(sim) = Sim::find(provider) else { return };
        let base = sim.base_url() + "/v1";
        let deadline = Instant::now() + Duration::from_mins(1);
        let model = sim.model("text-embedding-3-small", key, &base);
        for (count, dimensions, length) in [(1, None, 8), (3, Some(16), 16), (1025, None, 8)] {
            let inputs: Vec<String> = (0..count).map(|number| format!("text {number}")).collect();
            let ask = EmbedAsk { model: &model, inputs: &inputs, dimensions };
            let embedded = sim.client.embed(ask, deadline).await.unwrap();
            assert_eq!(embedded.vectors.len(), count);
            assert!(embedded.vectors.iter().all(|vector| vector.len() == length));
            assert!(embedded.tokens > Some(0));
        }
        let inputs = ["one".to_owned()];
        let ask = EmbedAsk { model: &model, inputs: &inputs, dimensions: None };
        sim.script(json!([{"error": {"kind": "rate_limit"}}]));
        let error = sim.client.embed(ask, deadline).await.unwrap_err();
        assert_eq!((&error.kind, error.retryable_here()), (&ErrorKind::RateLimited, true));
        sim.script(json!([{"malformed": true}]));
        let error = sim.client.embed(ask, deadline).await.unwrap_err();
        assert!(error.is_endpoint_fault() && !error.retryable_here(), "{error}");

        let model = sim.model("gpt-image-2", key, &base);
        for size in ["1024x1024", "auto"] {
            let ask =
                ImageAsk { model: &model, prompt: "A red boat", size, count: 2, quality: None };
            let painted = sim.client.paint(ask, deadline).await.unwrap();
            // Servers of one's own give addresses here, and say nothing of usage.
            let own = provider == Provider::Openai;
            let start = if own { "data:image/png;base64,iVBOR" } else { "http://images.invalid/" };
            assert_eq!(painted.urls.len(), 2);
            assert!(painted.urls.iter().all(|url| url.starts_with(start)), "{painted:?}");
            assert_eq!(painted.usage.map(|usage| usage.completion), own.then_some(544));
        }
        assert_eq!(sim.violations(), json!([]));
    }
}

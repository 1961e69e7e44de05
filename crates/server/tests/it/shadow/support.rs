//! A server with a shadow model.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, Mock, Server, Setup, free_port, settings, until};

/// The address of a server's metrics.
pub struct Metrics(String);

impl Metrics {
    /// Waits until this many shadow calls have come to an end of a kind.
    pub async fn wait(&self, outcome: &str, times: u64) {
        let line = format!("sluice_shadow_calls_total{{outcome=\"{outcome}\"}} {times}");
        until(&line, async || self.page().await.lines().any(|told| told == line).then_some(()))
            .await;
    }

    pub async fn page(&self) -> String {
        let page = reqwest::get(format!("http://{}/metrics", self.0)).await.unwrap();
        page.text().await.unwrap()
    }
}

/// A server whose limits are off, and its metrics.
pub async fn start(backend: &Backend) -> (Server, Metrics) {
    let address = format!("127.0.0.1:{}", free_port());
    let setup = Setup::new(backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let server = setup.env("SLUICE_METRICS_LISTEN", &address).start().await;
    server.lift_limits().await;
    (server, Metrics(address))
}

/// Has the first project ask `shadow` beside `main`, which all tiers are sent to.
pub async fn cast(owner: &Caller, main: &Mock, shadow: &Mock, more: Value) {
    main.register(owner, "main").await;
    shadow.register_with(owner, "shadow", more).await;
    let tiers = json!({"simple": "main", "complex": "main", "secure": "main"});
    let shadow = json!({"enabled": true, "model": "shadow", "sample_rate": 1});
    settings(owner, 1, json!({"routing_tiers": tiers, "shadow_model": shadow})).await;
}

/// The detail of a trace, once it has this many steps.
pub async fn detail(key: &Caller, trace: &str, steps: usize) -> Value {
    until("the steps are there", async || {
        let detail = key.detail(trace).await;
        let found = detail["steps"].as_array().unwrap().len();
        assert!(found <= steps, "{detail}");
        (found == steps).then_some(detail)
    })
    .await
}

//! The simulator of the providers, which judges requests with the vendors' own types.

use serde_json::{Value, json};

use super::{Caller, server_at};

/// A picture of one pixel.
pub const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

/// A provider as it is registered: its models for text, vectors and images.
pub struct Provider {
    pub name: &'static str,
    /// Its place among the simulator's ports, and the path of its address.
    port: u16,
    path: &'static str,
    pub key: &'static str,
    pub config: Value,
    pub models: [Option<&'static str>; 3],
}

/// The providers that it simulates.
pub fn providers() -> Vec<Provider> {
    let provider =
        |name, port, path, key, config, models| Provider { name, port, path, key, config, models };
    let openai = [Some("gpt-4.1-mini"), Some("text-embedding-3-small"), Some("gpt-image-2")];
    let ours = [Some("our-model"), Some("our-embeddings"), Some("our-images")];
    vec![
        provider("openai", 1, "/v1", "sk-sim-openai", json!({}), openai),
        provider(
            "anthropic",
            2,
            "",
            "sk-ant-sim-key",
            json!({}),
            [Some("claude-sonnet-4-5"), None, None],
        ),
        provider(
            "gemini",
            3,
            "",
            "AIzaSim-gemini-key",
            json!({}),
            [
                Some("gemini-2.5-flash"),
                Some("gemini-embedding-001"),
                Some("gemini-3.1-flash-image"),
            ],
        ),
        provider(
            "bedrock",
            4,
            "",
            "AKIASIMULATOR0000001:simulator/secret+key/with/slashes0000001",
            json!({"region": "us-east-1"}),
            [
                Some("us.anthropic.claude-3-5-sonnet-20240620-v1:0"),
                Some("amazon.titan-embed-text-v2:0"),
                Some("amazon.nova-canvas-v1:0"),
            ],
        ),
        provider(
            "azure",
            5,
            "",
            "azure-sim-key-0123456789",
            json!({"api_version": "2024-10-21"}),
            ours,
        ),
        provider("internal", 6, "/v1", "internal-sim-key", json!({}), ours),
    ]
}

/// The simulator's own side.
pub struct Simulator {
    control: Caller,
    host: String,
    port: u16,
}

impl Simulator {
    /// The one that the environment names, with nothing in its memory.
    pub async fn reset() -> Option<Self> {
        let url = server_at("SLUICE_TEST_SIM")?;
        let control = Caller::new(reqwest::Client::new(), url.trim_end_matches('/').to_owned());
        let (host, port) = url.trim_start_matches("http://").split_once(':').unwrap();
        let port = port.trim_end_matches('/').parse().unwrap();
        control.post("/_reset", &json!({})).await.ok(200);
        Some(Self { control, host: host.to_owned(), port })
    }

    /// The address of a provider.
    pub fn base(&self, provider: &Provider) -> String {
        format!("http://{}:{}{}", self.host, self.port + provider.port, provider.path)
    }

    /// Registers a model of a provider by the name that the provider has for it.
    pub async fn register(
        &self,
        owner: &Caller,
        provider: &Provider,
        identifier: &str,
        upstream: &str,
    ) {
        let mut config = provider.config.clone();
        config["upstream_model"] = upstream.into();
        let model = json!({"model_definition": {
            "name": identifier, "identifier": identifier, "provider": provider.name,
            "base_url": self.base(provider), "api_key": provider.key, "additional_config": config,
            "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6}});
        owner.post("/api/v1/projects/1/models", &model).await.ok(201);
    }

    pub async fn clear(&self) {
        self.control.post("/_script", &json!({"clear": true})).await.ok(200);
    }

    /// Has a provider give these answers, one after the other.
    pub async fn script(&self, provider: &str, answers: Value) {
        self.clear().await;
        let scripts = json!({"scripts": [{"provider": provider, "answers": answers}]});
        self.control.post("/_script", &scripts).await.ok(200);
    }

    /// The number of the last request.
    pub async fn last(&self) -> u64 {
        self.control.get("/_seq").await.ok(200)["seq"].as_u64().unwrap()
    }

    /// The bodies of the requests to a provider after one with this number.
    pub async fn bodies(&self, provider: &str, after: u64) -> Vec<Value> {
        let path = format!("/_requests?provider={provider}&since={}", after + 1);
        let requests = self.control.get(&path).await.ok(200);
        requests.as_array().unwrap().iter().map(|request| request["body"].clone()).collect()
    }

    /// The last request to a provider.
    pub async fn asked(&self, provider: &str) -> String {
        self.bodies(provider, 0).await.last().unwrap().to_string()
    }

    pub async fn violations(&self, provider: &str) -> Value {
        let path = format!("/_violations?provider={provider}");
        self.control.get(&path).await.ok(200)["violations"].take()
    }

    /// Its answers that did not fit the vendors' types.
    pub async fn bugs(&self) -> Value {
        self.control.get("/_health").await.ok(200)["bugs"].take()
    }
}

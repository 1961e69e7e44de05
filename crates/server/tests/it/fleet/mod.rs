//! Several gateways on one database and one Redis count as one.

mod cells;
mod counters;
mod haproxy;
mod loss;
mod nodes;
mod sign_ins;
mod traces;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Redis, Reply, Server, Setup, until};

/// The cost of a call of the mock model, in nano-dollars.
pub const CALL: i64 = 4_500_000;

/// Gateways that count as one, and a model that costs.
pub struct Fleet {
    pub redis: Redis,
    pub nodes: Vec<Server>,
    pub mock: Mock,
}

impl Fleet {
    /// Starts some gateways without limits on requests, where there are a PostgreSQL and a Redis.
    pub async fn start(count: usize, env: &[(&str, &str)]) -> Option<Self> {
        let backend = Backend::postgres()?;
        let redis = Redis::start().await?;
        let mut setup = Setup::new(&backend)
            .env("SLUICE_REDIS_URL", &redis.url())
            .env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
        for (name, value) in env {
            setup = setup.env(name, value);
        }
        let first = setup.start().await;
        first.lift_limits().await;
        let mock = Mock::always(Answer::text("Yes.")).await;
        mock.register(&first.owner().await, "mock").await;
        let mut nodes = vec![first];
        for _ in 1..count {
            let node = nodes[0].beside().start().await;
            nodes.push(node);
        }
        Some(Self { redis, nodes, mock })
    }

    /// Waits until an answer to a key is right at every node, which takes a second at most, and some time for a busy
    /// machine.
    pub async fn everywhere(&self, raw: &str, is_right: impl Fn(&Reply) -> bool) {
        let began = Instant::now();
        for node in &self.nodes {
            let key = node.with_key(raw);
            until("it holds everywhere", async || {
                is_right(&key.get("/api/v1/sdk/config").await).then_some(())
            })
            .await;
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }

    /// Waits until every node knows what its owner has changed.
    pub async fn known(&self, path: &str, is_right: impl Fn(&Value) -> bool) {
        for node in &self.nodes {
            let owner = node.owner().await;
            until("it is known everywhere", async || {
                is_right(&owner.get(path).await.ok(200)).then_some(())
            })
            .await;
        }
    }

    /// Makes a key with a cap; its body and its raw form.
    pub async fn key(&self, hourly_limit: Option<f64>) -> (Value, String) {
        let owner = self.nodes[0].owner().await;
        let key = json!({"name": "Fleet", "project_id": 1, "hourly_limit": hourly_limit});
        let made = owner.post("/api/v1/keys", &key).await.ok(201);
        let raw = made["raw_key"].as_str().unwrap().to_owned();
        self.everywhere(&raw, |reply| reply.status == 200).await;
        (made, raw)
    }

    /// The spend in the database, in nano-dollars.
    pub fn spent(&self) -> i64 {
        self.nodes[0].sql("SELECT coalesce(sum(cost), 0) FROM steps").parse().unwrap()
    }
}

pub async fn run(key: &Caller, trace: &str) -> Reply {
    let body = json!({"trace_id": trace, "model": "mock", "input": "Hello."});
    key.post("/api/v1/runs", &body).await
}

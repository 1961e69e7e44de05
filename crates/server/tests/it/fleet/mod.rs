//! Several gateways on one database and one Redis count as one.

mod cells;
mod counters;
mod haproxy;
mod loss;
mod nodes;
mod pooler;
mod recovery;
mod sign_ins;
mod traces;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    Answer, Backend, Caller, Mock, Redis, Reply, Server, Setup, free_port, until,
};

/// The cost of a call of the mock model, in nano-dollars.
pub const CALL: i64 = 4_500_000;

/// The cost of so many of these calls, in dollars.
pub fn dollars(calls: i64) -> f64 {
    (calls * CALL) as f64 / 1e9
}

/// Gateways that count as one, and a model that costs.
pub struct Fleet {
    pub redis: Redis,
    pub nodes: Vec<Server>,
    pub mock: Mock,
    /// The addresses of their metrics.
    metrics: Vec<String>,
    /// The beginning of the keys of the first project in Redis.
    base: String,
}

impl Fleet {
    /// Starts some gateways without limits on requests, where there are a PostgreSQL and a Redis.
    pub async fn start(count: usize, env: &[(&str, &str)]) -> Option<Self> {
        let backend = Backend::postgres()?;
        let redis = Redis::start().await?;
        let mut setup = Setup::new(&backend);
        for (name, value) in env {
            setup = setup.env(name, value);
        }
        Some(Self::of(setup.prepare(), redis, count).await)
    }

    /// Starts a server that counts in a Redis, and others beside it.
    pub async fn of(first: Server, redis: Redis, count: usize) -> Self {
        let metrics: Vec<String> =
            (0..count).map(|_| format!("127.0.0.1:{}", free_port())).collect();
        let mut first = first
            .with_env("SLUICE_REDIS_URL", &redis.url())
            .with_env("SLUICE_EGRESS_ALLOW", "127.0.0.1")
            .with_env("SLUICE_METRICS_LISTEN", &metrics[0]);
        first.up().await;
        first.lift_limits().await;
        let mock = Mock::always(Answer::text("Yes.")).await;
        mock.register(&first.owner().await, "mock").await;
        let mut nodes = vec![first];
        for address in &metrics[1..] {
            let node = nodes[0].beside().env("SLUICE_METRICS_LISTEN", address).start().await;
            nodes.push(node);
        }
        let key =
            until("a node has shown itself", async || redis.read("KEYS sluice:*").pop()).await;
        let installation = key.split(':').nth(1).unwrap();
        let base = format!("sluice:{installation}:{{p1}}");
        Self { redis, nodes, mock, metrics, base }
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

    /// A field of the first project's counters in Redis, by the end of its key.
    pub fn counter(&self, key: &str, field: &str) -> Option<String> {
        self.redis.read(&format!("HGET {}:{key} {field}", self.base)).pop()
    }

    /// The spend with a key in the hour as Redis has it, in nano-dollars.
    pub fn counted(&self, key: &Value) -> i64 {
        let spent = self.counter(&format!("h:{}", key["id"].as_str().unwrap()), "t");
        spent.map_or(0, |spent| spent.parse().unwrap())
    }

    /// The reservations of the first project in Redis: who holds what of which key.
    pub fn reservations(&self) -> Vec<String> {
        self.redis.read(&format!("HGETALL {}:r", self.base))
    }

    /// Waits until Redis holds nothing for a call.
    pub async fn nothing_is_reserved(&self) {
        until("nothing is reserved", async || self.reservations().is_empty().then_some(())).await;
        let sum = self.counter("o", "*");
        assert!(sum.as_deref().is_none_or(|sum| sum == "0"), "{sum:?} without a reservation");
    }

    /// Waits until nothing is reserved, and holds what Redis has as spent with a key, the only one that has spent,
    /// against the database. All calls have ended.
    pub async fn is_settled(&self, key: &Value) {
        self.nothing_is_reserved().await;
        let (counted, spent) = (self.counted(key), self.spent());
        // docs/fleet.md: a call that Redis could not be told of at once may count twice.
        let mut late = 0;
        for node in 0..self.nodes.len() {
            late += self.decisions(node, "settle", "away").await;
            late += self.decisions(node, "settle", "lost").await;
        }
        let most = spent + late * CALL;
        assert!((spent..=most).contains(&counted), "{counted}, and not {spent} to {most}");
    }

    /// The decisions that a node has asked of Redis, by function and outcome.
    pub async fn decisions(&self, node: usize, function: &str, outcome: &str) -> i64 {
        let labels = format!("function=\"{function}\",outcome=\"{outcome}\"");
        self.metric(node, &format!("sluice_counter_decisions_total{{{labels}}}")).await
    }

    /// A metric of a node, by its name and labels; 0 before it was first counted.
    pub async fn metric(&self, node: usize, name: &str) -> i64 {
        let page = reqwest::get(format!("http://{}/metrics", self.metrics[node])).await.unwrap();
        let page = page.text().await.unwrap();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

pub async fn run(key: &Caller, trace: &str) -> Reply {
    run_on(key, trace, "mock").await
}

pub async fn run_on(key: &Caller, trace: &str, model: &str) -> Reply {
    let body = json!({"trace_id": trace, "model": model, "input": "Hello."});
    key.post("/api/v1/runs", &body).await
}

/// Calls a model until Redis has decided about it: on a slow machine it takes longer than a decision may.
pub async fn decided(key: &Caller, trace: &str, model: &str) -> Reply {
    let began = Instant::now();
    // Not by `until`: a task that is spawned can hold no closure that borrows.
    loop {
        let reply = run_on(key, trace, model).await;
        if reply.status != 503 {
            return reply;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "Redis decides nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

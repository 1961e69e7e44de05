//! Gateways that count as one, on a PostgreSQL behind PgBouncer.

use serde_json::{Value, json};

use super::{CALL, Fleet, decided, dollars};
use crate::harness::{Backend, Pooler, Redis, Setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_holds_behind_a_pooler_before_and_after_a_loss() {
    let Some(backend) = Backend::postgres() else { return };
    let server = Setup::new(&backend).prepare();
    let direct = server.database_url().to_owned();
    let Some(pooler) = Pooler::start(&direct) else { return };
    let Some(redis) = Redis::start().await else { return };
    let server = server
        .with_env("SLUICE_DATABASE_URL", &pooler.url(&direct))
        .with_env("SLUICE_DATABASE_DIRECT_URL", &direct);
    let fleet = Fleet::of(server, redis, 2).await;
    // There is room for calls that Redis could not be told of at once, and that count twice.
    let (made, raw) = fleet.key(Some(dollars(100))).await;
    let keys = [fleet.nodes[0].with_key(&raw), fleet.nodes[1].with_key(&raw)];
    let trace = keys[0].trace().await;
    for key in &keys {
        decided(key, &trace, "mock").await.ok(200);
    }
    // It is over when every node that lives has come, by the locks that they hold past the pooler.
    fleet.redis.ask("FLUSHALL");
    for key in &keys {
        decided(key, &trace, "mock").await.ok(200);
    }
    fleet.is_settled(&made).await;
    let owner = fleet.nodes[0].owner().await;
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    owner.patch(&path, &json!({"hourly_limit": dollars(4)})).await.ok(200);
    let is_capped = |keys: &Value| {
        let mut keys = keys.as_array().unwrap().iter();
        keys.any(|key| key["id"] == made["id"] && key["hourly_limit"] == json!(dollars(4)))
    };
    fleet.known("/api/v1/keys", is_capped).await;
    for key in &keys {
        decided(key, &trace, "mock").await.says(429, "Kill switch engaged");
    }
    assert_eq!(fleet.spent(), 4 * CALL);
}

//! A Redis that could lose or falsify counters is refused, with what to do.

use crate::servers::{Redis, Server, is_there, open};

async fn refusal(url: &str) -> String {
    open(url, 1).await.unwrap_err().to_string()
}

#[tokio::test]
async fn what_cannot_hold_counters_is_refused() {
    if !is_there() {
        return;
    }
    let nobody = refusal("redis://me:hush@127.0.0.1:1").await;
    assert!(nobody.starts_with("Redis at redis://127.0.0.1:1: "), "{nobody}");
    assert!(nobody.contains("SLUICE_REDIS_URL") && !nobody.contains("hush"), "{nobody}");

    let evicts = Server::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let said = refusal(&evicts.url()).await;
    assert!(
        said.contains("allkeys-lru") && said.contains("set maxmemory-policy noeviction"),
        "{said}"
    );
    evicts.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    open(&evicts.url(), 1).await.unwrap().close().await;

    let replica = Server::start(&["--replicaof", "127.0.0.1", &evicts.port.to_string()]).await;
    let said = refusal(&replica.url()).await;
    assert!(said.contains("it is a replica"), "{said}");

    let locked = Server::start(&[]).await;
    locked.ask(&["CONFIG", "SET", "requirepass", "hush-hush"]).await;
    for url in [locked.url(), locked.url().replace("redis://", "redis://:hush-wrong@")] {
        let said = refusal(&url).await;
        assert!(!said.contains("hush"), "{said}");
    }
    let right = locked.url().replace("redis://", "redis://:hush-hush@");
    open(&right, 1).await.unwrap().close().await;

    let of_cluster = Server::start(&["--cluster-enabled", "yes"]).await;
    let said = refusal(&of_cluster.url()).await;
    assert!(said.contains("redis+cluster://"), "{said}");
    let said = refusal(&of_cluster.url().replace("redis", "redis+cluster")).await;
    assert!(said.contains("--cluster create"), "{said}");
    of_cluster.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "100"]).await;
    let said = refusal(&of_cluster.url().replace("redis", "redis+cluster")).await;
    assert!(said.contains("its cluster is down"), "{said}");

    let alone = Redis::alone().await;
    let said = refusal(&alone.url.replace("redis", "redis+cluster")).await;
    assert!(said.starts_with("Redis at redis+cluster://127.0.0.1:"), "{said}");
}

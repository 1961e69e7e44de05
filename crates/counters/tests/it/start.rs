//! A Redis that could lose or falsify counters is refused, with what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

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

/// The URL of a server that describes itself so to the first who asks, and hangs up at the next question.
fn described(info: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut bytes) = (String::new(), [0; 1024]);
        while !asked.contains("INFO\r\n") {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "it was asked only: {asked}");
            asked.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        stream.write_all(format!("${}\r\n{info}\r\n", info.len()).as_bytes()).unwrap();
        drop(stream.read(&mut bytes));
    });
    url
}

#[tokio::test]
async fn a_version_without_functions_is_refused() {
    let of_version = |line: &str| {
        let rest =
            "maxmemory_policy:noeviction\r\ncluster_enabled:0\r\nrole:master\r\nrun_id:1\r\n";
        described(format!("{line}\r\n{rest}"))
    };
    for (line, version) in [("redis_version:6.2.14", "6.2.14"), ("os:Linux", "unknown")] {
        let url = of_version(line);
        let needed = "Redis 7 or newer, or Valkey, is needed. See SLUICE_REDIS_URL";
        let told = format!("Redis at {url}: it is version {version}: {needed}");
        assert_eq!(refusal(&url).await, told);
    }
    // Versions are numbers. The next that these are asked is about their functions.
    for version in ["7.0.0", "10.1.0"] {
        let said = refusal(&of_version(&format!("redis_version:{version}"))).await;
        assert!(said.contains("its functions cannot be loaded"), "{version}: {said}");
    }
}

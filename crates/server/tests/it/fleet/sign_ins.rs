//! Failed sign-ins count over all nodes.

use super::Fleet;
use crate::harness::{OWNER, PASSWORD, Server, until};

async fn tries(node: &Server, password: &str) -> u16 {
    node.login(OWNER, password).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_failures_at_any_nodes_make_an_address_wait_at_all() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let [here, there] = &fleet.nodes[..] else { panic!("there are two") };
    // A right password forgives the account, whichever node it comes to, and its own try of the address.
    for _ in 0..2 {
        assert_eq!(tries(here, "wrong-password-1").await, 401);
        assert_eq!(tries(there, PASSWORD).await, 200);
    }
    for _ in 0..2 {
        assert_eq!(tries(here, "wrong-password-1").await, 401);
        assert_eq!(tries(there, "wrong-password-1").await, 401);
    }
    for node in [here, there] {
        let refused = node.login(OWNER, PASSWORD).await;
        assert_eq!(refused.status, 429, "{}", refused.text);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=900).contains(&wait), "{wait}");
    }
    // Redis has lost all: with its next try each node tells what it has booked itself, which is four and two.
    fleet.redis.ask("FLUSHALL");
    until("both have told", async || {
        tries(here, PASSWORD).await;
        (tries(there, PASSWORD).await == 429).then_some(())
    })
    .await;
    // Without Redis each goes on by what it has booked itself, with as many tries as are left.
    fleet.redis.pause();
    for _ in 0..2 {
        assert_eq!(tries(here, "wrong-password-1").await, 401);
    }
    assert_eq!(tries(here, PASSWORD).await, 429);
    assert_eq!(tries(there, PASSWORD).await, 200);
    fleet.redis.resume();
    for node in [here, there] {
        until("Redis decides again", async || (tries(node, PASSWORD).await == 429).then_some(()))
            .await;
    }
}

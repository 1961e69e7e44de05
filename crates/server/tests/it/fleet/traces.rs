//! The status of a trace holds over all nodes.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Fleet, run};

/// A completed trace is refused everywhere after this.
const EVERYWHERE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_that_is_completed_at_one_node_is_refused_at_another_within_a_second() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let (_, raw) = fleet.key(None).await;
    let (here, there) = (fleet.nodes[0].with_key(&raw), fleet.nodes[1].with_key(&raw));
    let mut latest = Duration::ZERO;
    for _ in 0..5 {
        let trace = here.trace().await;
        // The other node knows the trace well.
        run(&there, &trace).await.ok(200);
        run(&there, &trace).await.ok(200);
        here.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
        let completed = Instant::now();
        loop {
            let asked = completed.elapsed();
            let reply = run(&there, &trace).await;
            if reply.status == 422 {
                reply.invalid("Trace is not pending");
                break;
            }
            reply.ok(200);
            assert!(asked < EVERYWHERE, "accepted {asked:?} after it was completed");
            latest = latest.max(asked);
        }
        // The end is known for good, at every endpoint.
        run(&there, &trace).await.invalid("Trace is not pending");
        there.execute(&trace, "Hello.").await.invalid("Trace is not pending");
    }
    println!("the latest call that was accepted came {latest:?} after the completion");
}

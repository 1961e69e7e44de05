//! The turns of a trace, which nodes number together.

use domain::ids::ProjectId;
use domain::step::{ApiEndpoint, Step};
use futures_util::future::join_all;
use store::{Claim, Store};

use crate::support::{databases, project, run, trace, trace_id};

/// Records a turn of the first trace, and returns its number.
async fn turn(store: &Store, project: ProjectId) -> Option<u64> {
    let step = run(project, trace_id(1), store.step_id().await.unwrap());
    let step = Step { api_endpoint: ApiEndpoint::Assistants, ..step };
    store.writer().step(step, None).await.unwrap()
}

#[tokio::test]
async fn two_nodes_never_give_a_number_twice() {
    for database in databases().await {
        // A file has one node.
        if database.kind == "sqlite" {
            continue;
        }
        let node = async || database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        let nodes = [node().await, node().await];
        let (project, _) = project(&nodes[0]).await;
        nodes[0].writer().trace(trace(project, 1)).await.unwrap();
        // At the same time, and one after the other.
        let turns = (0..60).map(|number| turn(&nodes[number % 2], project));
        let mut numbers = join_all(turns).await;
        for number in 0..10 {
            numbers.push(turn(&nodes[number % 2], project).await);
        }
        numbers[..60].sort_unstable();
        let all: Vec<_> = (1..=70).map(Some).collect();
        assert_eq!(numbers, all, "{}", database.kind);
        for node in nodes {
            node.close().await;
        }
    }
}

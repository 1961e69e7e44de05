//! Gateways behind HAProxy, as docs/fleet.md configures it: one dies, another stops, Redis goes, and calls go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regex::{Captures, Regex};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::{Fleet, run};
use crate::harness::{Caller, HaProxy, Server, free_port, until};

const DOCUMENT: &str = include_str!("../../../../../docs/fleet.md");
/// Callers that go on all the time.
const CALLERS: usize = 3;
/// The time between two calls of each. They are to go on, and to leave HAProxy the time for its checks.
const PAUSE: Duration = Duration::from_millis(20);

/// The configuration of the document, on these ports: of calls, of the states of gateways, and of the gateways.
fn configuration(calls: u16, states: u16, nodes: &[Server]) -> String {
    let (_, rest) =
        DOCUMENT.split_once("cat >haproxy.cfg <<'END'\n").expect("docs/fleet.md has haproxy.cfg");
    let text = &rest[..=rest.find("\nEND\n").expect("haproxy.cfg ends")];
    let mut ports = BTreeMap::from([("8080", calls), ("8404", states)]);
    ports.extend(["8081", "8082", "8083"].into_iter().zip(nodes.iter().map(|node| node.port)));
    let address = Regex::new(r"127\.0\.0\.1:([0-9]+)").unwrap();
    let found = address.captures_iter(text).map(|found| found.extract::<1>().1[0]);
    let found: BTreeSet<&str> = found.collect();
    let known: BTreeSet<&str> = ports.keys().copied().collect();
    assert_eq!(found, known, "the ports of haproxy.cfg in docs/fleet.md");
    let ours = |found: &Captures<'_>| format!("127.0.0.1:{}", ports[&found[1]]);
    address.replace_all(text, ours).into_owned()
}

/// The gateways of a backend that are `UP` or `DOWN`, as HAProxy shows it.
async fn that_are(state: &str, backend: &str, shown: &Caller) -> Vec<String> {
    let csv = shown.get("/;csv").await;
    assert_eq!(csv.status, 200, "{}", csv.text);
    let mut lines = csv.text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let place = |name: &str| {
        let mut names = names.iter().map(|known| known.trim_start_matches("# "));
        names.position(|known| known == name).expect("a column of that name")
    };
    let [of, server, status] = ["pxname", "svname", "status"].map(place);
    // A check that fails alone makes it `UP 1/2`.
    let is_meant = |line: &Vec<&str>| {
        line.len() > status
            && line[of] == backend
            && line[server].starts_with("node")
            && line[status].starts_with(state)
    };
    lines.filter(is_meant).map(|line| line[server].to_owned()).collect()
}

/// The events at the gateways, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// All serve.
    #[default]
    Whole,
    /// The second is being killed.
    Dying,
    /// It is dead, and HAProxy need not have noticed.
    Dead,
    /// HAProxy has taken it out. Then the third is asked to stop.
    DeadIsOut,
    /// HAProxy has taken that out too.
    StoppingIsOut,
    /// It has ended.
    Stopped,
}

/// A call of those that go on.
#[derive(Debug)]
struct Call {
    began: Stage,
    ended: Stage,
    /// The status, the gateway that answered by HAProxy, and the body; or the error.
    answer: Result<(u16, String, String), String>,
}

impl Call {
    fn is_right(&self) -> bool {
        // One that is on its way to a gateway that dies may get HAProxy's 502.
        if self.began <= Stage::Dying && self.ended >= Stage::Dying {
            return true;
        }
        let serve: &[&str] = match self.began {
            Stage::Whole | Stage::Dying => &["node1", "node2", "node3"],
            // The third serves whatever reaches it until it has ended.
            Stage::Dead | Stage::DeadIsOut | Stage::StoppingIsOut => &["node1", "node3"],
            Stage::Stopped => &["node1"],
        };
        self.answer
            .as_ref()
            .is_ok_and(|(status, node, _)| *status == 200 && serve.contains(&node.as_str()))
    }
}

/// Calls that go on.
#[derive(Default)]
struct Traffic {
    stage: Mutex<Stage>,
    calls: Mutex<Vec<Call>>,
}

impl Traffic {
    fn stage(&self) -> Stage {
        *self.stage.lock().unwrap()
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap() = stage;
    }

    /// Calls without end.
    async fn go_on(self: Arc<Self>, key: Caller, trace: String) {
        let body = json!({"trace_id": trace, "model": "sandbox", "input": "Hello."}).to_string();
        let mut ticks = tokio::time::interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let began = self.stage();
            let request = key.request("POST", "/api/v1/runs").body(body.clone());
            let request = request.header("content-type", "application/json");
            let answer = Caller::try_send(request).await;
            let answer = answer.map_err(|error| format!("{error:?}"));
            let answer = answer.map(|reply| {
                let node = reply.header("x-node").to_owned();
                (reply.status, node, reply.text)
            });
            let call = Call { began, ended: self.stage(), answer };
            self.calls.lock().unwrap().push(call);
        }
    }

    /// The gateways that have answered calls which began in this stage.
    fn served(&self, stage: Stage) -> BTreeSet<String> {
        let calls = self.calls.lock().unwrap();
        let calls = calls.iter().filter(|call| call.began == stage);
        calls.filter_map(|call| Some(call.answer.as_ref().ok()?.1.clone())).collect()
    }

    #[track_caller]
    fn check(&self) {
        let calls = self.calls.lock().unwrap();
        let wrong: Vec<&Call> = calls.iter().filter(|call| !call.is_right()).collect();
        assert!(wrong.is_empty(), "{} of {} calls: {wrong:#?}", wrong.len(), calls.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_while_a_gateway_dies_another_stops_and_redis_goes() {
    if !HaProxy::is_there() {
        return;
    }
    let env = [("SLUICE_TRUSTED_PROXIES", "127.0.0.1")];
    let Some(mut fleet) = Fleet::start(3, &env).await else { return };
    let ((_, capped), (_, free)) = (fleet.key(Some(1.0)).await, fleet.key(None).await);
    let (calls, states) = (free_port(), free_port());
    let configuration = configuration(calls, states, &fleet.nodes);
    let _proxy = HaProxy::start(&configuration, &[calls, states]).await;
    // Each request on a connection of its own: HAProxy makes one to a gateway for the first of a connection, and
    // the others may find a connection on which a gateway has just died.
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let through = |port: u16| Caller::new(client.clone(), format!("http://127.0.0.1:{port}"));
    let with_key = |raw: &str| through(calls).with("authorization", &format!("Bearer {raw}"));
    let (shown, capped, free) = (through(states), with_key(&capped), with_key(&free));
    let (capped_trace, trace) = (capped.trace().await, free.trace().await);
    let are_down = async |backend: &str, names: &[&str]| {
        (that_are("DOWN", backend, &shown).await == names).then_some(())
    };

    // One call runs at each gateway: that with the fewest connections gets the next.
    fleet.mock.hold();
    let mut held = JoinSet::new();
    for number in 1..=3 {
        let (free, trace) = (free.clone(), trace.clone());
        held.spawn(async move { run(&free, &trace).await });
        until("a call runs", async || (fleet.mock.begun() == number).then_some(())).await;
    }
    let traffic = Arc::new(Traffic::default());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(traffic.clone().go_on(free.clone(), trace.clone()));
    }
    until("all serve", async || (traffic.served(Stage::Whole).len() == 3).then_some(())).await;

    traffic.enter(Stage::Dying);
    fleet.nodes[1].kill().await;
    traffic.enter(Stage::Dead);
    let cut_off = held.join_next().await.unwrap().unwrap();
    assert_eq!(cut_off.status, 502, "{}", cut_off.text);
    until("the dead is out", async || are_down("ready", &["node2"]).await).await;
    until("it is not up", async || are_down("up", &["node2"]).await).await;

    traffic.enter(Stage::DeadIsOut);
    fleet.nodes[2].terminate();
    until("the stopping is out", async || are_down("ready", &["node2", "node3"]).await).await;
    traffic.enter(Stage::StoppingIsOut);
    assert!(held.try_join_next().is_none(), "the calls that run are left to end");
    fleet.mock.release();
    let mut ended = held.join_all().await;
    ended.sort_by_key(|reply| reply.header("x-node").to_owned());
    for (reply, node) in ended.iter().zip(["node1", "node3"]) {
        assert_eq!((reply.status, reply.header("x-node")), (200, node), "{}", reply.text);
    }
    let status = fleet.nodes[2].ended().await;
    assert!(status.success(), "{status}:\n{}", fleet.nodes[2].log());
    traffic.enter(Stage::Stopped);
    until("the last serves", async || (!traffic.served(Stage::Stopped).is_empty()).then_some(()))
        .await;
    callers.shutdown().await;
    traffic.check();

    // Without Redis none is ready, and the one that is up serves what is under no cap.
    fleet.redis.pause();
    let all = ["node1", "node2", "node3"];
    until("none is ready", async || are_down("ready", &all).await).await;
    until("one is up", async || (that_are("UP", "up", &shown).await == ["node1"]).then_some(()))
        .await;
    let reply = run(&free, &trace).await;
    assert_eq!((reply.status, reply.header("x-node")), (200, "node1"), "{}", reply.text);
    let refused = run(&capped, &capped_trace).await;
    refused.says(503, "Limits cannot be checked right now");
    assert_eq!(refused.header("x-node"), "node1", "it is a gateway that refuses");
}

//! Memory is counted before it is taken, and refused if it is too much.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, Setup, call, free_port, until};

crate::on_every_backend!(
    large_bodies_share_the_memory_for_them,
    an_answer_out_of_proportion_is_a_failed_call,
    a_stream_without_an_end_is_left,
    a_text_is_judged_no_further_once_its_caller_hangs_up,
);

/// Seven bodies of this size take half of the memory, which is what one project may hold.
const BODY: usize = 190_000;
/// The least that the gateway asks for, with bodies of 200 kB.
const MEMORY: &str = "19177216";

fn chat(trace: &str, model: &str) -> Value {
    json!({"trace_id": trace, "model": model,
        "messages": [{"role": "user", "content": "word ".repeat(BODY / 5)}]})
}

async fn large_bodies_share_the_memory_for_them(backend: Backend) {
    let server = Setup::new(&backend)
        .env("SLUICE_EGRESS_ALLOW", "127.0.0.1")
        .env("SLUICE_MAX_BODY_BYTES", "200000")
        .env("SLUICE_MAX_BODY_MEMORY", MEMORY)
        .start()
        .await;
    server.lift_limits().await;
    let (owner, key) = (server.owner().await, server.key());
    // A provider that does not answer.
    let mock = Mock::start(Duration::from_hours(1), None, |_| Answer::text("late")).await;
    mock.register(&owner, "slow").await;
    let trace = key.trace().await;
    let held: Vec<_> = (0..7)
        .map(|_| {
            let (key, body) = (key.clone(), chat(&trace, "slow"));
            tokio::spawn(async move { key.post("/api/v1/chat/completions", &body).await })
        })
        .collect();
    until("seven calls are at the provider", async || (mock.begun() == 7).then_some(())).await;
    let reply = key.post("/api/v1/chat/completions", &chat(&trace, "slow")).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{}", reply.text);
    assert_eq!(reply.json()["code"], "busy");
    key.execute(&trace, "A short one.").await.ok(200);
    // There is room for others.
    let other = other_key(&server, &owner).await;
    check(&other).await.ok(200);
    // A client that hangs up gives back what was held.
    held.iter().for_each(tokio::task::JoinHandle::abort);
    until("the memory is free again", async || (check(&key).await.status == 200).then_some(()))
        .await;
}

async fn other_key(server: &Server, owner: &Caller) -> Caller {
    let project = owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await;
    let project = &project.ok(201)["id"];
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": project})).await;
    server.with_key(made.ok(201)["raw_key"].as_str().unwrap())
}

async fn check(key: &Caller) -> crate::harness::Reply {
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "input": "word ".repeat(BODY / 5)});
    key.post("/api/v1/checks", &body).await
}

async fn an_answer_out_of_proportion_is_a_failed_call(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let dense = |item: &str| format!("[{}]", vec![item; 3_000_000 / item.len()].join(","));
    let choice =
        json!({"message": {"role": "assistant", "content": "Hm."}, "finish_reason": "stop"});
    let calls: Vec<Value> = (0..4_097).map(|n| call(&format!("c{n}"), "f", "{}")).collect();
    let answers = [
        dense("{}"),
        format!(r#"{{"choices":{}}}"#, dense("{}")),
        format!(r#"{{"choices":[{choice}],"x":{}}}"#, dense("\"\"")),
        format!(r#"{{"choices":[{choice}],"x":{}1{}}}"#, "[".repeat(20_000), "]".repeat(20_000)),
        json!({"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}).to_string(),
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let mock = Mock::always(Answer::Body(200, "application/json", answer)).await;
        let model = format!("dense-{index}");
        mock.register(&owner, &model).await;
        let trace = key.trace().await;
        let ask = json!({"trace_id": trace, "model": model,
            "messages": [{"role": "user", "content": "Hello"}]});
        key.post("/api/v1/chat/completions", &ask).await.says(502, "Provider request failed");
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!(step["status"], "failed", "{index}: {step}");
    }
}

async fn a_stream_without_an_end_is_left(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let pieces = vec!["a few words, over and over, ".repeat(2_000); 200];
    let mock = Mock::always(Answer::Pieces(pieces)).await;
    mock.register(&owner, "talkative").await;
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "model": "talkative", "stream": true,
        "messages": [{"role": "user", "content": "Hello"}]});
    let reply = key.post("/api/v1/chat/completions", &ask).await;
    assert!(!reply.text.contains("[DONE]"), "it does not end as if it were whole");
    let step = key.detail(&trace).await["steps"][0].clone();
    assert_eq!(step["status"], "failed");
    assert!(step["error"].as_str().unwrap().contains("longer than the 8388608 bytes"), "{step}");
    assert!(step["cost"].as_f64().unwrap() > 0.0, "what was said is paid for: {}", step["cost"]);
}

async fn a_text_is_judged_no_further_once_its_caller_hangs_up(backend: Backend) {
    let metrics = format!("127.0.0.1:{}", free_port());
    let server = Setup::new(&backend).env("SLUICE_METRICS_LISTEN", &metrics).start().await;
    server.lift_limits().await;
    let key = server.key();
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "input": "$api_key=@Bearer ".repeat(400_000)});
    // Too little patience ends before the text is judged, so each try has more of it.
    let mut patience = Duration::from_millis(50);
    until("judging is abandoned", async || {
        let asked = key.post("/api/v1/checks", &body);
        assert!(tokio::time::timeout(patience, asked).await.is_err(), "it was judged to its end");
        patience += patience / 4;
        let url = format!("http://{metrics}/metrics");
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        text.contains("\nsluice_texts_abandoned_total ").then_some(())
    })
    .await;
}

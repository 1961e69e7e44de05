//! Responses and items of before, by their ids: translated calls are answered from the gateway's own
//! record.

use std::time::Duration;

use serde_json::{Value, json};

use super::RESPONSES;
use crate::harness::{Answer, Backend, Caller, Mock, Server, Setup, call};

crate::on_every_backend!(
    a_response_is_continued,
    items_of_before_are_found,
    nobody_elses_response_is_found,
    a_request_that_keeps_nothing_back_is_whole,
    a_conversation_does_not_outgrow_a_request,
);

/// A model that asks for two tools when it is first asked, and talks when it has results.
async fn agent() -> Mock {
    let plan = |body: &Value| {
        let has_result = body["messages"].to_string().contains("tool_call_id");
        if body.get("tools").is_none() || has_result {
            return Answer::text("It is warm, maria.");
        }
        let calls = json!([
            call("a", "weather", "{\"city\":\"Rome\"}"),
            call("b", "weather", "{\"city\":\"Oslo\"}")
        ]);
        let said = json!({"role": "assistant", "content": "I look.", "tool_calls": calls});
        Answer::completion(&said, "tool_calls")
    };
    Mock::start(Duration::ZERO, Some((10, 5)), plan).await
}

/// Registers it as a model of a server that has no responses of its own.
async fn registered(owner: &Caller, mock: &Mock) {
    let more = json!({"provider": "internal", "is_public": false});
    mock.register_with(owner, "m", more).await;
}

fn tools() -> Value {
    json!([{"type": "function", "name": "weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}}}])
}

fn roles(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

async fn a_response_is_continued(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = agent().await;
    registered(&owner, &mock).await;
    let ask = json!({"model": "m", "instructions": "Be brief.", "tools": tools(),
        "input": "Write to maria.rossi@northwind.example about Rome and Oslo."});
    let first = key.post(RESPONSES, &ask).await.ok(200);
    assert_eq!((&first["store"], &first["previous_response_id"]), (&json!(true), &Value::Null));
    let results: Value = ["a", "b"]
        .map(|id| json!({"type": "function_call_output", "call_id": id, "output": "28 C"}))
        .into_iter()
        .collect();
    let mut ask = json!({"model": "m", "instructions": "Be brief.", "tools": tools(), "store": true,
        "previous_response_id": first["id"], "input": results});
    let second = key.post(RESPONSES, &ask).await.ok(200);
    assert_eq!(second["previous_response_id"], first["id"]);
    let sent = mock.last();
    assert_eq!(roles(&sent), ["system", "user", "assistant", "tool", "tool"], "{sent}");
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(sent["messages"][2]["content"], "I look.");
    assert_eq!(sent["messages"][2]["tool_calls"][1]["id"], "b");
    let (before, now) = (&mock.requests()[0].body["messages"][1], &sent["messages"][1]);
    assert_eq!(before, now, "a placeholder of before is the same again");
    assert!(!now.to_string().contains("maria.rossi"), "{now}");

    // The third request continues the second in a stream, with instructions of its own.
    ask = json!({"model": "m", "stream": true, "instructions": "Be kind.",
        "previous_response_id": second["id"], "input": "And tomorrow?"});
    let events = key.post(RESPONSES, &ask).await.named_events();
    let third = &events.last().unwrap()["response"];
    let sent = mock.last();
    let expected = ["system", "user", "assistant", "tool", "tool", "assistant", "user"];
    assert_eq!(roles(&sent), expected, "{sent}");
    assert_eq!(sent["messages"][0]["content"], "Be kind.");
    assert_eq!(sent["messages"][5]["content"], "It is warm, maria.");
    // A streamed response is continued as well, and nobody's instructions are inherited.
    let ask = json!({"model": "m", "previous_response_id": third["id"], "input": "Thanks."});
    key.post(RESPONSES, &ask).await.ok(200);
    let sent = mock.last();
    assert_eq!((roles(&sent)[0], roles(&sent).len()), ("user", 8), "{sent}");
}

async fn items_of_before_are_found(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = agent().await;
    registered(&owner, &mock).await;
    let question = json!({"role": "user", "content": "Rome and Oslo?"});
    let ask = json!({"model": "m", "tools": tools(), "input": [question]});
    let first = key.post(RESPONSES, &ask).await.ok(200);
    let items = first["output"].as_array().unwrap();
    assert_eq!(items.len(), 3, "a text and two calls: {first}");
    let mut input = vec![question];
    // The vendor's package leaves the type out.
    input.push(json!({"id": items[0]["id"]}));
    let reference = |item: &Value| json!({"type": "item_reference", "id": item["id"]});
    input.extend(items[1..].iter().map(reference));
    for id in ["a", "b"] {
        input.push(json!({"type": "function_call_output", "call_id": id, "output": "28 C"}));
    }
    let ask = json!({"model": "m", "tools": tools(), "input": input});
    key.post(RESPONSES, &ask).await.ok(200);
    let sent = mock.last();
    assert_eq!(roles(&sent), ["user", "assistant", "tool", "tool"], "{sent}");
    let turn = &sent["messages"][1];
    assert_eq!(turn["content"], "I look.");
    assert_eq!(turn["tool_calls"][0]["function"]["arguments"], "{\"city\":\"Rome\"}");
    assert_eq!(turn["tool_calls"][1]["id"], "b");
}

async fn nobody_elses_response_is_found(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = agent().await;
    registered(&owner, &mock).await;
    let first = key.post(RESPONSES, &json!({"model": "m", "input": "Hello."})).await.ok(200);
    let id = first["id"].as_str().unwrap();
    let project = owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await;
    let project = project.ok(201)["id"].clone();
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": project})).await;
    let other = server.with_key(made.ok(201)["raw_key"].as_str().unwrap());
    let item = first["output"][0]["id"].as_str().unwrap();
    let begun = mock.begun();
    for (caller, more) in [
        (&other, json!({"previous_response_id": id, "input": "On."})),
        (&other, json!({"input": [{"type": "item_reference", "id": item}]})),
        (&key, json!({"previous_response_id": "resp_68af40305", "input": "On."})),
        (&key, json!({"previous_response_id": item, "input": "On."})),
        (&key, json!({"previous_response_id": "resp_999999999", "input": "On."})),
    ] {
        let mut ask = more;
        ask["model"] = "m".into();
        let error = caller.post(RESPONSES, &ask).await.ok(404)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{error}");
        assert!(error["message"].as_str().unwrap().contains("not found"), "{error}");
    }
    assert_eq!(mock.begun(), begun, "nothing was called");
    let ask = json!({"model": "m", "previous_response_id": id, "input": "On."});
    let door = key.post("/api/v1/responses", &ask).await;
    assert_eq!(door.status, 422, "the gateway's own endpoint keeps nothing: {}", door.text);
}

async fn a_request_that_keeps_nothing_back_is_whole(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = agent().await;
    registered(&owner, &mock).await;
    let ask = json!({"model": "m", "instructions": "Be brief.", "store": false,
        "previous_response_id": null, "input": "Hello."});
    let answer = key.post(RESPONSES, &ask).await.ok(200);
    assert_eq!(answer["store"], false);
    assert_eq!(mock.last()["messages"][0], json!({"role": "system", "content": "Be brief."}));
}

async fn a_conversation_does_not_outgrow_a_request(backend: Backend) {
    let server = Setup::new(&backend)
        .env("SLUICE_EGRESS_ALLOW", "127.0.0.1")
        .env("SLUICE_MAX_BODY_BYTES", "20000")
        .start()
        .await;
    let (key, owner) = (server.key(), server.owner().await);
    server.lift_limits().await;
    let mock = agent().await;
    registered(&owner, &mock).await;
    let mut ask = json!({"model": "m", "input": "word ".repeat(1_500)});
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let reply = key.post(RESPONSES, &ask).await;
        statuses.push(reply.status);
        if reply.status == 200 {
            ask["previous_response_id"] = reply.ok(200)["id"].clone();
        } else {
            let error = reply.ok(400)["error"]["message"].clone();
            assert!(error.as_str().unwrap().contains("20000 bytes of a request"), "{error}");
        }
    }
    assert_eq!(statuses, [200, 200, 200, 400, 400]);
}

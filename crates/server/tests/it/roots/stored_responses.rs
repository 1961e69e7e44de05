//! Responses that their provider stores for the project, and requests that continue them.

use std::time::Duration;

use serde_json::{Value, json};

use super::passed_responses::{MAIL, note, of_model, register, response, vendor};
use super::{RESPONSES, ask};
use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(
    a_stored_response_is_continued_at_its_account,
    what_another_project_stored_is_not_found,
    a_stored_response_is_read_and_deleted,
    a_key_reaches_stored_responses_within_its_lists,
    items_without_their_contents_are_those_of_the_project,
    answers_of_ours_are_continued_by_translation,
    a_response_that_its_provider_has_lost_is_forgotten,
    containers_of_the_project_are_used_again,
);

async fn a_stored_response_is_continued_at_its_account(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (mock, other) = (vendor(&owner, "gpt").await, vendor(&owner, "other").await);
    let first = json!({"of_tomorrow": {"note": [MAIL]}});
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", first)).await.ok(200);
    let placeholder = note(&mock.take().pop().unwrap().body);
    assert!(placeholder.starts_with("[EMAIL_1_"), "{placeholder}");

    // The provider has the placeholder; its original is put back although it was not sent again.
    let again = json!({"previous_response_id": "resp_gpt"});
    let asked = ask(RESPONSES, "gpt", "Go on.", again.clone());
    let reply = key.post(RESPONSES, &asked).await;
    assert_eq!(reply.ok(200), of_model(response("resp_gpt", MAIL)));
    assert_eq!(mock.take().pop().unwrap().body["previous_response_id"], "resp_gpt");
    let reference = json!({"input": [{"type": "item_reference", "id": "msg_resp_gpt"},
        {"role": "user", "content": "Go on."}]});
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "", reference.clone())).await.ok(200);
    assert_eq!(mock.take().pop().unwrap().body["input"], reference["input"]);

    // No other account is asked, and no other model.
    let elsewhere = key.post(RESPONSES, &ask(RESPONSES, "other", "Go on.", again)).await;
    elsewhere.tells(400, "another account keeps");
    let mut unnamed = asked.clone();
    unnamed.as_object_mut().unwrap().remove("model");
    key.post(RESPONSES, &unnamed).await.ok(200);
    assert_eq!((other.begun(), mock.take().len()), (0, 1));
    for id in ["resp_unknown", "msg_resp_gpt", "resp_999999"] {
        let more = json!({"previous_response_id": id});
        let error = key.post(RESPONSES, &ask(RESPONSES, "gpt", "Go on.", more)).await.ok(404);
        assert_eq!(error["error"]["code"], "previous_response_not_found");
        let sentence = format!("Previous response with id '{id}' not found");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&sentence), "{error}");
    }
    assert_eq!(mock.begun(), 4);
}

async fn what_another_project_stored_is_not_found(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
    let project = json!({"project": {"name": "Another"}});
    let project = owner.post("/api/v1/projects", &project).await.ok(201);
    let body = json!({"name": "k", "project_id": project["id"]});
    let made = owner.post("/api/v1/keys", &body).await.ok(201);
    let stranger = server.with_key(made["raw_key"].as_str().unwrap());
    let path = format!("{RESPONSES}/resp_gpt");
    for reply in [
        stranger.get(&path).await,
        stranger.delete(&path).await,
        stranger.get(&format!("{path}/input_items")).await,
        stranger.post(&format!("{path}/cancel"), &json!({})).await,
        stranger
            .post(RESPONSES, &ask(RESPONSES, "x", "?", json!({"previous_response_id": "resp_gpt"})))
            .await,
    ] {
        reply.ok(404);
    }
    assert_eq!(mock.begun(), 1);
}

async fn a_stored_response_is_read_and_deleted(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({"stream": true}))).await;
    let path = format!("{RESPONSES}/resp_gpt");
    let stored = of_model(response("resp_gpt", "[stored]"));
    assert_eq!(key.get(&path).await.ok(200), stored);
    assert_eq!(key.get(&format!("{path}/input_items?limit=5&x=1")).await.ok(200), stored);
    key.post(&format!("{path}/cancel"), &json!({})).await.ok(200);
    key.delete(&path).await.ok(200);
    key.get(&path).await.ok(404);
    assert_eq!(mock.begun(), 5);
    for asked in mock.requests() {
        assert_eq!(asked.headers["authorization"], "Bearer sk-of-gpt-of-the-gateway");
    }
}

async fn a_key_reaches_stored_responses_within_its_lists(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
    let path = format!("{RESPONSES}/resp_gpt");
    for (list, sentence) in [
        (json!({"allowed_models": ["other"]}), "Model not allowed for this key"),
        (json!({"allowed_endpoints": ["chat"]}), "Endpoint not allowed for this key"),
    ] {
        let mut new = json!({"name": "k", "project_id": 1});
        new.as_object_mut().unwrap().extend(list.as_object().unwrap().clone());
        let made = owner.post("/api/v1/keys", &new).await.ok(201);
        let key = server.with_key(made["raw_key"].as_str().unwrap());
        let input_items = format!("{path}/input_items");
        for reply in [
            key.get(&path).await,
            key.get(&input_items).await,
            key.post(&format!("{path}/cancel"), &json!({})).await,
            key.delete(&path).await,
        ] {
            reply.tells(403, sentence);
        }
    }
    assert_eq!(mock.begun(), 1);
    key.get(&path).await.ok(200);
}

async fn items_without_their_contents_are_those_of_the_project(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
    let reasoning = |id: &str| {
        json!({"input": [{"role": "user", "content": "Hello."},
            {"type": "reasoning", "id": id, "summary": []}]})
    };
    for (id, mode) in [("fc_resp_gpt", "passthrough"), ("rs_of_another", "translated")] {
        let reply = key.post(RESPONSES, &ask(RESPONSES, "gpt", "", reasoning(id))).await;
        reply.ok(200);
        assert_eq!(reply.header("x-sluice-mode"), mode, "{id}");
        assert_eq!(mock.last().to_string().contains(id), mode == "passthrough");
    }
    for item in [
        json!({"type": "image_generation_call", "id": "ig_of_another"}),
        json!({"type": "item_reference", "id": "msg_of_another"}),
        json!({"id": "msg_of_another"}),
    ] {
        let more = json!({"input": [item]});
        key.post(RESPONSES, &ask(RESPONSES, "gpt", "", more)).await.ok(404);
    }
    // The vendor's packages leave the type of a reference out.
    let more = json!({"input": [{"id": "msg_resp_gpt"}, {"role": "user", "content": "Go on."}]});
    let asked = ask(RESPONSES, "gpt", "", more);
    key.post(RESPONSES, &asked).await.ok(200);
    assert_eq!(mock.last(), asked);
}

async fn answers_of_ours_are_continued_by_translation(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    let other = Mock::always(Answer::text("Said before.")).await;
    other.register(&owner, "chat").await;
    let first = key.post(RESPONSES, &ask(RESPONSES, "chat", "Hello.", json!({}))).await.ok(200);
    let more = json!({"previous_response_id": first["id"]});
    let reply = key.post(RESPONSES, &ask(RESPONSES, "gpt", "Go on.", more)).await;
    assert_eq!(reply.ok(200)["output"][0]["content"][0]["text"], "Translated.");
    assert_eq!(reply.header("x-sluice-mode"), "translated");
    let sent = mock.last();
    let said: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["Hello.", "Said before.", "Go on."]);
    // Both kinds at once make no conversation.
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
    let mixed = json!({"previous_response_id": first["id"],
        "input": [{"type": "item_reference", "id": "msg_resp_gpt"}]});
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "", mixed)).await.tells(400, "different kinds");
}

async fn a_response_that_its_provider_has_lost_is_forgotten(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let lost = json!({"error": {"message": "No such response.", "type": "invalid_request_error"}});
    let mock = Mock::start(Duration::ZERO, None, move |body| match body.get("model") {
        Some(_) => Answer::json(200, &response("resp_gpt", "Fine.")),
        None => Answer::json(404, &lost),
    });
    let mock = mock.await;
    register(&mock, &owner, "gpt", json!({})).await;
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
    let path = format!("{RESPONSES}/resp_gpt");
    for _ in 0..2 {
        key.get(&path).await.ok(404);
    }
    assert_eq!(mock.begun(), 3, "reading forgets nothing");
    for _ in 0..2 {
        key.delete(&path).await.ok(404);
    }
    assert_eq!(mock.begun(), 4, "it is known to nobody after it was deleted");
}

async fn containers_of_the_project_are_used_again(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let run = json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed",
        "code": "1 + 1", "container_id": "cntr_1"});
    let mut answer = response("resp_gpt", "Fine.");
    (answer["store"], answer["output"][0]) = (false.into(), run.clone());
    let mock = Mock::always(Answer::json(200, &answer)).await;
    register(&mock, &owner, "gpt", json!({})).await;
    let other = vendor(&owner, "other").await;
    let tool = json!([{"type": "code_interpreter", "container": {"type": "auto"}}]);
    let asked = |input: Value, model: &str| {
        let more = json!({"store": false, "tools": tool, "input": input});
        ask(RESPONSES, model, "", more)
    };
    let question = json!({"role": "user", "content": "How much?"});
    let history = json!([question, run, question]);
    // Nobody here has made it yet.
    key.post(RESPONSES, &asked(history.clone(), "gpt")).await.tells(422, "type 'container'");
    key.post(RESPONSES, &asked(json!([question]), "gpt")).await.ok(200);
    let reply = key.post(RESPONSES, &asked(history.clone(), "gpt")).await;
    reply.ok(200);
    assert_eq!(reply.header("x-sluice-mode"), "passthrough");
    assert_eq!(mock.last()["input"], history);
    let named = json!([{"type": "code_interpreter", "container": "cntr_1"}]);
    let more = json!({"tools": named});
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Go on.", more)).await.ok(200);
    // Another account has no such container, and a translation needs none.
    key.post(RESPONSES, &asked(history.clone(), "other")).await.tells(400, "another account keeps");
    assert_eq!(other.begun(), 0);
    let chat = Mock::always(Answer::text("Two.")).await;
    chat.register(&owner, "chat").await;
    key.post(RESPONSES, &asked(history, "chat")).await.ok(200);
    // The refusal of a strange one names it beside a tool that is left out.
    let tools =
        json!([{"type": "image_generation"}, {"type": "code_interpreter", "container": "x"}]);
    let strange = ask(RESPONSES, "gpt", "Go on.", json!({"tools": tools}));
    key.post(RESPONSES, &strange).await.tells(422, "tools[1]: a tool of type 'container'");
    // A response that is not stored is not one that can be continued.
    let again = json!({"previous_response_id": "resp_gpt"});
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Go on.", again)).await.ok(404);
}

//! Forms that call a model, sent again: by a reload, a second click, or a connection that broke.

use std::time::Duration;

use serde_json::json;

use super::calls::{ask, key};
use super::{owner, send_form, shows, signed_in};
use crate::harness::{
    Answer, Backend, Caller, Mock, Reply, Server, hang_up_after, settings, until,
};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(
    a_test_call_that_is_sent_again_is_not_paid_for_twice,
    a_prompt_that_is_sent_again_is_not_paid_for_twice,
    a_prompt_that_was_stopped_is_not_sent_again_in_silence,
    an_answer_that_was_stopped_halfway_is_not_asked_for_again_in_silence
);

/// The words on the page of a form that was sent before.
const AGAIN: &str = "This form was sent before. Its answer is shown again";
/// The words for a form that was sent before, and whose answer is not there.
const WITHOUT_ANSWER: &str = "This was sent before, and its answer was stopped or not kept";
/// The words for a form with a value that is none of ours.
const TOO_LONG: &str = "The one-time value of a form has at most 64 characters.";

/// The one-time value of the form on a page.
#[track_caller]
fn value_on(page: &Reply) -> String {
    let (_, rest) = page.text.split_once("name=\"once\" value=\"").expect("there is no form");
    let value = rest.split('"').next().unwrap();
    assert!(value.len() > 20, "{value}");
    value.to_owned()
}

async fn call(who: &Caller, page: &str, key: &str, once: &str) -> Reply {
    send_form(who, &format!("{page}/call?project=1"), &[("key", key), ("once", once)]).await
}

async fn a_test_call_that_is_sent_again_is_not_paid_for_twice(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let mock = Mock::always(Answer::text("Hello.")).await;
    let page = format!("/models/{}", mock.register(&api, "counted").await["id"]);
    let own = key(&owner, json!({})).await;
    let once = value_on(&owner.get(&page).await);
    // Two clicks.
    mock.hold();
    let released = async {
        until("the model is called", async || (mock.begun() == 1).then_some(())).await;
        mock.release();
    };
    let (one, two) = (call(&owner, &page, &own, &once), call(&owner, &page, &own, &once));
    let (one, two, ()) = tokio::join!(one, two, released);
    for reply in [&one, &two] {
        shows(reply, 200, "Hello.</pre>");
        shows(reply, 200, "Its trace");
    }
    assert_eq!([&one, &two].iter().filter(|reply| reply.text.contains(AGAIN)).count(), 1);
    // A reload.
    shows(&call(&owner, &page, &own, &once).await, 200, AGAIN);
    shows(&call(&owner, &page, &own, &"x".repeat(65)).await, 200, TOO_LONG);
    assert_eq!(mock.begun(), 1);
    // The page of an answer, and a page that is loaded, call anew.
    let values = [value_on(&one), value_on(&two), value_on(&owner.get(&page).await)];
    for (calls, value) in (2..).zip(&values) {
        let reply = call(&owner, &page, &own, value).await;
        shows(&reply, 200, "Hello.</pre>");
        assert!(!reply.text.contains(AGAIN), "{}", reply.text);
        assert_eq!(mock.begun(), calls);
    }
    // A browser gives the first click up for the second.
    mock.hold();
    let given_up = tokio::spawn({
        let (owner, page, own) = (owner.clone(), page.clone(), own.clone());
        async move { call(&owner, &page, &own, "given up").await }
    });
    until("the model is called", async || (mock.begun() == 5).then_some(())).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    mock.release();
    shows(&call(&owner, &page, &own, "given up").await, 200, "Hello.</pre>");
    assert_eq!(mock.begun(), 5);
    // Another key, another model and somebody else are other calls.
    let other = key(&owner, json!({"name": "other"})).await;
    let model = format!("/models/{}", mock.register(&api, "another").await["id"]);
    roles::user(&server, "admin", &[]).await;
    let admin = signed_in(&server, "admin@example.org", USER_PASSWORD).await;
    for (calls, who, page, key) in
        [(6, &owner, &page, &other), (7, &owner, &model, &own), (8, &admin, &page, &own)]
    {
        let reply = call(who, page, key, &once).await;
        shows(&reply, 200, "Hello.</pre>");
        assert!(!reply.text.contains(AGAIN), "{}", reply.text);
        assert_eq!(mock.begun(), calls);
    }
    // An answer that is not kept is not paid for twice either: the page says so, and calls anew.
    settings(&api, 1, json!({"store_content": false})).await;
    shows(&call(&owner, &page, &own, "not kept").await, 200, "Hello.</pre>");
    let again = call(&owner, &page, &own, "not kept").await;
    shows(&again, 200, WITHOUT_ANSWER);
    assert_eq!(mock.begun(), 9);
    shows(&call(&owner, &page, &own, &value_on(&again)).await, 200, "Hello.</pre>");
    assert_eq!(mock.begun(), 10);
}

async fn a_prompt_that_is_sent_again_is_not_paid_for_twice(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let mock = Mock::always(Answer::text("Hello.")).await;
    mock.register(&server.owner().await, "counted").await;
    let own = key(&owner, json!({})).await;
    let once = value_on(&owner.get("/playground").await);
    assert_ne!(once, value_on(&owner.get("/playground").await));
    let side = format!("{once}-0");
    let question = json!({"model": "counted", "once": side});
    let first = ask(&owner, &own, question.clone()).await;
    assert!(first.status == 200 && first.text.contains("Hello."), "{}", first.text);
    assert_eq!(first.header("idempotency-replayed"), "");
    let again = ask(&owner, &own, question).await;
    assert_eq!((again.status, &again.text), (200, &first.text));
    assert_eq!(again.header("idempotency-replayed"), "true");
    for name in ["x-trace-id", "x-sluice-step-id", "content-type"] {
        assert_eq!(again.header(name), first.header(name));
    }
    let long = json!({"model": "counted", "once": "x".repeat(65)});
    ask(&owner, &own, long).await.invalid(TOO_LONG);
    assert_eq!(mock.begun(), 1);
    // Another prompt in the same form is another call, and so is the other side, which may ask the same.
    for (calls, question) in (2..).zip([
        json!({"model": "counted", "once": side, "prompt": "Say goodbye."}),
        json!({"model": "counted", "once": side, "system": "Be brief."}),
        json!({"model": "counted", "once": format!("{once}-1")}),
        json!({"model": "counted", "once": "x".repeat(64)}),
        // The form of an older page.
        json!({"model": "counted"}),
        json!({"model": "counted"}),
    ]) {
        let reply = ask(&owner, &own, question).await;
        assert!(reply.status == 200 && reply.text.contains("Hello."), "{}", reply.text);
        assert_eq!(reply.header("idempotency-replayed"), "");
        assert_eq!(mock.begun(), calls);
    }
}

async fn a_prompt_that_was_stopped_is_not_sent_again_in_silence(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let mock = Mock::start(Duration::from_mins(10), None, |_| Answer::text("Late.")).await;
    mock.register(&server.owner().await, "slow").await;
    let own = key(&owner, json!({})).await;
    for (calls, once) in [(1, "first"), (2, "second")] {
        let question = json!({"model": "slow", "once": once});
        let stopped = tokio::spawn({
            let (owner, own, question) = (owner.clone(), own.clone(), question.clone());
            async move { ask(&owner, &own, question).await }
        });
        until("the model is called", async || (mock.begun() == calls).then_some(())).await;
        stopped.abort();
        assert!(stopped.await.unwrap_err().is_cancelled());
        // Nobody pays for what nobody waits for.
        until("the model is left", async || (mock.gone() == calls).then_some(())).await;
        let again = ask(&owner, &own, question).await;
        again.says(409, WITHOUT_ANSWER);
        assert_eq!(mock.begun(), calls);
    }
}

async fn an_answer_that_was_stopped_halfway_is_not_asked_for_again_in_silence(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let pieces = ["The first ", "words of an ", "answer "].map(str::to_owned).to_vec();
    let mock = Mock::always(Answer::Halting(pieces)).await;
    mock.register(&server.owner().await, "halting").await;
    let own = key(&owner, json!({})).await;
    let question =
        json!({"key": own, "model": "halting", "prompt": "Say hello.", "once": "halfway"});
    let page = owner.with("origin", &owner.base);
    let request = page.request("POST", "/playground/answer?project=1");
    let request = request.header("content-type", "application/json").body(question.to_string());
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    hang_up_after(response, "first").await;
    until("the model is left", async || (mock.gone() == 1).then_some(())).await;
    ask(&owner, &own, question).await.says(409, WITHOUT_ANSWER);
    assert_eq!(mock.begun(), 1);
}

//! The governance of requests of Gemini's format that pass: what they may reach and cost, what of their answers
//! is judged, and what is recorded.

use serde_json::{Value, json};

use super::gemini_vendor::{
    FORMS, HOSTILE, LEAKED, MAIL, OWN_KEY, answer, ask, at, chunks, in_letters, named, parsed,
    register, step, stream, told, vendor, with,
};
use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(
    a_provider_reaches_only_what_the_project_allows,
    what_has_no_price_is_refused,
    an_answer_is_judged_in_every_field,
    what_has_no_canonical_form_is_in_the_record,
    a_stream_that_breaks_off_ends_in_the_vendors_error,
);

async fn a_provider_reaches_only_what_the_project_allows(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    let part = |part: Value| ask(json!({"contents": [{"parts": [part]}]}));
    let file = |uri: &str| part(json!({"fileData": {"fileUri": uri, "mimeType": "video/mp4"}}));
    let tool = |tool: Value| ask(json!({"tools": [tool]}));
    let mcp = |url: &str| tool(json!({"mcpServers": [{"streamableHttpTransport": {"url": url}}]}));
    let kept = ask(json!({"cached_content": "cachedContents/1"}));
    let cases = [
        (file("https://www.youtube.com/watch?v=x"), "contents[0].parts[0]"),
        (file("https://generativelanguage.googleapis.com/v1beta/files/a"), "contents[0].parts[0]"),
        (part(json!({"file_data": {"file_uri": "gs://bucket/a"}})), "contents[0].parts[0]"),
        (kept, "cachedContent"),
        (tool(json!({"googleSearch": {}})), "tools[0]"),
        (tool(json!({"google_search_retrieval": {}})), "tools[0]"),
        (tool(json!({"googleMaps": {}})), "tools[0]"),
        (tool(json!({"enterprise_web_search": {}})), "tools[0]"),
        (tool(json!({"url_context": {}})), "tools[0]"),
        (tool(json!({"fileSearch": {"fileSearchStoreNames": ["s"]}})), "tools[0]"),
        (mcp("https://a.example/mcp"), "tools[0]"),
    ];
    for (asked, at_fault) in &cases {
        for form in FORMS {
            let error = key.post(&at("mine", form), asked).await.ok(422)["error"].clone();
            assert_eq!(error["status"], "INVALID_ARGUMENT", "{asked}");
            assert!(error["message"].as_str().unwrap().starts_with(at_fault), "{error}");
        }
    }
    for more in [json!({"models": ["x"]}), json!({"baseUrl": "http://x"})] {
        key.post(&at("mine", FORMS[0]), &ask(more)).await.ok(400);
    }
    assert_eq!(mock.begun(), 0);
    let kinds = [
        "fileData",
        "cachedContent",
        "googleSearch",
        "googleSearchRetrieval",
        "googleMaps",
        "enterpriseWebSearch",
        "urlContext",
        "fileSearch",
    ];
    let allowed = json!({"mcp": {"allowed_servers": ["https://a.example/mcp"]},
        "passthrough": {"vendor_tools": kinds}});
    settings(&owner, 1, allowed).await;
    for (asked, _) in &cases {
        key.post(&at("mine", FORMS[0]), asked).await.ok(200);
        assert_eq!(mock.last(), *asked);
    }
    key.post(&at("mine", FORMS[0]), &mcp("https://b.example/mcp")).await.ok(422);
}

async fn what_has_no_price_is_refused(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    let speaks = json!({"generationConfig": {"responseModalities": ["AUDIO"]}});
    for (more, why) in [
        (json!({"serviceTier": "priority"}), "serviceTier: 'priority' has other prices"),
        (speaks, "generationConfig.responseModalities: "),
    ] {
        let error = key.post(&at("mine", FORMS[1]), &ask(more)).await.ok(422)["error"].clone();
        assert_eq!(error["status"], "INVALID_ARGUMENT");
        assert!(error["message"].as_str().unwrap().starts_with(why), "{error}");
    }
    assert_eq!(mock.begun(), 0);
    key.post(&at("mine", FORMS[0]), &ask(json!({"serviceTier": "flex"}))).await.ok(200);
}

async fn an_answer_is_judged_in_every_field(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    // A request is judged in every field, too.
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    for more in [
        json!({"ofTomorrow": {"a": [HOSTILE]}}),
        json!({"contents": [{"parts": [{"text": "Hello."}, {"partOfTomorrow": HOSTILE}]}]}),
        json!({"contents": [{"parts": [{"inlineData": {"mimeType": "text/plain", "data": HOSTILE}}]}]}),
        json!({"stream": HOSTILE}),
    ] {
        let reply = key.post(&at("mine", FORMS[0]), &ask(more.clone())).await;
        assert_eq!(reply.ok(200)["promptFeedback"]["blockReason"], "SAFETY", "{more}");
    }
    assert_eq!(mock.begun(), 0);
    let leaking = with(answer("Fine."), json!({"ofTomorrow": [LEAKED, OWN_KEY]}));
    let mock = Mock::always(Answer::json(200, &leaking)).await;
    register(&mock, &owner, "leaking").await;
    let streaming = Mock::always(stream(&chunks(&["Use AKIAQ3EGR", "VXT7ZLNB5PD."]))).await;
    register(&streaming, &owner, "streaming").await;
    let mut second = chunks(&["Use AKIAQ3EGR", "VXT7ZLNB5PD."]);
    second.truncate(4);
    for chunk in &mut second {
        chunk["candidates"][0]["index"] = 1.into();
    }
    let mut first = chunks(&["Fine."]);
    second.append(&mut first);
    let further = Mock::always(stream(&second)).await;
    register(&further, &owner, "further").await;
    for (action, leaves) in [("flag", true), ("redact", false), ("block", false)] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let reply = key.post(&at("leaking", FORMS[0]), &ask(json!({}))).await;
        let said = reply.ok(200);
        assert_eq!(said.to_string().contains(LEAKED), leaves, "{said}");
        assert!(!said.to_string().contains(OWN_KEY), "{said}");
        assert_eq!(said["candidates"][0]["finishReason"] == "SAFETY", action == "block", "{said}");
        assert_eq!(step(&key, &reply).await["security"]["secret_leaked"], true);
        for model in ["streaming", "further"] {
            for form in &FORMS[1..] {
                let reply = key.post(&at(model, form), &ask(json!({}))).await;
                told(&reply);
                assert_eq!(reply.text.contains("AKIAQ3EGR"), leaves, "{}", reply.text);
                let step = step(&key, &reply).await;
                assert_eq!(step["security"]["secret_leaked"], true, "{model}: {step}");
            }
        }
    }
}

async fn what_has_no_canonical_form_is_in_the_record(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    for form in &FORMS[..2] {
        let streams = *form != FORMS[0];
        let asked = ask(json!({"ofTomorrow": {"streams": streams, "note": MAIL, "n": 1.5}}));
        let reply = key.post(&at("mine", form), &asked).await;
        let step = step(&key, &reply).await;
        let sent = mock.last()["ofTomorrow"].clone();
        assert!(sent["note"].as_str().unwrap().starts_with("[EMAIL_1_"), "{sent}");
        assert_eq!(
            step["passed"]["request"],
            json!({"ofTomorrow": sent}),
            "as the provider saw it"
        );
        let expected = if streams {
            let mut sent = named(in_letters("Fine"));
            json!([sent.remove(9)])
        } else {
            let sent = answer("Fine");
            let first = &sent["candidates"][0];
            json!([first["content"]["parts"][3], {"new": first["new"]}])
        };
        assert_eq!(step["passed"]["answer"], expected, "{step}");
    }
    let asked = ask(json!({"contents": [{"parts": [{"partOfTomorrow": {"x": 1}}]}]}));
    let reply = key.post(&at("mine", FORMS[0]), &asked).await;
    let step = step(&key, &reply).await;
    assert_eq!(step["passed"]["request"]["contents"], asked["contents"]);
}

async fn a_stream_that_breaks_off_ends_in_the_vendors_error(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let sent = &chunks(&["Fine."])[..3];
    let mock = Mock::always(stream(sent)).await;
    register(&mock, &owner, "mine").await;
    for form in &FORMS[1..] {
        let reply = key.post(&at("mine", form), &ask(json!({}))).await;
        let mut told = parsed(&reply.text);
        let error = told.pop().unwrap();
        assert_eq!(error["error"]["status"], "UNAVAILABLE", "{error}");
        assert_eq!(told, named(sent.to_vec()));
        let step = step(&key, &reply).await;
        assert_eq!((&step["status"], &step["output"]), (&json!("failed"), &json!("Fine.")));
    }
}

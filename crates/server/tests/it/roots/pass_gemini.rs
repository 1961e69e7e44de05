//! Requests of Gemini's format that pass as they came, whole and in streams of both forms.

use serde_json::{Value, json};

use super::gemini_vendor::{
    FORMS, MAIL, answer, ask, at, in_letters, named, step, told, unknown, vendor, with,
};
use crate::harness::{Backend, Server, settings};

crate::on_every_backend!(
    nothing_changes_that_governance_does_not_name,
    placeholders_come_back_wherever_they_are_cut,
    placeholders_stay_the_same_in_a_session,
    a_bound_is_added_under_a_cap,
    what_is_read_in_two_ways_is_translated,
);

async fn nothing_changes_that_governance_does_not_name(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    for form in FORMS {
        let asked = unknown(form);
        let with_model = with(json!({"model": "models/other"}), asked.clone());
        let reply = key.post(&at("mine", form), &with_model).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let got = mock.take().pop().unwrap();
        // The text, not only what it says.
        assert_eq!(got.text, asked.to_string(), "the address alone names the model");
        let method = if form == FORMS[0] { FORMS[0] } else { FORMS[1] };
        assert_eq!(got.path, format!("/v1beta/models/gemini-3-flash:{method}"));
        if form == FORMS[0] {
            let sent = with(answer("Fine"), json!({"modelVersion": "mine"}));
            assert_eq!(reply.text, sent.to_string());
        } else {
            assert_eq!(told(&reply), named(in_letters("Fine")));
        }
        let kind = if form == FORMS[1] { "text/event-stream" } else { "application/json" };
        assert_eq!(reply.header("content-type"), kind);
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        assert_eq!(reply.header("x-sluice-dropped-params"), "");
        let step = step(&key, &reply).await;
        assert_eq!(step["output"], if form == FORMS[0] { "Fine" } else { "Fine." });
        assert_eq!(step["prompt_tokens"], 1060, "with those of the results of tools: {step}");
        assert_eq!(step["completion_tokens"], 100, "with the thoughts: {step}");
        assert_eq!((&step["cached_tokens"], &step["reasoning_tokens"]), (&json!(400), &json!(60)));
    }
}

/// The placeholder that stands in a field nobody knows.
fn placeholder(body: &Value) -> String {
    body["ofTomorrow"]["note"][0].as_str().unwrap_or("none").to_owned()
}

async fn placeholders_come_back_wherever_they_are_cut(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, placeholder).await;
    for form in FORMS {
        let streams = form != FORMS[0];
        let note = json!({"streams": streams, "note": [MAIL], MAIL: {"n": 1.5}});
        let asked = ask(json!({"ofTomorrow": note, "tools": [{"functionDeclarations":
            [{"name": "mail", "description": format!("Mails {MAIL}."), "parameters":
                {"type": "OBJECT", "x": [MAIL]}}]}]}));
        let reply = key.post(&at("mine", form), &asked).await;
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        let got = mock.take().pop().unwrap();
        let placeholder = placeholder(&got.body);
        assert!(placeholder.starts_with("[EMAIL_1_"), "{}", got.text);
        assert_eq!(got.text, asked.to_string().replace(MAIL, &placeholder));
        if !streams {
            assert_eq!(reply.ok(200), with(answer(MAIL), json!({"modelVersion": "mine"})));
            continue;
        }
        let told = told(&reply);
        let parts = told.iter().flat_map(|chunk| {
            chunk["candidates"][0]["content"]["parts"].as_array().cloned().unwrap()
        });
        let mut said: Vec<String> = vec![String::new()];
        for part in parts.clone() {
            match part["text"].as_str() {
                Some(text) if part["thought"] == true => said[0].push_str(text),
                Some(text) if said.len() == 1 => said.push(text.to_owned()),
                Some(text) => said.last_mut().unwrap().push_str(text),
                None => said.extend([
                    part["functionCall"]["args"]["path"]
                        .as_str()
                        .or(part["executableCode"]["code"].as_str())
                        .unwrap()
                        .to_owned(),
                    String::new(),
                ]),
            }
        }
        assert_eq!(said, [MAIL, MAIL, MAIL, "", MAIL, "."], "in their order");
        assert!(parts.clone().all(|part| part["text"] != ""), "{told:?}");
        let signatures = parts.filter(|part| part.get("thoughtSignature").is_some());
        assert_eq!(signatures.count(), 1, "it comes once");
        let reasons = told.iter().filter(|chunk| chunk["candidates"][0]["finishReason"] == "STOP");
        assert_eq!(reasons.count(), 1);
    }
}

/// What is sent before stays as it was sent, or the vendor's cache would be lost.
async fn placeholders_stay_the_same_in_a_session(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    let signed = "/v79/Pv6+fj39vX08/Lx8A==";
    let mut asked =
        json!({"contents": [{"role": "user", "parts": [{"text": format!("Ask {MAIL}.")}]}]});
    let mut sent = Vec::new();
    for turn in 0..3 {
        let reply = key.post(&at("mine", FORMS[0]), &asked).await;
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        assert_eq!(reply.status, 200, "{}", reply.text);
        let text = mock.take().pop().unwrap().text;
        assert!(!text.contains(MAIL), "{text}");
        sent.push(text.trim_end_matches("]}").to_owned());
        let call = json!({"functionCall": {"name": "f", "args": {"to": MAIL, "n": turn}},
            "thoughtSignature": signed});
        let result = json!({"functionResponse": {"name": "f",
            "response": {"mail": MAIL, "rows": [{"from": format!("<{MAIL}>")}]}}});
        asked["contents"].as_array_mut().unwrap().extend([
            json!({"role": "model", "parts": [call]}),
            json!({"role": "user", "parts": [result]}),
        ]);
    }
    assert!(sent[1].starts_with(&sent[0]), "{sent:?}");
    assert!(sent[2].starts_with(&sent[1]), "{sent:?}");
    assert!(sent[2].contains(signed));
}

async fn a_bound_is_added_under_a_cap(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    settings(&owner, 1, json!({"monthly_budget": 1.0})).await;
    let key = server.key();
    let asked = ask(json!({"ofTomorrow": 1.50, "generationConfig": {"topK": 5.0}}));
    let reply = key.post(&at("mine", FORMS[0]), &asked).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let bound = mock.last()["generationConfig"]["maxOutputTokens"].clone();
    assert!(bound.as_u64().is_some_and(|bound| bound > 0), "{}", mock.last());
    let bounded = asked.to_string().replace("5.0", &format!("5.0,\"maxOutputTokens\":{bound}"));
    assert_eq!(mock.take().pop().unwrap().text, bounded);
    // Each further answer may cost as much.
    let many = json!({"candidateCount": 8, "maxOutputTokens": 1000});
    let reply = key.post(&at("mine", FORMS[0]), &ask(json!({"generationConfig": many}))).await;
    assert_eq!(reply.ok(402)["error"]["status"], "FAILED_PRECONDITION");
    // Nothing bounds what a tool of the vendor's costs in a window that is not known.
    let reply =
        key.post(&at("mine", FORMS[0]), &ask(json!({"tools": [{"codeExecution": {}}]}))).await;
    let error = reply.ok(422)["error"]["message"].clone();
    assert!(error.as_str().unwrap().starts_with("tools[0] ('codeExecution')"), "{error}");
    // A fetched document may fill any window.
    settings(&owner, 1, json!({"passthrough": {"vendor_tools": ["fileData"]}})).await;
    let part = json!({"fileData": {"fileUri": "https://a.example/a.pdf"}});
    let fetched =
        json!({"contents": [{"parts": [part]}], "generationConfig": {"maxOutputTokens": 1}});
    key.post(&at("mine", FORMS[0]), &fetched).await.ok(402);
    assert_eq!(mock.begun(), 1);
}

async fn what_is_read_in_two_ways_is_translated(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine".to_owned()).await;
    let both = json!({"generationConfig": {"maxOutputTokens": 9, "max_output_tokens": 4000}});
    let spelled = json!({"generationConfig": {"Max_Output_Tokens": 4000}});
    let twice =
        r#"{"contents": [{"parts": [{"text": "Hello."}]}], "ofTomorrow": {"a": 1, "a": 2}}"#;
    for body in [ask(both).to_string(), ask(spelled).to_string(), twice.to_owned()] {
        let reply = key.send("POST", &at("mine", FORMS[0]), Some(body.clone().into_bytes())).await;
        reply.ok(200);
        assert_eq!(reply.header("x-sluice-mode"), "translated", "{body}");
        assert_eq!(mock.last().get("ofTomorrow"), None);
    }
    assert_eq!(mock.begun(), 3);
    // A conversation that another vendor's model began has calls that Gemini has not signed.
    let calls = json!({"contents": [
        {"parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"parts": [{"functionResponse": {"name": "f", "response": {"output": "Done."}}}]},
    ]});
    let reply = key.post(&at("mine", FORMS[0]), &calls).await;
    assert_eq!(reply.header("x-sluice-mode"), "translated", "{}", reply.text);
    let signature = mock.last()["contents"][1]["parts"][0]["thoughtSignature"].clone();
    assert_eq!(signature, "skip_thought_signature_validator");
}

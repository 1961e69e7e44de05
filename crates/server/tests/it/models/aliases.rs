//! `settings.model_aliases`: models under the names that clients have for them.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(
    a_client_finds_the_model_that_it_names,
    a_pattern_stands_for_conversations,
    an_alias_names_a_registered_model,
);

async fn a_client_finds_the_model_that_it_names(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Fine.")).await;
    for model in ["small", "large", "gpt-5"] {
        mock.register(&owner, model).await;
    }
    let aliases = json!({"claude-haiku-*": "small", "claude-*": "large", "gpt-*": "small"});
    settings(&owner, 1, json!({"model_aliases": aliases})).await;
    let trace = key.trace().await;
    let ask = |model: &str| {
        json!({"model": model, "trace_id": trace, "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hello."}]})
    };
    for (named, answers) in [
        ("claude-haiku-4-5-20251001", "small"),
        ("claude-opus-5", "large"),
        ("gpt-5", "gpt-5"),
        ("gpt-5.4-nano", "small"),
    ] {
        for door in ["messages", "chat/completions"] {
            let answer = key.post(&format!("/api/v1/{door}"), &ask(named)).await.ok(200);
            assert_eq!(answer["model"], answers, "{named}");
            let detail = key.detail(&trace).await;
            let steps = detail["steps"].as_array().unwrap();
            assert_eq!(steps.last().unwrap()["model"], answers, "{named}");
        }
    }
    // The list of models knows them, by the name that was asked for.
    let listed = key.get("/openai/v1/models/claude-haiku-9").await.ok(200);
    assert_eq!(listed["id"], "claude-haiku-9");
    let chat = "/api/v1/chat/completions";
    key.post(chat, &ask("mistral")).await.says(422, "Model not authorized or found: mistral");
    // Aliases are merged like all settings: a null removes one, the others stay.
    settings(&owner, 1, json!({"model_aliases": {"gpt-*": null, "*": "large"}})).await;
    for (named, answers) in [("mistral", "large"), ("gpt-4", "large"), ("claude-haiku", "large")] {
        assert_eq!(key.post(chat, &ask(named)).await.ok(200)["model"], answers, "{named}");
    }
    assert_eq!(key.post(chat, &ask("claude-haiku-5")).await.ok(200)["model"], "small");
}

async fn a_pattern_stands_for_conversations(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::json(200, &json!({"data": [{"embedding": [0.5]}]}))).await;
    mock.register(&owner, "vectors").await;
    let aliases = json!({"*": "vectors", "ada": "vectors"});
    settings(&owner, 1, json!({"model_aliases": aliases})).await;
    let ask = |model: &str| json!({"model": model, "input": "A text."});
    key.post("/openai/v1/embeddings", &ask("ada")).await.ok(200);
    key.post("/openai/v1/embeddings", &ask("text-embedding-3-large")).await.ok(404);
    key.post("/openai/v1/embeddings", &json!({"input": "A text."})).await.ok(404);
    key.post("/openai/v1/images/generations", &json!({"prompt": "A boat"})).await.ok(404);
    assert_eq!(mock.begun(), 1);
}

async fn an_alias_names_a_registered_model(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let mock = Mock::always(Answer::text("never")).await;
    let id = mock.register(&owner, "small").await["id"].clone();
    let set = async |aliases: Value| {
        let body = json!({"project": {"settings": {"model_aliases": aliases}}});
        owner.patch("/api/v1/projects/1", &body).await
    };
    set(json!({"a": "small", "b": "a"}))
        .await
        .invalid("settings.model_aliases.b names a, which is not registered");
    set(json!({"a*b*": "small"}))
        .await
        .invalid("settings.model_aliases.a*b* must hold one * at most");
    set(json!({"a-*": "small"})).await.ok(200);
    let rename = json!({"model_definition": {"identifier": "tiny"}});
    owner.patch(&format!("/api/v1/projects/1/models/{id}"), &rename).await.invalid(
        "Identifier small is named by settings.model_aliases.a-*: name another model there first",
    );
}

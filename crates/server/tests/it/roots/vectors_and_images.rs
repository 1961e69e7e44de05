//! Embeddings and images in OpenAI's bodies.

use serde_json::json;

use crate::embeddings::vectors::SECRET;
use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(texts_become_vectors, prompts_become_images);

const EMBEDDINGS: &str = "/openai/v1/embeddings";
const IMAGES: &str = "/openai/v1/images/generations";

async fn texts_become_vectors(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let data = json!([{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [0.5, -2.5]}]);
    let answer =
        json!({"object": "list", "data": data, "model": "up", "usage": {"prompt_tokens": 2000}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    mock.register(&owner, "e").await;
    let ask = json!({"model": "e", "input": ["one", "two"], "user": "u"});
    let reply = key.post(EMBEDDINGS, &ask).await;
    let item = |index: u64, embedding| json!({"object": "embedding", "index": index, "embedding": embedding});
    let items = [item(0, json!([0.5, -2.5])), item(1, json!([3.0, 4.0]))];
    let usage = json!({"prompt_tokens": 2000, "total_tokens": 2000});
    let list = json!({"object": "list", "data": items, "model": "e", "usage": usage});
    assert_eq!(reply.ok(200), list);
    assert_eq!(reply.header("x-sluice-cost"), "0.30");
    assert_eq!(reply.header("x-sluice-dropped-params"), "user");
    let detail = key.detail(reply.header("x-trace-id")).await;
    assert_eq!(detail["status"], "completed");
    assert_eq!(detail["steps"][0]["id"].to_string(), reply.header("x-sluice-step-id"));

    // What the official packages ask for unless they are told otherwise.
    let coded = json!({"model": "e", "input": ["one", "two"], "encoding_format": "base64"});
    let coded = key.post(EMBEDDINGS, &coded).await.ok(200);
    assert_eq!(coded["data"][0]["embedding"], "AAAAPwAAIMA=");

    let trace = key.trace().await;
    let named = json!({"model": "sandbox", "input": "A red boat."});
    let reply = key.with("x-trace-id", &trace).post(EMBEDDINGS, &named).await;
    reply.ok(200);
    assert_eq!(key.detail(&trace).await["status"], "pending");

    let refused = key.post(EMBEDDINGS, &json!({"model": "e", "input": SECRET})).await;
    let error = json!({"message": "Blocked by safety check: the input contains a credential (aws access key id).",
        "type": "invalid_request_error", "param": null, "code": "content_policy_violation"});
    assert_eq!(refused.ok(400)["error"], error);
    let detail = key.detail(refused.header("x-trace-id")).await;
    assert_eq!(
        (&detail["status"], &detail["steps"][0]["status"]),
        (&json!("completed"), &json!("blocked"))
    );

    let unknown = key.post(EMBEDDINGS, &json!({"model": "nobody", "input": "x"})).await;
    assert_eq!(unknown.ok(404)["error"]["code"], "model_not_found");
    for tokens in [json!([[1, 2]]), json!([1, 2])] {
        let tokens = key.post(EMBEDDINGS, &json!({"model": "e", "input": tokens})).await.ok(400);
        assert_eq!(tokens["error"]["type"], "invalid_request_error");
        let message = tokens["error"]["message"].as_str().unwrap();
        let remedy = "send texts (OpenAIEmbeddings of LangChain: check_embedding_ctx_length=False)";
        assert!(message.contains(remedy), "{message}");
    }
    // The interface still asks for a trace.
    key.post("/api/v1/embeddings", &named).await.says(400, "Missing required parameter: trace_id");
}

async fn prompts_become_images(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let usage = json!({"input_tokens": 12, "output_tokens": 544, "total_tokens": 556});
    let answer = json!({"created": 1, "usage": usage,
        "data": [{"b64_json": "iVBORw0KGgo="}, {"url": "https://images.example/2.png"}]});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    mock.register(&owner, "gpt-image-2").await;
    settings(&owner, 1, json!({"images": {"blocked_terms": ["Café Central"]}})).await;
    let ask = json!({"prompt": "A red boat", "n": 2, "background": "opaque"});
    let reply = key.post(IMAGES, &ask).await;
    let mut body = reply.ok(200);
    assert!(body["created"].take().as_i64() > Some(0));
    let images = json!([{"b64_json": "iVBORw0KGgo="}, {"url": "https://images.example/2.png"}]);
    assert_eq!(body, json!({"created": null, "data": images, "usage": usage}));
    assert_eq!(reply.header("x-sluice-cost"), "0.3282", "12 and 544 tokens");
    assert_eq!(reply.header("x-sluice-dropped-params"), "background");
    let detail = key.detail(reply.header("x-trace-id")).await;
    assert_eq!(detail["status"], "completed");
    assert_eq!(detail["steps"][0]["id"].to_string(), reply.header("x-sluice-step-id"));

    let refused = key.post(IMAGES, &json!({"prompt": "The cafe central"})).await;
    let error = json!({"message": "Blocked by brand/copyright check: Café Central",
        "type": "invalid_request_error", "param": null, "code": "content_policy_violation"});
    assert_eq!(refused.ok(400), json!({"error": error}));
    let detail = key.detail(refused.header("x-trace-id")).await;
    assert_eq!(detail["steps"][0]["id"].to_string(), refused.header("x-sluice-step-id"));
    let streamed = key.post(IMAGES, &json!({"prompt": "A boat", "stream": true})).await.ok(400);
    assert!(streamed["error"]["message"].as_str().unwrap().starts_with("stream"));
}

//! Circuits: which outcomes open them, and what an open one leaves behind.

use serde_json::json;

use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(streams_that_break_open_the_circuit);

/// An endpoint that breaks every stream after its first word is as good as one that does not answer.
async fn streams_that_break_open_the_circuit(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::Broken(vec!["Once ".into()])).await;
    mock.register(&owner, "m").await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = json!({"trace_id": key.trace().await, "model": "m", "messages": messages,
        "stream": true});
    let path = "/api/v1/chat/completions";
    for _ in 0..5 {
        let reply = key.post(path, &ask).await;
        assert!(reply.status == 200 && reply.text.contains("Once "), "{}", reply.text);
    }
    key.post(path, &ask).await.says(502, "Provider request failed");
    assert_eq!(mock.begun(), 5);
}

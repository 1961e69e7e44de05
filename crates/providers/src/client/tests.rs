use std::sync::Mutex;

use domain::conversation::{Prompt, StreamEvent};
use domain::model::{Provider, SANDBOX_URL};
use domain::step::FinishReason;
use http_body_util::BodyExt as _;
use serde_json::json as value;

use super::*;
use crate::client::event_stream::tests::{TEXT, events};
use crate::error::ErrorKind;
use crate::testing::{
    ANSWER, After, CANARY, Server, attempt, client, json, model, prompt, reply, sse, step,
};

/// Returns the result of a private model's call to a server with this behaviour.
async fn complete(bytes: Vec<u8>, after: After) -> Result<Reply, Error> {
    let server = Server::new(vec![step(bytes, after)]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let answer = client().complete(attempt(&model, &prompt(value!({})))).await;
    if let Err(error) = &answer {
        assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
    }
    answer
}

#[tokio::test]
async fn an_answer_comes_back_over_a_kept_connection() {
    let server = Server::new(vec![
        step(json("200 OK", ANSWER), After::Keep),
        step(json("200 OK", ANSWER), After::Keep),
    ])
    .await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    for _ in 0..2 {
        let reply = client.complete(attempt(&model, &prompt)).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("Hi", Some(FinishReason::Stop)));
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    let request = server.requests.lock().unwrap()[0].clone();
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("authorization: Bearer {CANARY}\r\n")));
    assert!(request.contains("accept-encoding: identity\r\n"));
}

#[tokio::test]
async fn no_key_no_authorization() {
    let server = Server::new(vec![step(json("200 OK", ANSWER), After::Keep)]).await;
    let mut model = model(Provider::Internal, Some(&server.url()));
    model.api_key = None;
    client().complete(attempt(&model, &prompt(value!({})))).await.unwrap();
    assert!(!server.requests.lock().unwrap()[0].contains("authorization"));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_fails_no_call() {
    let steps = (0..5).map(|_| step(json("200 OK", ANSWER), After::Close)).collect();
    let server = Server::new(steps).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    for _ in 0..5 {
        client.complete(attempt(&model, &prompt)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*server.connections.lock().unwrap(), 5);
}

/// The server has read the next request over a kept connection, and closes it instead of an answer.
#[tokio::test]
async fn a_connection_that_is_closed_as_it_is_used_again_fails_no_call() {
    let answer = || step(json("200 OK", ANSWER), After::Keep);
    let server = Server::new(vec![answer(), step(Vec::new(), After::Close), answer()]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    for _ in 0..2 {
        assert_eq!(client.complete(attempt(&model, &prompt)).await.unwrap().text, "Hi");
    }
    let requests = server.requests.lock().unwrap();
    assert_eq!((requests.len(), *server.connections.lock().unwrap()), (3, 2));
    assert_eq!(requests[1], requests[2]);
}

#[tokio::test]
async fn what_was_being_answered_is_not_sent_again() {
    let begun = || step(b"HTTP/1.1 200".to_vec(), After::Close);
    let closed = || step(Vec::new(), After::Close);
    let answer = || step(json("200 OK", ANSWER), After::Keep);
    for (steps, calls) in [
        (vec![answer(), begun(), answer()], 2),
        // A request that fails on a new connection is not sent again either.
        (vec![closed(), answer()], 1),
        (vec![answer(), closed(), closed(), answer()], 3),
    ] {
        let server = Server::new(steps).await;
        let model = model(Provider::Internal, Some(&server.url()));
        let (client, prompt) = (client(), prompt(value!({})));
        let mut error = None;
        while error.is_none() {
            error = client.complete(attempt(&model, &prompt)).await.err();
        }
        let error = error.unwrap();
        assert!(error.may_be_charged() && error.is_endpoint_fault(), "{error}");
        assert_eq!(server.requests.lock().unwrap().len(), calls, "{error}");
    }
}

/// A tool of an MCP server may have been run before the failure.
#[tokio::test]
async fn what_may_not_be_done_twice_is_not_sent_again() {
    let answer = || step(json("200 OK", ANSWER), After::Keep);
    let server = Server::new(vec![answer(), step(Vec::new(), After::Close), answer()]).await;
    let client = client();
    let endpoint = client.find(&server.url()).unwrap();
    let send = async || {
        let (headers, body) = (HeaderMap::new(), Vec::new());
        let call = Call { uri: endpoint.uri.clone(), headers, body };
        client.send(true, &endpoint, Method::POST, call, soon(), Resend::Never).await
    };
    send().await.unwrap().into_body().collect().await.unwrap();
    assert!(send().await.is_err());
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn statuses_become_kinds_of_failure() {
    for (status, body, retryable, fallback, fault) in [
        ("500 X", "oops", true, true, true),
        ("503 X", r#"{"error":{"message":"busy"}}"#, true, true, true),
        ("529 X", "{}", true, true, true),
        ("429 X", r#"{"error":{"message":"slow down"}}"#, true, true, true),
        ("429 X", r#"{"error":{"code":"insufficient_quota"}}"#, false, true, true),
        ("400 X", r#"{"error":{"message":"bad"}}"#, false, false, false),
        ("401 X", r#"{"error":{"message":"key"}}"#, false, true, false),
        ("302 X", "", false, true, true),
        ("204 X", "", false, true, true),
    ] {
        let error = complete(json(status, body), After::Keep).await.unwrap_err();
        let found = (error.retryable_here(), error.fallback_helps(), error.is_endpoint_fault());
        assert_eq!(found, (retryable, fallback, fault), "{status} {error:?}");
        let status: u16 = status[..3].parse().unwrap();
        assert_eq!(error.provider_status(), Some(status).filter(|status| *status != 204));
    }
}

#[tokio::test]
async fn a_refusal_carries_the_providers_words_but_no_key() {
    let said = format!("Incorrect key {CANARY} or sk-12345678abc");
    let body = value!({"error": {"message": said}}).to_string();
    let error = complete(json("401 Unauthorized", &body), After::Keep).await.unwrap_err();
    let message = "Incorrect key *** or ***".to_owned();
    assert_eq!(error.to_string(), format!("The provider answered 401: {message}"));
    assert_eq!(error.kind, ErrorKind::Rejected { status: 401, message });
}

#[tokio::test]
async fn rate_limits_say_how_long() {
    let bytes = reply("429 Too Many Requests", "retry-after: 3\r\n", "");
    let error = complete(bytes, After::Keep).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn the_bytes_of_a_refusal_that_are_no_text_are_not_told() {
    let zipped = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let said = r#"{"error":{"message":"no"}}"#;
    let mut binary = reply("400 Bad Request", "", "xxxx");
    let end = binary.len();
    binary[end - 4..].copy_from_slice(b"\x1f\x8b\x08\xff");
    for (bytes, says) in [
        (reply("400 Bad Request", zipped, said), "The provider answered 400"),
        (binary, "The provider answered 400"),
        (reply("400 Bad Request", "content-encoding: identity\r\n", said), "no"),
        (reply("400 Bad Request", "", "no JSON"), "no JSON"),
    ] {
        let error = complete(bytes, After::Keep).await.unwrap_err();
        let message = says.to_owned();
        assert_eq!(error.kind, ErrorKind::Rejected { status: 400, message });
    }
}

/// Google has a status of its own for a wrong key.
#[tokio::test]
async fn a_wrong_key_is_no_fault_of_the_request() {
    let body = value!({"error": {"code": 400, "message": "API key not valid.",
        "details": [{"reason": "API_KEY_INVALID"}]}});
    let error = complete(json("400 Bad Request", &body.to_string()), After::Keep).await;
    let error = error.unwrap_err();
    assert_eq!((error.provider_status(), error.fallback_helps()), (Some(400), true));
    assert_eq!(error.to_string(), "The provider answered 400: API key not valid.");
    assert!(!error.is_endpoint_fault() && !error.retryable_here());
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let server = Server::new(vec![step(json("200 OK", ANSWER), After::Keep)]).await;
    let headers = format!("location: {}/chat/completions\r\n", server.url());
    let error = complete(reply("307 X", &headers, ""), After::Keep).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.to_string().contains("redirects are not followed"));
    assert!(server.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_no_answer_is_malformed() {
    let html = reply("200 OK", "content-type: text/html\r\n", "<html>");
    let zipped = reply("200 OK", "content-encoding: gzip\r\n", "xx");
    let huge = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{".to_vec();
    for bytes in [html, zipped, huge, json("200 OK", "[1]")] {
        let error = complete(bytes, After::Hang).await.unwrap_err();
        assert!(error.to_string().contains("malformed"), "{error}");
        assert!(error.is_endpoint_fault() && !error.retryable_here());
    }
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_a_fault() {
    let whole = json("200 OK", ANSWER);
    let error = complete(whole[..whole.len() - 9].to_vec(), After::Close).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(!error.retryable_here(), "the provider may have charged");
}

#[tokio::test]
async fn a_body_without_end_is_not_read_for_ever() {
    const CHUNK: &[u8] = &[b' '; 64 * 1024];
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_vec();
    let error = complete(head, After::Repeat(CHUNK)).await.unwrap_err();
    assert!(error.to_string().contains("longer than 32 MiB"), "{error}");
}

#[tokio::test]
async fn a_slow_head_goes_elsewhere_after_a_minute() {
    let server = Server::new(vec![step(Vec::new(), After::Hang)]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    let mut begun = Instant::now();
    let (answer, ()) = tokio::join!(client.complete(attempt(&model, &prompt)), async {
        server.asked.notified().await;
        tokio::time::pause();
        begun = Instant::now();
    });
    let error = answer.unwrap_err();
    let waited = begun.elapsed().as_secs();
    assert!((59..62).contains(&waited), "{waited} s");
    assert!(!error.retryable_here() && error.fallback_helps() && error.is_endpoint_fault());
}

#[tokio::test]
async fn images_have_all_the_time_of_their_call_and_twice_the_room() {
    let pixels = "A".repeat(33 * 1024 * 1024);
    let large = json("200 OK", &value!({"data": [{"b64_json": pixels}]}).to_string());
    let server = Server::new(vec![step(Vec::new(), After::Hang), step(large, After::Keep)]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let client = client();
    let ask = ImageRequest {
        model: &model,
        prompt: "A boat.",
        size: "1024x1024",
        count: 1,
        quality: None,
        trace: None,
    };
    let end = Instant::now() + Duration::from_mins(4);
    let (answer, ()) = tokio::join!(client.generate_images(ask, end), async {
        server.asked.notified().await;
        tokio::time::pause();
    });
    assert!(answer.unwrap_err().to_string().contains("in time"));
    assert!(Instant::now() >= end, "it was waited for until the end");
    tokio::time::resume();
    let made = client.generate_images(ask, Instant::now() + Duration::from_mins(4)).await.unwrap();
    assert!(made.urls[0].len() > 33 * 1024 * 1024);
}

#[tokio::test]
async fn what_was_not_answered_may_be_charged_and_what_was_refused_is_not() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{\"id\":".to_vec();
    for (bytes, charged) in [
        (json("500 Oh", "{}"), false),
        (json("429 Wait", "{}"), false),
        (json("400 No", "{}"), false),
        (json("200 OK", r#"{"error": {"message": "overloaded"}}"#), false),
        (reply("200 OK", "content-type: text/html\r\n", "<html>"), false),
        (Vec::new(), true),
        (cut, true),
    ] {
        let error = complete(bytes, After::Close).await.unwrap_err();
        assert_eq!(error.may_be_charged(), charged, "{error}");
        assert!(!(error.may_be_charged() && error.retryable_here()), "{error}");
    }
    let nobody = model(Provider::Internal, Some("http://127.0.0.1:1/v1"));
    let error = client().complete(attempt(&nobody, &prompt(value!({})))).await.unwrap_err();
    assert!(!error.may_be_charged(), "{error}");
}

#[tokio::test]
async fn heads_are_bounded_and_no_bound_for_bodies() {
    let padded = |bytes: usize| {
        let pad = format!("content-type: application/json\r\nx-pad: {}\r\n", "a".repeat(bytes));
        reply("200 OK", &pad, ANSWER)
    };
    assert_eq!(complete(padded(20 * 1024), After::Keep).await.unwrap().text, "Hi");
    let error = complete(padded(64 * 1024), After::Keep).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    let long = ANSWER.replace("Hi", &"x".repeat(1024 * 1024));
    assert_eq!(complete(json("200 OK", &long), After::Keep).await.unwrap().text.len(), 1024 * 1024);
}

/// A connection keeps the buffer of its largest read.
#[tokio::test]
async fn little_is_read_at_once() {
    let long = json("200 OK", &"x".repeat(4 * 1024 * 1024));
    let server = Server::new(vec![step(long, After::Keep)]).await;
    let client = client();
    let endpoint = client.find(&server.url()).unwrap();
    let (headers, body) = (HeaderMap::new(), Vec::new());
    let call = Call { uri: endpoint.uri.clone(), headers, body };
    let soon = Instant::now() + Duration::from_mins(1);
    let answer =
        client.send(true, &endpoint, Method::POST, call, soon, Resend::Never).await.unwrap();
    let (mut body, mut sizes) = (answer.into_body(), Vec::new());
    while let Some(read) = body.frame().await {
        sizes.push(read.unwrap().into_data().unwrap().len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 4 * 1024 * 1024);
    // Reads are at most 32 KiB, in buffers that may be twice as large.
    assert!(sizes.iter().all(|size| *size <= 64 * 1024), "{sizes:?}");
}

#[tokio::test]
async fn the_deadline_ends_a_slow_body_and_a_slow_stream() {
    let slow = b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{".to_vec();
    let server = Server::new(vec![step(slow, After::Hang), step(sse(&[TEXT]), After::Hang)]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    let soon = || Instant::now() + Duration::from_millis(150);
    let soon_over = || Attempt { deadline: soon(), ..attempt(&model, &prompt) };
    let error = client.complete(soon_over()).await.unwrap_err();
    assert!(error.to_string().contains("in time"), "{error}");
    let (read, error) = events(client.stream(soon_over()).await.unwrap()).await;
    assert_eq!(read, [StreamEvent::Text("Hi".to_owned())]);
    assert!(error.unwrap().to_string().contains("too long"));
}

#[tokio::test]
async fn nobody_there_may_be_tried_again() {
    let server = Server::new(Vec::new()).await;
    let url = server.url();
    drop(server);
    tokio::task::yield_now().await;
    let model = model(Provider::Internal, Some(&url));
    let error = client().complete(attempt(&model, &prompt(value!({})))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.retryable_here() && error.is_endpoint_fault(), "{error:?}");
    assert!(client().probe(&model).await.is_err());
}

#[tokio::test]
async fn public_models_do_not_reach_private_places() {
    let server = Server::new(vec![step(json("200 OK", ANSWER), After::Keep)]).await;
    let by_name = format!("http://localhost:{}/v1", server.port);
    let prompt = prompt(value!({}));
    for url in [server.url(), by_name, "http://169.254.169.254/v1".to_owned()] {
        let model = model(Provider::Openai, Some(&url));
        let error = client().complete(attempt(&model, &prompt)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden, "{url}");
        assert!(!error.retryable_here() && !error.is_endpoint_fault());
        assert!(client().stream(attempt(&model, &prompt)).await.is_err());
        assert!(client().probe(&model).await.is_err());
    }
    assert_eq!(*server.connections.lock().unwrap(), 0);

    let allow = vec!["127.0.0.1".to_owned()];
    let open = Client::new(Egress { allow, ..Egress::default() }).unwrap();
    let named = model(Provider::Openai, Some(&server.url()));
    open.complete(attempt(&named, &prompt)).await.unwrap();
    let metadata = model(Provider::Internal, Some("http://169.254.169.254/v1"));
    let error = open.complete(attempt(&metadata, &prompt)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
}

#[tokio::test]
async fn the_rules_hold_behind_a_proxy() {
    let proxy = Server::new(vec![step(json("200 OK", ANSWER), After::Keep)]).await;
    let egress =
        Egress { proxy: Some(format!("http://127.0.0.1:{}", proxy.port)), ..Egress::default() };
    let client = Client::new(egress).unwrap();
    let prompt = prompt(value!({}));
    let outside = model(Provider::Openai, Some("http://llm.example.org/v1"));
    client.complete(attempt(&outside, &prompt)).await.unwrap();
    let seen = proxy.requests.lock().unwrap()[0].clone();
    assert!(seen.starts_with("POST http://llm.example.org/v1/chat/completions "), "{seen}");
    let inside = model(Provider::Openai, Some("http://10.0.0.1/v1"));
    let error = client.complete(attempt(&inside, &prompt)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
}

#[tokio::test]
async fn the_sandbox_needs_no_network() {
    let model = model(Provider::Internal, Some(SANDBOX_URL));
    let (client, prompt) = (client(), prompt(value!({})));
    client.probe(&model).await.unwrap();
    let reply = client.complete(attempt(&model, &prompt)).await.unwrap();
    assert_eq!(reply.text, "Sandbox answer: Hello there.");
    let (read, error) = events(client.stream(attempt(&model, &prompt)).await.unwrap()).await;
    assert!(error.is_none());
    assert!(read.contains(&StreamEvent::Usage(reply.usage.unwrap())));
    let texts = ["A red boat.".to_owned()];
    let ask = EmbeddingRequest { model: &model, inputs: &texts, dimensions: Some(16), trace: None };
    let embedded = client.embed(ask, soon()).await.unwrap();
    assert_eq!((embedded.vectors[0].len(), embedded.tokens), (16, Some(4)));
    let ask = ImageRequest {
        model: &model,
        prompt: "A red boat",
        size: "auto",
        count: 1,
        quality: None,
        trace: None,
    };
    let error = client.generate_images(ask, soon()).await.unwrap_err();
    assert_eq!(error.to_string(), "Model gpt-test does not support images: the sandbox makes none");
}

fn soon() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

/// The first of several requests of a task is answered.
#[tokio::test]
async fn what_was_done_before_a_failure_is_not_lost() {
    let numbers = vec![value!({"values": [1]}); 100];
    let answer = value!({"embeddings": numbers, "usageMetadata": {"promptTokenCount": 7}});
    let server = Server::new(vec![
        step(json("200 OK", &answer.to_string()), After::Keep),
        step(json("503 Service Unavailable", "{}"), After::Keep),
    ])
    .await;
    let model = Model { is_public: false, ..model(Provider::Gemini, Some(&server.url())) };
    let texts: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    let ask = EmbeddingRequest { model: &model, inputs: &texts, dimensions: None, trace: None };
    let error = client().embed(ask, soon()).await.unwrap_err();
    assert!(error.is_endpoint_fault() && !error.retryable_here(), "it would be paid for again");
    assert_eq!(error.usage(), Some(Usage::of_prompt(7)));

    let part = value!({"inlineData": {"mimeType": "image/png", "data": "iVBO"}});
    let answer = value!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 1290}});
    let server = Server::new(vec![
        step(json("200 OK", &answer.to_string()), After::Keep),
        step(json("503 Service Unavailable", "{}"), After::Keep),
    ])
    .await;
    let model = Model { base_url: Some(server.url()), ..model };
    let ask = ImageRequest {
        model: &model,
        prompt: "A crab",
        size: "auto",
        count: 3,
        quality: None,
        trace: None,
    };
    let made = client().generate_images(ask, soon()).await.unwrap();
    assert_eq!(made.urls, ["data:image/png;base64,iVBO"]);
    assert_eq!(made.usage.map(|usage| usage.completion), Some(1290));
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[test]
fn what_cannot_work_fails_at_the_start() {
    let proxy = Egress { proxy: Some("not a url".to_owned()), ..Egress::default() };
    assert!(Client::new(proxy).is_err());
    let missing = Egress { ca_file: Some("/nonexistent.pem".into()), ..Egress::default() };
    assert!(Client::new(missing).is_err());
}

#[test]
fn calls_may_move_between_threads() {
    fn movable<T: Send>(_: &T) {}
    let (client, model, prompt) = (client(), model(Provider::Openai, None), prompt(value!({})));
    movable(&client);
    movable(&client.complete(attempt_later(&model, &prompt)));
    movable(&client.stream(attempt_later(&model, &prompt)));
    movable(&Mutex::new(None::<EventStream>));
}

fn attempt_later<'a>(model: &'a Model, prompt: &'a Prompt) -> Attempt<'a> {
    attempt(model, prompt)
}

//! Tests with real TLS and a real proxy.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use domain::model::{Model, Provider};
use http::{Request, Response, Version};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::json as value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::client::Client;
use crate::error::ErrorKind;
use crate::testing::{After, CANARY, Server, Step, attempt, json, model, prompt};

const ANSWER: &str = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;

/// A provider under TLS, with a certificate of its own authority. It answers with long heads.
struct Secure {
    port: u16,
    ca_file: tempfile::NamedTempFile,
    /// The version and the headers of each request.
    seen: Arc<Mutex<Vec<(Version, HeaderMap)>>>,
    _tasks: JoinSet<()>,
}

impl Secure {
    async fn new(protocols: &[&str]) -> Self {
        let names = vec!["localhost".to_owned(), "llm.example.org".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        let ca_file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&ca_file, own.cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| (*name).into()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
                open.spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let answer = hyper::service::service_fn(|request: Request<Incoming>| {
                        log.lock().unwrap().push((request.version(), request.headers().clone()));
                        let answer = Response::builder().header("x-pad", "a".repeat(20 * 1024));
                        async { answer.body(Full::<Bytes>::from(ANSWER)) }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { port, ca_file, seen, _tasks: tasks }
    }

    fn egress(&self) -> Egress {
        Egress { ca_file: Some(self.ca_file.path().to_owned()), ..Egress::default() }
    }

    fn seen(&self) -> Vec<(Version, HeaderMap)> {
        self.seen.lock().unwrap().clone()
    }
}

/// A proxy that leads every tunnel to one address, and the targets it was asked for.
async fn tunnels_to(target: u16) -> (u16, Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            open.spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await.unwrap());
                }
                log.lock().unwrap().push(String::from_utf8(head).unwrap());
                socket.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
                let mut inside = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                let _ = copy_bidirectional(&mut socket, &mut inside).await;
            });
        }
    });
    (port, asked, tasks)
}

async fn call(egress: Egress, model: &Model) -> Result<String, Error> {
    let client = Client::new(egress)?;
    let prompt = prompt(value!({}));
    client.complete(attempt(model, &prompt)).await.map(|reply| reply.text)
}

fn private(url: &str) -> Model {
    model(Provider::Internal, Some(url))
}

#[tokio::test]
async fn the_protocol_is_what_both_sides_know() {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"][..], Version::HTTP_11),
        (&[][..], Version::HTTP_11),
    ] {
        let server = Secure::new(protocols).await;
        let model = private(&format!("https://localhost:{}/v1", server.port));
        assert_eq!(call(server.egress(), &model).await.unwrap(), "Hi");
        let (seen, headers) = server.seen().remove(0);
        assert_eq!(seen, version);
        assert_eq!(headers["user-agent"], concat!("sluice/", env!("CARGO_PKG_VERSION")));
        assert_eq!(headers["authorization"], format!("Bearer {CANARY}"));
        assert!(!headers.contains_key("proxy-authorization"));
    }
}

#[tokio::test]
async fn who_is_not_vouched_for_is_not_called() {
    let server = Secure::new(&["h2"]).await;
    let by_name = private(&format!("https://localhost:{}/v1", server.port));
    // The certificate is trusted, only its names do not match.
    let by_address = private(&format!("https://127.0.0.1:{}/v1", server.port));
    for (egress, model) in [(Egress::default(), by_name), (server.egress(), by_address)] {
        let error = call(egress, &model).await.unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("The provider could not be reached: invalid peer"), "{said}");
        assert!(error.retryable_here() && error.is_endpoint_fault());
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn both_pools_trust_the_same_authorities_and_keep_their_rules() {
    let server = Secure::new(&["h2"]).await;
    let url = format!("https://localhost:{}/v1", server.port);
    let public = model(Provider::Openai, Some(&url));
    let error = call(server.egress(), &public).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    let egress = Egress { allow: vec!["localhost".to_owned()], ..server.egress() };
    assert_eq!(call(egress, &public).await.unwrap(), "Hi");
}

#[tokio::test]
async fn a_handshake_without_end_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = private(&format!("https://{}/v1", listener.local_addr().unwrap()));
    let mut begun = Instant::now();
    let (answer, _open) = tokio::join!(call(Egress::default(), &model), async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _hello = socket.read_u8().await.unwrap();
        tokio::time::pause();
        begun = Instant::now();
        socket
    });
    let error = answer.unwrap_err();
    assert_eq!(error.to_string(), "The connection to the provider timed out");
    assert!(error.retryable_here() && error.is_endpoint_fault());
    let waited = begun.elapsed().as_millis();
    assert!((4_000..6_000).contains(&waited), "{waited} ms");
}

#[tokio::test]
async fn a_tunnel_leads_through_the_proxy() {
    let server = Secure::new(&["h2", "http/1.1"]).await;
    let (port, asked, _tasks) = tunnels_to(server.port).await;
    // The proxy is at a private address, by a name, which only a proxy may be.
    let proxy = Some(format!("http://me:p%40ss@localhost:{port}"));
    let model = model(Provider::Openai, Some("https://llm.example.org/v1"));
    let answer = call(Egress { proxy, ..server.egress() }, &model).await;
    assert_eq!(answer.unwrap(), "Hi");
    let asked = asked.lock().unwrap().remove(0).to_ascii_lowercase();
    assert!(asked.starts_with("connect llm.example.org:443 http/1.1\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: basic bwu6cebzcw==\r\n"), "{asked}");
    assert!(asked.contains("user-agent: sluice/"), "{asked}");
    assert!(!asked.contains(CANARY));
    let (version, headers) = server.seen().remove(0);
    assert_eq!(version, Version::HTTP_2);
    assert!(!headers.contains_key("proxy-authorization"));
}

#[tokio::test]
async fn a_proxy_that_forwards_sees_who_we_are() {
    let step = Step { bytes: json("200 OK", ANSWER), after: After::Keep };
    let proxy = Server::new(vec![step]).await;
    let egress = |user: &str| Egress {
        proxy: Some(format!("{user}127.0.0.1:{}", proxy.port)),
        ..Egress::default()
    };
    let model = private("http://llm.example.org/v1");
    assert_eq!(call(egress("http://me:pw@"), &model).await.unwrap(), "Hi");
    let seen = proxy.requests.lock().unwrap()[0].clone();
    assert!(seen.starts_with("POST http://llm.example.org/v1/chat/completions HTTP/1.1\r\n"));
    assert!(seen.contains("\r\nhost: llm.example.org\r\n"), "{seen}");
    assert!(seen.contains("proxy-authorization: Basic bWU6cHc=\r\n"), "{seen}");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_no_answer_of_the_provider() {
    for (said, cause) in [
        ("HTTP/1.1 407 No\r\n\r\n", "proxy authorization required"),
        ("HTTP/1.1 403 No\r\n\r\n", "unsuccessful"),
    ] {
        let step = Step { bytes: said.into(), after: After::Close };
        let proxy = Server::new(vec![step]).await;
        let egress = Egress {
            proxy: Some(format!("http://me:{CANARY}@127.0.0.1:{}", proxy.port)),
            ..Egress::default()
        };
        let error = call(egress, &private("https://llm.example.org/v1")).await.unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("The provider could not be reached: ") && said.ends_with(cause));
        assert!(!format!("{error:?}").contains(CANARY));
        assert!(error.retryable_here());
    }
}

#[tokio::test]
async fn exceptions_are_called_straight() {
    let step = || Step { bytes: json("200 OK", ANSWER), after: After::Keep };
    let server = Server::new(vec![step()]).await;
    let proxy = Server::new(vec![step()]).await;
    let egress = Egress {
        proxy: Some(format!("http://me:pw@127.0.0.1:{}", proxy.port)),
        no_proxy: Some("example.com, 127.0.0.0/8".to_owned()),
        ..Egress::default()
    };
    assert_eq!(call(egress.clone(), &private(&server.url())).await.unwrap(), "Hi");
    assert!(!server.requests.lock().unwrap()[0].contains("proxy-authorization"));
    assert_eq!(*proxy.connections.lock().unwrap(), 0);

    let inside = Egress { proxy: None, no_proxy: None, ..egress.clone() };
    for egress in [egress, inside] {
        let model = model(Provider::Openai, Some(&server.url()));
        let error = call(egress, &model).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }
}

#[tokio::test]
async fn a_name_that_nobody_has_is_named_as_the_cause() {
    // The name is longer than a label may be: no server is asked.
    let model = private(&format!("http://{}.example/v1", "x".repeat(64)));
    let error = call(Egress::default(), &model).await.unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("The provider's host name could not be resolved: "), "{said}");
    assert!(error.retryable_here() && error.is_endpoint_fault());
}

#[test]
fn proxies_are_read_as_people_write_them() {
    for (text, uri) in [
        ("http://proxy.internal:3128", "http://proxy.internal:3128/"),
        ("proxy.internal:3128", "http://proxy.internal:3128/"),
        ("https://me:pw@proxy.internal/", "https://proxy.internal/"),
        ("http://[::1]:8080", "http://[::1]:8080/"),
    ] {
        let egress = Egress { proxy: Some(text.to_owned()), ..Egress::default() };
        let proxy =
            Proxy::new(&egress, crate::net::tls::config(&egress).unwrap()).unwrap().unwrap();
        assert_eq!(proxy.uri, uri);
    }
    for text in ["", "not a url", "socks5://proxy:1080", "http://"] {
        let egress = Egress { proxy: Some(text.to_owned()), ..Egress::default() };
        let tls = crate::net::tls::config(&egress).unwrap();
        assert!(Proxy::new(&egress, tls).is_err(), "{text}");
    }
}

#[test]
fn a_file_without_authorities_is_refused() {
    for text in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        let ca_file = Some(PathBuf::from(file.path()));
        let egress = Egress { ca_file, ..Egress::default() };
        let known = egress.check().unwrap_err();
        assert!(known.to_string().starts_with("The CA file "), "{known}");
        let error = Client::new(egress).err().unwrap();
        assert_eq!(error.to_string(), known.to_string());
    }
}

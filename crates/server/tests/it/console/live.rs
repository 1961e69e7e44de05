//! Pages that are kept up to date while they are open.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{owner, send_form, signed_in};
use crate::harness::{Backend, Caller, Server, Setup, free_port, until};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(
    a_trace_appears_and_changes_in_an_open_list,
    an_open_overview_keeps_up,
    days_that_contain_today_are_followed_too,
    days_that_are_over_are_followed_no_more,
    a_job_is_followed_to_its_end,
    an_open_list_of_jobs_leads_to_all_of_them,
    a_stream_shows_what_its_page_would,
    a_stream_too_many_is_refused,
    a_gateway_with_open_streams_stops_at_once,
    traces_of_another_node_appear
);

/// The longest time after which a change is shown, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// A stream as a page reads it.
struct Stream {
    response: reqwest::Response,
    read: String,
}

impl Stream {
    async fn open(caller: &Caller, path: &str) -> Self {
        let response = caller.request("GET", path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { response, read: String::new() }
    }

    /// Reads on until an event has this text, and gives that event.
    async fn until(&mut self, text: &str) -> String {
        let reading = async {
            loop {
                while let Some((event, rest)) = self.read.split_once("\n\n") {
                    let (event, rest) = (event.to_owned(), rest.to_owned());
                    self.read = rest;
                    if event.contains(text) {
                        return event;
                    }
                }
                let bytes = self.response.chunk().await.unwrap().expect("the stream goes on");
                self.read.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        };
        let event = tokio::time::timeout(PATIENCE, reading).await;
        event.unwrap_or_else(|_| panic!("no event has {text}"))
    }

    /// This event has a text, or a later one does: tables may come after figures.
    async fn has(&mut self, event: String, text: &str) {
        if !event.contains(text) {
            self.until(text).await;
        }
    }

    async fn ended(mut self) {
        let end = async { while self.response.chunk().await.unwrap().is_some() {} };
        tokio::time::timeout(PATIENCE, end).await.expect("the stream ends");
    }
}

async fn a_trace_appears_and_changes_in_an_open_list(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let earlier = server.key().trace().await;
    let mut stream = Stream::open(&owner, "/live/traces?project=1").await;
    // The list is as it was when the stream began, for a page that was hidden for a while.
    stream.until(&earlier).await;
    let markup = json!({"metadata": {"name": "<b>bold</b>"}});
    let trace = server.key().post("/api/v1/traces", &markup).await.ok(201);
    let trace = trace["id"].as_str().unwrap();
    let event = stream.until(trace).await;
    assert!(event.starts_with("event: rows\ndata: "), "{event}");
    assert!(event.contains(&format!("<tr id=\"trace-{trace}\">")), "{event}");
    assert!(event.contains(&format!("href=\"/traces/{trace}?project=1\"")), "{event}");
    assert!(event.contains("&#60;b&#62;") && !event.contains("<b>"), "{event}");
    assert!(!event.contains(&earlier), "it has not changed");
    server.key().patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    let event = stream.until(trace).await;
    assert!(event.contains("status completed"), "{event}");
    // The rows are those of the page.
    let page = owner.get("/traces").await.text;
    for line in event.lines().filter_map(|line| line.strip_prefix("data: ")) {
        assert!(page.contains(line), "{line}");
    }
    // A page that has them all is sent later changes alone.
    let mut stream = Stream::open(&owner, &live(&page)).await;
    let later = server.key().trace().await;
    let event = stream.until("event: rows").await;
    assert!(event.contains(&later) && !event.contains(trace), "{event}");
    for path in ["/traces?status=completed", "/traces?order=oldest", "/traces?per_page=5"] {
        assert!(!owner.get(path).await.text.contains("data-live"), "{path}");
    }
}

/// The address of the changes of a page.
fn live(page: &str) -> String {
    let (_, rest) = page.split_once("data-live=\"").expect("the page is kept up to date");
    rest.split_once('"').unwrap().0.replace("&#38;", "&")
}

async fn an_open_overview_keeps_up(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let page = owner.get("/?window=168").await.text;
    assert_eq!(live(&page), "/live/overview?window=168&project=1");
    let mut stream = Stream::open(&owner, &live(&page)).await;
    let event = stream.until("Requests").await;
    assert!(event.contains("<span class=\"value\">0</span>"), "{event}");
    assert!(event.contains("Make the first call") && !event.contains("<figure"), "{event}");
    let trace = server.key().trace().await;
    server.key().execute(&trace, "Say hello.").await.ok(200);
    let event = stream.until("<span class=\"change\">new</span>").await;
    assert!(event.starts_with("event: pieces\ndata: "), "{event}");
    assert!(event.contains("<span class=\"value\">1</span>"), "{event}");
    // The first steps go, and charts and tables come.
    assert!(event.contains("<div id=\"first-steps\"></div>"), "{event}");
    assert!(event.contains("<figure id=\"chart-0\""), "{event}");
    stream.has(event, "/traces?model=sandbox").await;
    // Later calls change bars and rows, of the charts and of the tables.
    server.key().execute(&trace, "Say hello again.").await.ok(200);
    let event = stream.until("<span class=\"value\">2</span>").await;
    assert!(event.contains("id=\"bucket-") && event.contains("id=\"bar-1-"), "{event}");
    stream.has(event, "<section id=\"group-0\"").await;
    let page = owner.get("/?window=168").await.text;
    assert!(page.contains("<td class=\"number\">2</td>"), "{page}");
}

async fn days_that_contain_today_are_followed_too(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let page = owner.get("/?start_date=2026-01-01&end_date=2099-12-31&tag=team").await.text;
    let mut stream = Stream::open(&owner, &live(&page)).await;
    stream.until("No calls from 2026-01-01 to 2099-12-31").await;
    let tagged = server.key().with("x-sluice-tags", "team=search");
    let trace = tagged.trace().await;
    tagged.execute(&trace, "Say hello.").await.ok(200);
    let event = stream.until("<span class=\"value\">1</span>").await;
    // The usage by the tag of the page is among the tables.
    stream.has(event, ">search</a></th>").await;
}

async fn days_that_are_over_are_followed_no_more(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    // As a page that was opened on the last of these days, and is still open.
    let days = "/live/overview?start_date=2026-01-01&end_date=2026-01-02&project=1";
    let mut stream = Stream::open(&owner, days).await;
    let event = stream.until("event: end\n").await;
    assert!(event.contains("No calls from 2026-01-01 to 2026-01-02"), "{event}");
    assert!(event.contains("id=\"group-0\""), "{event}");
    stream.ended().await;
}

async fn a_job_is_followed_to_its_end(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    // A provider that takes requests and answers none, until it is gone.
    let provider = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", provider.local_addr().unwrap());
    let model = json!({"model_definition": {"name": "slow", "identifier": "slow",
        "provider": "openai", "base_url": url, "is_public": false}});
    server.owner().await.post("/api/v1/projects/1/models", &model).await.ok(201);
    let page = owner.with("origin", &owner.base);
    let key = json!({"name": "mine", "project_id": 1});
    let key = page.post("/api/v1/keys", &key).await.ok(201)["id"].clone();
    let trace = server.key().trace().await;
    let body = json!({"trace_id": trace, "model": "sandbox", "input": "A question."});
    server.key().post("/api/v1/runs", &body).await.ok(200);
    server.key().patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    let fields = [("project", "1"), ("key", key.as_str().unwrap()), ("model", "slow")];
    let asked = send_form(&owner, &format!("/traces/{trace}/replay"), &fields).await;
    let page = owner.get(asked.header("location")).await;
    let path = live(&page.text);
    let id = path.strip_prefix("/live/jobs/").and_then(|path| path.strip_suffix("?project=1"));
    let id = id.unwrap_or_else(|| panic!("{path}"));
    let mut stream = Stream::open(&owner, &path).await;
    let event = stream.until("status running").await;
    assert!(event.starts_with("event: part\ndata: "), "{event}");
    assert!(!event.contains("<main") && !event.contains("In total"), "{event}");
    drop(provider);
    let event = stream.until("event: end").await;
    assert!(event.contains("In total") && !event.contains("status running"), "{event}");
    stream.ended().await;
    // A page of a job that is over follows nothing; a stream of it shows its end alone.
    let page = owner.get(asked.header("location")).await.text;
    assert!(!page.contains("data-live") && !page.contains("data-pauses"), "{page}");
    let mut stream = Stream::open(&owner, &path).await;
    stream.until("event: end").await;
    stream.ended().await;
    let unknown = [format!("/live/jobs/{id}x"), format!("/live/jobs/{id}?project=2")];
    for path in unknown.iter().map(String::as_str).chain(["/live/jobs/none"]) {
        assert_eq!(owner.get(path).await.status, 404, "{path}");
    }
}

async fn an_open_list_of_jobs_leads_to_all_of_them(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        return;
    }
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let add = |first: u32, last: u32| {
        server.sql(&format!(
            "INSERT INTO jobs (id, kind, project_id, request, payload, state, done, total, runs, created_at)
             SELECT '00000000-0000-0000-0000-' || lpad(n::text, 12, '0'), 'export', 1, 'request ' || n,
                    '{{}}', 'failed', 0, 1, 1, n
             FROM generate_series({first}, {last}) n"
        ));
    };
    let row = |number: u32| format!("id=\"job-00000000-0000-0000-0000-{number:012}\"");
    add(1, 50);
    let page = owner.get("/jobs").await.text;
    assert!(page.contains(&row(1)) && !page.contains("rel=\"next\""), "{page}");
    let mut stream = Stream::open(&owner, &live(&page)).await;
    add(51, 53);
    let event = stream.until(&row(53)).await;
    assert!(event.contains(&row(4)) && !event.contains(&row(3)), "{event}");
    let (before, _) = event.split_once("\" rel=\"next\"").expect("there is another page");
    let (_, next) = before.rsplit_once("href=\"").unwrap();
    let second = owner.get(&next.replace("&#38;", "&")).await.text;
    for number in 1..=3 {
        assert!(second.contains(&row(number)), "{number}: {second}");
    }
    assert!(!second.contains(&row(4)), "{second}");
}

async fn a_stream_shows_what_its_page_would(backend: Backend) {
    let server = Server::start(&backend).await;
    let admin = server.owner().await;
    let other = json!({"project": {"name": "Other"}});
    let other = admin.post("/api/v1/projects", &other).await.ok(201)["id"].clone();
    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    Stream::open(&viewer, "/live/traces?project=1").await;
    for path in ["/live/traces", "/live/overview"] {
        for (query, status) in [(format!("project={other}"), 404), ("project=x".to_owned(), 404)] {
            let refused = viewer.get(&format!("{path}?{query}")).await;
            assert_eq!(refused.status, status, "{path}?{query}: {}", refused.text);
        }
        let stranger = super::browser(&server).get(path).await;
        assert_eq!(stranger.status, 303, "{path}: {}", stranger.text);
        assert!(stranger.header("location").starts_with("/sign-in"));
    }
    assert_eq!(viewer.get("/live/overview?window=x").await.status, 400);
}

async fn a_stream_too_many_is_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let mut streams = Vec::new();
    for at in 0..8 {
        let path = format!("/live/overview?window={}", at % 2 + 1);
        streams.push(Stream::open(&owner, &path).await);
    }
    let refused = owner.get("/live/traces").await;
    super::shows(&refused, 429, "Too many pages are kept up to date");
    // Others have places of their own.
    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    Stream::open(&viewer, "/live/traces").await;
    // A page that is closed leaves its place.
    streams.pop();
    until("a place is free", async || {
        let response = owner.request("GET", "/live/traces").send().await.unwrap();
        (response.status() == 200).then_some(())
    })
    .await;
}

async fn a_gateway_with_open_streams_stops_at_once(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let mut traces = Stream::open(&owner, "/live/traces").await;
    let trace = server.key().trace().await;
    traces.until(&trace).await;
    let mut figures = Stream::open(&owner, "/live/overview").await;
    figures.until("Requests").await;
    let began = Instant::now();
    server.terminate();
    traces.ended().await;
    figures.ended().await;
    assert!(server.ended().await.success(), "{}", server.log());
    // Requests in flight could take half a minute.
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
    assert!(!server.log().contains("still running"), "{}", server.log());
}

/// A second gateway over the database of a first. It dies with this value.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn traces_of_another_node_appear(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        return;
    }
    let setup = Setup::new(&backend).env("SLUICE_ALLOW_INEXACT_LIMITS", "true");
    let server = setup.start().await;
    let address = format!("127.0.0.1:{}", free_port());
    let mut other = server.command(&[]);
    other.env("SLUICE_LISTEN", &address).stdout(Stdio::null()).stderr(Stdio::null());
    let _other = Node(other.spawn().unwrap());
    let mut there = owner(&server).await;
    there.base = format!("http://{address}");
    until("the other node serves", async || {
        Caller::try_send(there.request("GET", "/up")).await.ok()
    })
    .await;
    let mut stream = Stream::open(&there, "/live/traces").await;
    let trace = server.key().trace().await;
    stream.until(&trace).await;
}

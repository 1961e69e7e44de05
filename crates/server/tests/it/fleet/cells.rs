//! The router of docs/scale.md leads a request to the cell of the key that a gateway takes.

use crate::harness::{Caller, HaProxy, free_port};

const DOCUMENT: &str = include_str!("../../../../../docs/scale.md");
/// The parts that the document leaves out, with cells that name themselves.
const AROUND: &str = "
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
backend cell_a
  http-request return status 200 content-type text/plain string cell_a
backend cell_b
  http-request return status 200 content-type text/plain string cell_b
";

/// The block of the document that begins with a line.
fn block(line: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once("## Past one database").expect("the part about cells");
    let begin = rest.find(&format!("```text\n{line}\n")).expect("a block that begins so");
    let text = &rest[begin + "```text\n".len()..];
    &text[..text.find("```").expect("its end")]
}

/// The headers of a request, the key in its address, and the cell that it is for.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_goes_to_the_cell_of_the_key_that_counts() {
    if !HaProxy::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (port, map) = (free_port(), folder.path().join("cells.map"));
    let cells = block("# /etc/haproxy/cells.map");
    std::fs::write(&map, cells).unwrap();
    let mut configuration = block("frontend gateway").to_owned();
    for (documented, ours) in [
        (":443 ssl crt /etc/haproxy/gateway.pem", format!("127.0.0.1:{port}")),
        ("/etc/haproxy/cells.map", map.display().to_string()),
    ] {
        assert!(configuration.contains(documented), "docs/scale.md has no {documented}");
        configuration = configuration.replace(documented, &ours);
    }
    let _router = HaProxy::start(&format!("{AROUND}{configuration}"), &[port]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let any = Caller::new(client, format!("http://127.0.0.1:{port}"));
    let of = |cell: &str| {
        let line = cells.lines().find(|line| line.ends_with(cell)).expect("a key of the cell");
        format!("{}.secret", line.split(' ').next().unwrap())
    };
    let (a, b) = (of(" cell_a"), of(" cell_b"));
    let (bearer_a, bearer_b) = (format!("Bearer {a}"), format!("bearer {b}"));
    // A gateway takes a bearer's key first, then those of the vendors' headers, then that of the address. It looks at
    // `x-api-key` only where there is no `authorization`.
    let cases: [Case<'_>; 13] = [
        (&[("authorization", &bearer_b)], "", "cell_b"),
        (&[("x-api-key", &b)], "", "cell_b"),
        (&[("x-goog-api-key", &b)], "", "cell_b"),
        (&[], &b, "cell_b"),
        (&[("authorization", &bearer_b), ("x-api-key", &a)], &a, "cell_b"),
        (&[("authorization", &bearer_a), ("x-api-key", &b)], &b, "cell_a"),
        (&[("x-api-key", &b), ("x-goog-api-key", &a)], &a, "cell_b"),
        (&[("x-goog-api-key", &b)], &a, "cell_b"),
        (&[("authorization", "Basic eA=="), ("x-goog-api-key", &b)], &a, "cell_b"),
        (
            &[("authorization", "Basic eA=="), ("x-api-key", &a), ("x-goog-api-key", &b)],
            "",
            "cell_b",
        ),
        (&[("authorization", "Basic eA=="), ("x-api-key", &a)], &b, "cell_b"),
        // It refuses these: they have no key, or one that nobody knows.
        (&[], "", "cell_a"),
        (&[("x-api-key", "ak_0000000000000001.secret")], "", "cell_a"),
    ];
    for (headers, query, cell) in cases {
        let caller = headers.iter().fold(any.clone(), |all, (name, value)| all.with(name, value));
        let path = "/gemini/v1beta/models";
        let path = if query.is_empty() { path.to_owned() } else { format!("{path}?key={query}") };
        let reply = caller.get(&path).await;
        assert_eq!((reply.status, reply.text.as_str()), (200, cell), "{headers:?} {path}");
    }
}

//! The filters of `GET /traces`.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, encode, settings};

crate::on_every_backend!(
    each_filter_finds_its_traces,
    pages_keep_their_filters,
    what_is_no_filter_is_refused,
    a_hash_is_found_by_its_value,
);

/// The ids of the traces that a query finds.
async fn found(key: &Caller, query: &str) -> Vec<String> {
    let list = key.get(&format!("/api/v1/traces?{query}")).await.ok(200);
    list.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

async fn open(key: &Caller, metadata: Value) -> String {
    let opened = key.post("/api/v1/traces", &json!({"metadata": metadata})).await.ok(201);
    opened["id"].as_str().unwrap().to_owned()
}

async fn run(key: &Caller, trace: &str, model: &str, input: &str) -> u16 {
    let body = json!({"trace_id": trace, "model": model, "input": input});
    key.post("/api/v1/runs", &body).await.status
}

async fn complete(key: &Caller, trace: &str) -> Value {
    key.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200)
}

async fn each_filter_finds_its_traces(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let dear = json!({"is_public": false, "input_cost_per_1k": 15.0, "output_cost_per_1k": 60.0});
    Mock::always(Answer::text("Yes.")).await.register_with(&owner, "dear", dear).await;
    Mock::always(Answer::json(400, &json!({}))).await.register(&owner, "failing").await;
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await.ok(201);
    let other = server.with_key(made["raw_key"].as_str().unwrap());

    let first =
        open(&key, json!({"user": "jane", "ticket": 4711, "live": true, "name": "a=b&c"})).await;
    assert_eq!(run(&key, &first, "sandbox", "Hello.").await, 200);
    let second = open(&key, json!({"tags": {"team": "red"}})).await;
    assert_eq!(run(&key, &second, "dear", "Hello.").await, 200);
    let joe = key.with("x-sluice-user", "joe").with("x-sluice-tags", "team=blue");
    assert_eq!(run(&joe, &second, "sandbox", "Write to jane@acme.org.").await, 200);
    let graded = complete(&key, &second).await;
    let third = open(&other, json!({"session": "s-1"})).await;
    assert_eq!(run(&other, &third, "failing", "Hello.").await, 502);
    let empty = key.trace().await;

    let (at, grade) = (graded["created_at"].as_str().unwrap(), &graded["optimization_grade"]);
    let all = [&first, &second, &third, &empty];
    for (query, expected) in [
        (String::new(), &all[..]),
        ("order=oldest".to_owned(), &all[..]),
        ("status=completed".to_owned(), &[&second]),
        (format!("grade={}", grade.as_str().unwrap()), &[&second]),
        ("model=dear".to_owned(), &[&second]),
        ("model=sandbox".to_owned(), &[&first, &second]),
        (format!("key={}", made["id"].as_str().unwrap()), &[&third]),
        ("user=jane".to_owned(), &[&first]),
        ("user=joe".to_owned(), &[&second]),
        ("session=s-1".to_owned(), &[&third]),
        ("tag[team]=red".to_owned(), &[&second]),
        (format!("{}=blue", encode("tag[team]")), &[&second]),
        ("tag[team]=green".to_owned(), &[]),
        ("metadata[ticket]=4711&metadata[live]=true".to_owned(), &[&first]),
        (format!("metadata[name]={}", encode("a=b&c")), &[&first]),
        ("metadata[ticket]=4711&user=joe".to_owned(), &[]),
        ("min_cost=0.1".to_owned(), &[&second]),
        ("min_cost=0".to_owned(), &all[..]),
        ("min_latency_ms=3600000".to_owned(), &[]),
        ("finding=pii".to_owned(), &[&second]),
        ("finding=secret".to_owned(), &[]),
        ("has_error=true".to_owned(), &[&third]),
        ("has_error=false&model=sandbox".to_owned(), &[&first, &second]),
        (format!("from={at}"), &[&second, &third, &empty]),
        (format!("to={at}"), &[&first]),
        (format!("from={0}&to={0}", &at[..10]), &all[..]),
        ("to=2020-01-01".to_owned(), &[]),
        ("of_tomorrow=1".to_owned(), &all[..]),
    ] {
        let mut expected: Vec<String> = expected.iter().map(|&id| id.clone()).collect();
        if !query.contains("oldest") {
            expected.reverse();
        }
        // Traces of one test may be of two days.
        if !(query.contains("to=20") && found(&key, "").await.len() != all.len()) {
            assert_eq!(found(&key, &query).await, expected, "{query}");
        }
    }
}

async fn pages_keep_their_filters(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let name = "ann & bob";
    let mut wanted = Vec::new();
    for number in 0..12 {
        let user = if number % 2 == 0 { name } else { "joe" };
        let trace = open(&key, json!({"user": user})).await;
        if number % 2 == 0 {
            wanted.push(trace);
        }
    }
    for order in ["newest", "oldest"] {
        let mut expected = wanted.clone();
        if order == "newest" {
            expected.reverse();
        }
        let user = encode(name);
        let first = format!("/api/v1/traces?user={user}&order={order}&per_page=4");
        let mut path = first.clone();
        let mut all = Vec::new();
        loop {
            let reply = key.get(&path).await;
            let list = reply.ok(200);
            assert_eq!(reply.header("x-total-count"), "6");
            all.extend(
                list.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()),
            );
            let link = reply.header("link").to_owned();
            let next = link.split(", ").find(|link| link.ends_with("rel=\"next\""));
            let Some(next) = next else { break };
            next[1..next.find('>').unwrap()].clone_into(&mut path);
        }
        assert_eq!(all, expected, "{order}");
        // From trace to trace.
        let beyond = if order == "newest" { "before" } else { "after" };
        let reply = key.get(&format!("{first}&{beyond}={}", expected[1])).await;
        let list = reply.ok(200);
        let ids: Vec<&str> =
            list.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected[2..6], "{order}");
        let link = reply.header("link");
        assert!(link.contains(&format!("{beyond}={}", expected[5])), "{link}");
        assert!(link.contains("user=ann+%26+bob"), "{link}");
    }
    // Links carry filters, and not what else a query has.
    let unknown = "per_page=4&utm=1&no[x]=1&has_error=false";
    let reply = key.get(&format!("/api/v1/traces?{unknown}")).await;
    reply.ok(200);
    let link = reply.header("link");
    assert!(link.contains("per_page=4&has_error=false>"), "{link}");
    assert!(!link.contains("utm") && !link.contains("no%5B"), "{link}");
}

async fn what_is_no_filter_is_refused(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let long = "x".repeat(129);
    let many = (0..9).map(|n| format!("tag[t{n}]=v")).collect::<Vec<_>>().join("&");
    for (query, status, part) in [
        ("grade=E", 422, "grade must be one of A, B, C, D, F, not 'E'"),
        ("order=dearest", 422, "order must be one of newest, oldest"),
        ("finding=pii,bug", 422, "finding must be one of pii, injection, secret, not 'bug'"),
        ("has_error=yes", 422, "has_error must be one of true, false"),
        ("status=open", 422, "status must be pending"),
        ("model=%00", 422, "model must have"),
        ("key=nobody", 422, "key: not a key id"),
        (&format!("user={long}"), 422, "user must have 1 to 128 characters"),
        ("session=", 422, "session must have 1 to 128 characters"),
        (&format!("tag[team]={long}"), 422, "tag[team] must have 1 to 128 characters"),
        ("tag[]=x", 422, "tag[] names no tag"),
        (&format!("metadata[a]={long}"), 422, "metadata[a] must have 1 to 128 characters"),
        (&many, 422, "tag is given more than 8 times"),
        ("min_cost=-1", 422, "min_cost must not be negative"),
        ("min_cost=much", 400, "min_cost must be a number"),
        ("min_cost=nan", 400, "min_cost must be a number"),
        ("min_cost=1e300", 422, "min_cost is out of range"),
        ("min_latency_ms=-5", 422, "min_latency_ms must not be negative"),
        ("from=yesterday", 400, "from must be an ISO 8601 date or time"),
        ("before=x", 400, "before must be a trace id"),
        ("after=01a21c03-dd1e-73ba-a598-af1657c1417e", 400, "after for order=oldest"),
        ("page=0", 400, "page must be a whole number of at least 1"),
        ("per_page=x", 400, "per_page must be a whole number of at least 1"),
    ] {
        key.get(&format!("/api/v1/traces?{query}")).await.says(status, part);
    }
    key.get("/api/v1/traces?min_latency_ms=1e300&per_page=1000").await.ok(200);
}

async fn a_hash_is_found_by_its_value(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    settings(&owner, 1, json!({"attributes": {"hash": ["user"]}})).await;
    let trace = open(&key, json!({"user": "jane"})).await;
    assert_eq!(found(&key, "user=jane").await, [&*trace]);
    let detail = key.detail(&trace).await;
    let hash = detail["metadata"]["user"].as_str().unwrap();
    assert_ne!(hash, "jane");
    assert_eq!(found(&key, &format!("user={}", encode(hash))).await, [trace.as_str()]);
    assert_eq!(found(&key, "user=joe").await, [""; 0]);
    assert_eq!(found(&key, "metadata[user]=jane").await, [trace.as_str()]);
    assert_eq!(found(&key, &format!("metadata[user]={}", encode(hash))).await, [trace.as_str()]);
    assert_eq!(found(&key, "metadata[user]=joe").await, [""; 0]);
    // A number is a name too.
    let number = open(&key, json!({"user": 47_114_711, "session": 5})).await;
    let metadata = key.detail(&number).await["metadata"].clone();
    assert!(metadata["user"].as_str().is_some_and(|user| user.starts_with("h:")), "{metadata}");
    assert_eq!(metadata["session"], 5, "it is not to be hashed");
    for query in ["user=47114711", "metadata[user]=47114711"] {
        assert_eq!(found(&key, query).await, [number.as_str()], "{query}");
    }
}

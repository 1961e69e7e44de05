//! Traces and their steps: pages that are small whatever a trace holds, and lead to all of it.

use serde_json::json;

use super::{owner, signed_in};
use crate::harness::{Answer, Backend, Caller, Mock, Server, call};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(
    the_steps_of_a_trace_are_paged,
    all_of_a_text_is_on_the_pages_of_its_step,
    pages_of_a_trace_are_small_whatever_it_holds,
    the_steps_in_time_have_tokens_tiers_and_findings,
    an_empty_trace_and_one_without_a_key_say_what_to_do,
    a_step_of_a_project_out_of_sight_is_not_there,
    traces_that_stall_or_invent_tools_are_flagged
);

/// The most bytes of a page over the wire, without its headers.
const LARGEST: usize = 29 * 1024;

/// A text that hardly any compression makes smaller.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + u8::try_from(state % 95).unwrap())
    };
    (0..length).map(|_| next()).collect()
}

/// Records notes in a new trace.
async fn noted(server: &Server, notes: &[&str]) -> String {
    let trace = server.key().trace().await;
    for note in notes {
        let log = json!({"trace_id": trace, "output": {"text": note}});
        server.key().post("/api/v1/logs", &log).await.ok(200);
    }
    trace
}

fn numbers(page: &str) -> Vec<i64> {
    let ids = page.split("<li class=\"card step\" id=\"step-").skip(1);
    ids.map(|part| part.split('"').next().unwrap().parse().unwrap()).collect()
}

/// The address of a link by its words.
fn link<'p>(page: &'p str, words: &str) -> Option<&'p str> {
    let (before, _) = page.split_once(&format!(">{words}</a>"))?;
    let (_, address) = before.rsplit_once("href=\"")?;
    Some(address.split('"').next().unwrap())
}

async fn at(owner: &Caller, address: &str) -> String {
    let page = owner.get(&address.replace("&#38;", "&").replace("#steps", "")).await;
    assert_eq!(page.status, 200, "{address}: {}", page.text);
    page.text
}

async fn the_steps_of_a_trace_are_paged(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = owner(&server).await;
    let trace = noted(&server, &["note"; 23]).await;
    let first = at(&owner, &format!("/traces/{trace}?project=1")).await;
    assert!(first.contains("Steps 1 to 10 of 23") && link(&first, "Steps before").is_none());
    let second = at(&owner, link(&first, "Next steps").unwrap()).await;
    let third = at(&owner, link(&second, "Next steps").unwrap()).await;
    assert!(third.contains("Steps 21 to 23 of 23") && link(&third, "Next steps").is_none());
    let all: Vec<i64> = [&first, &second, &third].iter().flat_map(|page| numbers(page)).collect();
    assert_eq!(all.len(), 23);
    assert!(all.is_sorted(), "{all:?}");
    let back = at(&owner, link(&third, "Steps before").unwrap()).await;
    assert_eq!(numbers(&back), numbers(&second));
    // The steps in time begin with the first that is shown; those beyond the page have pages of their own.
    assert_eq!(second.matches("class=\"timeline\"").count(), 13);
    assert!(second.contains(&format!("<a href=\"#step-{}\">", all[10])));
    let beyond = format!("/traces/{trace}/steps/{}?project=1", all[20]);
    let step = at(&owner, &beyond).await;
    assert!(second.contains(&format!("<a href=\"{beyond}\">")) && numbers(&step) == [all[20]]);
    let next = at(&owner, link(&step, "Next step").unwrap()).await;
    assert_eq!(numbers(&next), [all[21]]);
    let reply = owner.get(&format!("/steps/{}?project=1", all[20])).await;
    assert_eq!((reply.status, reply.header("location")), (303, &*beyond));
    let other = noted(&server, &["note"]).await;
    for path in [
        format!("/traces/{trace}?step=999999"),
        format!("/traces/{other}/steps/{}", all[0]),
        format!("/traces/{trace}/steps/x"),
        format!("/traces/{trace}/steps/{}?text=x", all[0]),
    ] {
        assert_eq!(owner.get(&path).await.status, 404, "{path}");
    }
}

async fn all_of_a_text_is_on_the_pages_of_its_step(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let trace = server.key().trace().await;
    let words: Vec<String> = (0..9_000).map(|number| format!("wörd{number}")).collect();
    let prompt = format!("{} mail jane@example.com", words.join(" "));
    let earlier = (0..10).map(|turn| {
        let role = if turn % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": "x"})
    });
    let last = json!({"role": "user", "content": prompt});
    let messages: Vec<_> = earlier.chain([last]).collect();
    let call = json!({"model": "sandbox", "trace_id": trace, "messages": messages});
    server.key().post("/api/v1/chat/completions", &call).await.ok(200);
    let page = at(&owner, &format!("/traces/{trace}")).await;
    assert!(page.contains("6 texts</a>."), "{page}");
    assert!(page.contains("wörd5 ") && !page.contains("wörd8999"));
    let mut address = link(&page, "All of it").unwrap().to_owned();
    let mut all = String::new();
    let mut marked = 0;
    for number in 0.. {
        let part = at(&owner, &address).await;
        let (_, text) = part.split_once("<pre dir=\"auto\" tabindex=\"0\">").unwrap();
        all.push_str(text.split_once("</pre>").unwrap().0);
        marked += part.matches("<mark").count();
        assert_eq!(link(&part, "Part before").is_some(), number > 0);
        assert_eq!(part.contains("The beginning of"), number == 0);
        match link(&part, "Next part") {
            Some(next) => next.clone_into(&mut address),
            None => break,
        }
    }
    assert!(all.starts_with(&words.join(" ")), "the parts are all of the text");
    assert_eq!(marked, 1, "what was found is marked in the part that has it");
}

async fn pages_of_a_trace_are_small_whatever_it_holds(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = owner(&server).await;
    let own = owner.with("sec-fetch-site", "same-origin").with("accept-encoding", "gzip");
    let size = async |path: &str| {
        let reply = own.request("GET", path).send().await.unwrap();
        assert_eq!(reply.status(), 200, "{path}");
        assert_eq!(reply.headers()["content-encoding"], "gzip", "{path}");
        reply.bytes().await.unwrap().len()
    };
    let new = json!({"metadata": {"noise": noise(99, 60_000)}});
    let trace = server.key().post("/api/v1/traces", &new).await.ok(201);
    let trace = trace["id"].as_str().unwrap();
    for step in 0..12 {
        let length = if step == 0 { 30_000 } else { 6_000 };
        let text = |number: u64| {
            let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
            json!({"role": role, "content": noise(step * 9 + number + 1, length)})
        };
        let texts: Vec<_> = (0..5).map(text).collect();
        let call = json!({"model": "sandbox", "trace_id": trace, "messages": texts});
        server.key().post("/api/v1/chat/completions", &call).await.ok(200);
    }
    let path = format!("/traces/{trace}");
    let page = at(&owner, &path).await;
    assert_eq!(numbers(&page).len(), 10);
    let step = format!("{path}/steps/{}", numbers(&page)[0]);
    for path in [&path, &step, &format!("{step}?text=3"), &format!("{step}?text=3&begin=5120")] {
        let size = size(path).await;
        assert!(size < LARGEST, "{path}: {size}");
    }
}

async fn the_steps_in_time_have_tokens_tiers_and_findings(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let trace = server.key().trace().await;
    server.key().execute(&trace, "Mail jane@example.com about it.").await.ok(200);
    let page = at(&owner, &format!("/traces/{trace}")).await;
    let (_, table) = page.split_once("<table class=\"waterfall\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    for cell in ["<td>secure</td>", "<span class=\"finding\">personal data</span>"] {
        assert!(table.contains(cell), "no {cell} in {table}");
    }
    let steps = server.key().detail(&trace).await["steps"].clone();
    let run = steps.as_array().unwrap().iter().find(|step| step["type"] == "run").unwrap();
    let tokens = ["prompt_tokens", "completion_tokens"].map(|name| run[name].as_i64().unwrap());
    let cell = format!("<td class=\"number\">{}</td>", tokens[0] + tokens[1]);
    assert!(table.contains(&cell), "no {cell} in {table}");
}

async fn a_step_of_a_project_out_of_sight_is_not_there(backend: Backend) {
    let server = Server::start(&backend).await;
    let other = json!({"project": {"name": "Other"}});
    let other = server.owner().await.post("/api/v1/projects", &other).await.ok(201);
    roles::user(&server, "member", &[&other["id"].to_string()]).await;
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    let trace = noted(&server, &["a secret note"]).await;
    let page = owner(&server).await.get(&format!("/traces/{trace}?project=1")).await.text;
    let step = numbers(&page)[0];
    for path in [
        format!("/traces/{trace}/steps/{step}"),
        format!("/traces/{trace}/steps/{step}?text=0&begin=0"),
        format!("/traces/{trace}"),
        format!("/traces/{trace}?step={step}"),
        format!("/steps/{step}"),
    ] {
        let mark = if path.contains('?') { '&' } else { '?' };
        let seen = owner(&server).await.get(&format!("{path}{mark}project=1")).await.status;
        assert!(matches!(seen, 200 | 303), "{path}: {seen}");
        // Neither by its own project nor by one that the member sees, which is the first of theirs.
        for project in ["project=1".to_owned(), format!("project={}", other["id"]), String::new()] {
            let found = member.get(&format!("{path}{mark}{project}")).await;
            assert_eq!(found.status, 404, "{path} {project}: {}", found.text);
            assert!(!found.text.contains("secret note"), "{path} {project}");
        }
    }
}

async fn an_empty_trace_and_one_without_a_key_say_what_to_do(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let path = format!("/traces/{}", server.key().trace().await);
    let page = at(&owner, &path).await;
    let empty = "A call that names this trace as its <code>trace_id</code> becomes one.";
    assert!(page.contains(empty) && page.contains("Replay it on other models"), "{page}");
    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    let page = at(&viewer, &path).await;
    assert!(page.contains("Members, admins and owners of the project replay it"), "{page}");
    let api = server.owner().await;
    for key in api.get("/api/v1/keys").await.ok(200).as_array().unwrap() {
        api.delete(&format!("/api/v1/keys/{}", key["id"].as_str().unwrap())).await.ok(204);
    }
    let page = at(&owner, &path).await;
    let hint = "paid by a key of this project that you may use: <a href=\"/keys?project=1\">make a key</a>";
    assert!(page.contains(hint), "{page}");
}

async fn traces_that_stall_or_invent_tools_are_flagged(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (owner(&server).await, server.key());
    let message = json!({"role": "assistant", "content": null,
        "tool_calls": [call("call_a", "book_flight", "{}")]});
    let mock = Mock::always(Answer::completion(&message, "tool_calls")).await;
    mock.register(&server.owner().await, "inventor").await;
    let complete = async |trace: &str| {
        key.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    };
    let calm = key.trace().await;
    key.execute(&calm, "Good morning.").await.ok(200);
    complete(&calm).await;
    // The same call four times.
    let stalled = key.trace().await;
    let body = json!({"trace_id": stalled, "model": "sandbox", "input": "Well?"});
    for _ in 0..4 {
        key.post("/api/v1/runs", &body).await.ok(200);
    }
    complete(&stalled).await;
    // A call of a tool that nobody has declared.
    let inventive = key.trace().await;
    let weather = json!({"type": "function", "function": {"name": "weather", "parameters": {}}});
    let ask = json!({"trace_id": inventive, "model": "inventor", "tools": [weather],
        "messages": [{"role": "user", "content": "Is it cold in Oslo?"}]});
    key.post("/api/v1/chat/completions", &ask).await.ok(200);
    complete(&inventive).await;
    let list = at(&owner, "/traces").await;
    let flags = ["likely stalled", "invented tool calls"];
    for (trace, expected) in
        [(&calm, [false, false]), (&stalled, [true, false]), (&inventive, [false, true])]
    {
        let page = at(&owner, &format!("/traces/{trace}")).await;
        let (_, row) = list.split_once(&format!("<tr id=\"trace-{trace}\">")).unwrap();
        for part in [&*page, row.split_once("</tr>").unwrap().0] {
            let shown =
                flags.map(|flag| part.contains(&format!("<span class=\"finding\">{flag}</span>")));
            assert_eq!(shown, expected, "{part}");
        }
    }
    if server.on_sqlite() {
        // It has no client that can let steps go.
        return;
    }
    server.sql(&format!("DELETE FROM steps WHERE trace_id = '{stalled}'"));
    let page = at(&owner, &format!("/traces/{stalled}")).await;
    assert!(page.contains("<span class=\"finding\">likely stalled</span>"), "{page}");
}

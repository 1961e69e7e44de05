//! Figures that pages show of calls, keys and models.

use serde_json::json;

use super::{owner, send_form, shows, signed_in};
use crate::harness::{Answer, Backend, Mock, Server, settings, until};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(
    reserved_amounts_are_shown_while_a_call_runs,
    a_key_that_is_paused_is_reset,
    own_spend_is_that_of_own_keys,
    prices_have_a_source_and_circuits_a_state,
    the_name_of_a_model_is_no_markup,
    false_positives_become_advice,
    a_trace_shows_its_grade_with_reasons_and_what_steps_cost,
    a_route_has_its_reasons
);

/// The cost of a call of `priced`: 10 prompt and 5 completion tokens.
const COST: &str = "$0.004500";

async fn reserved_amounts_are_shown_while_a_call_runs(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let mock = Mock::always(Answer::text("Hello.")).await;
    mock.register(&api, "priced").await;
    settings(&api, 1, json!({"monthly_budget": 10})).await;
    let new = json!({"name": "Capped", "project_id": 1, "hourly_limit": 5});
    let made = api.post("/api/v1/keys", &new).await.ok(201);
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    mock.hold();
    let call = tokio::spawn(async move {
        let body = json!({"trace_id": trace, "model": "priced", "input": "Hi."});
        key.post("/api/v1/runs", &body).await
    });
    until("the provider is asked", async || (mock.begun() == 1).then_some(())).await;
    // Its spend, the money that is reserved for it, and its cap.
    let cells = async |path: &str| {
        let page = owner.get(path).await.text;
        let (_, row) = page.split_once(">Capped</a>").unwrap();
        let (row, _) = row.split_once("</tr>").unwrap();
        let cells = row.split("<td class=\"number\">").skip(1);
        cells.map(|cell| cell.split("</td>").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for path in ["/keys", "/limits"] {
        let cells = cells(path).await;
        assert_eq!((&*cells[0], &*cells[2]), ("$0", "$5.00"), "{path}: {cells:?}");
        assert_ne!(cells[1], "$0", "{path}: {cells:?}");
    }
    shows(&owner.get("/limits").await, 200, "reserved for calls that run, of $10.00");
    mock.release();
    call.await.unwrap().ok(200);
    for path in ["/keys", "/limits"] {
        let released = async || Some(cells(path).await).filter(|cells| cells[1] == "$0");
        let cells = until("nothing is reserved", released).await;
        assert_eq!(cells[0], COST, "{path}: {cells:?}");
    }
}

async fn a_key_that_is_paused_is_reset(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let key = server.key();
    settings(&api, 1, json!({"limits": {"loop_requests": 3}})).await;
    let id = api.get("/api/v1/keys").await.ok(200)[0]["id"].as_str().unwrap().to_owned();
    let form = format!("/keys/{id}/reset");
    assert!(!owner.get("/keys").await.text.contains(&form), "nothing is to be reset");
    for _ in 0..3 {
        key.get("/api/v1/sdk/config").await.ok(200);
    }
    key.get("/api/v1/sdk/config").await.ok(429);
    let page = owner.get("/keys").await;
    shows(&page, 200, "<span class=\"status loop_detected\">paused: loop</span>");
    shows(&page, 200, &form);
    roles::user(&server, "member", &["1"]).await;
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    assert!(!member.get("/keys").await.text.contains(&form), "members reset no key");
    let action = format!("{form}?project=1");
    assert_eq!(send_form(&member, &action, &[]).await.status, 403);
    let reset = send_form(&owner, &action, &[]).await;
    let back = "/keys?project=1&done=key_reset";
    assert_eq!((reset.status, reset.header("location")), (303, back), "{}", reset.text);
    let page = owner.get(back).await;
    shows(&page, 200, "The key is reset");
    assert!(!page.text.contains(&form), "{}", page.text);
    key.get("/api/v1/sdk/config").await.ok(200);
}

async fn own_spend_is_that_of_own_keys(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let mock = Mock::always(Answer::text("Hello.")).await;
    mock.register(&server.owner().await, "priced").await;
    let spent = "Your own keys have spent";
    assert!(!owner.get("/keys").await.text.contains(spent), "nobody has made the first key");
    let made = send_form(&owner, "/keys", &[("name", "Mine"), ("project", "1")]).await;
    let (_, secret) = made.text.split_once("id=\"secret\">").unwrap();
    let own = server.with_key(secret.split('<').next().unwrap());
    for key in [&own, &server.key(), &server.key()] {
        let body = json!({"trace_id": key.trace().await, "model": "priced", "input": "Hi."});
        key.post("/api/v1/runs", &body).await.ok(200);
    }
    let sentence = format!("{spent} {COST} in this project in the last 30 days.");
    let shown = async || owner.get("/keys").await.text.contains(&sentence).then_some(());
    until("the spend is shown", shown).await;
}

async fn prices_have_a_source_and_circuits_a_state(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, api, key) = (owner(&server).await, server.owner().await, server.key());
    let listed =
        json!({"name": "Listed", "identifier": "claude-sonnet-4-5", "provider": "anthropic"});
    let listed = json!({"model_definition": listed});
    api.post("/api/v1/projects/1/models", &listed).await.ok(201);
    let down = Mock::always(Answer::json(500, &json!({}))).await;
    let id = down.register(&api, "down").await["id"].clone();
    let page = owner.get("/models").await;
    let row = |name: &str| {
        let (_, row) = page.text.split_once(&format!(">{name}</a>")).unwrap();
        row.split_once("</tr>").unwrap().0
    };
    let of_list = row("claude-sonnet-4-5");
    assert!(of_list.contains("<td class=\"number\">$3</td>"), "{of_list}");
    assert!(of_list.contains("the vendor&#39;s list of 20"), "{of_list}");
    let own = row("down");
    assert!(own.contains("<td class=\"number\">$150</td>"), "{own}");
    assert!(own.contains("<td class=\"note\">this registry</td>"), "{own}");
    let path = format!("/models/{id}");
    let open = "<span class=\"status failed\">open: no calls until it has rested</span>";
    assert!(!owner.get(&path).await.text.contains(open));
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = json!({"trace_id": key.trace().await, "model": "down", "messages": messages});
    for _ in 0..6 {
        key.post("/api/v1/chat/completions", &ask).await.ok(502);
    }
    shows(&owner.get(&path).await, 200, open);
}

async fn the_name_of_a_model_is_no_markup(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let mock = Mock::always(Answer::text("Hello.")).await;
    let markup = "<script>alert(1)</script>\"'";
    let named = json!({"is_public": false, "name": markup});
    let id = mock.register_with(&server.owner().await, "<i>odd", named).await["id"].clone();
    for path in ["/", "/models", &format!("/models/{id}"), "/playground", "/routing", "/settings"] {
        let page = owner.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        for part in ["<script>alert", "<i>odd"] {
            assert!(!page.text.contains(part), "{path}: {}", page.text);
        }
    }
    shows(&owner.get("/models").await, 200, "&#60;script&#62;alert(1)&#60;/script&#62;&#34;&#39;");
}

async fn false_positives_become_advice(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api, key) = (owner(&server).await, server.owner().await, server.key());
    let trace = key.trace().await;
    for number in 0..10 {
        let input = format!("mail jane{number}@example.com");
        let body = json!({"trace_id": trace, "input": input});
        let step = key.post("/api/v1/checks", &body).await.ok(200)["step_id"].clone();
        let verdict = json!({"verdict": "false_positive"}).to_string().into_bytes();
        let path = format!("/api/v1/projects/1/reviews/{step}");
        assert!(!owner.get("/safety").await.text.contains("Advice by verdicts"), "{number}");
        api.send("PUT", &path, Some(verdict)).await.ok(200);
    }
    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    for (who, has_change) in [(&owner, true), (&viewer, false)] {
        let page = who.get("/safety").await;
        shows(&page, 200, "<h2 id=\"advice\">Advice by verdicts</h2>");
        shows(&page, 200, "10 of 10 verdicts on `pii` findings in 30 days are false positives");
        assert_eq!(page.text.contains("Show the change"), has_change, "{}", page.text);
    }
}

async fn a_trace_shows_its_grade_with_reasons_and_what_steps_cost(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api, key) = (owner(&server).await, server.owner().await, server.key());
    let mock = Mock::always(Answer::text("Hello.")).await;
    mock.register(&api, "priced").await;
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "model": "priced", "input": "Hi."});
    // A call that is made once more is a fault.
    for _ in 0..2 {
        key.post("/api/v1/runs", &body).await.ok(200);
    }
    key.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    let summary = key.detail(&trace).await["summary"].clone();
    let page = owner.get(&format!("/traces/{trace}")).await;
    let grade = summary["optimization_grade"].as_str().unwrap();
    shows(&page, 200, &format!("<span class=\"grade {grade}\">{grade}</span>"));
    let reason = summary["grade_reasons"][0]["reason"].as_str().unwrap();
    let plain = reason.split(['\'', '"', '&', '<', '>']).next().unwrap();
    shows(&page, 200, "<h2>Why this grade</h2>");
    shows(&page, 200, &format!("<li>{plain}"));
    let (_, table) = page.text.split_once("<table class=\"waterfall\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let (_, row) = table.split_once(">priced</a>").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    let cells = row.split("<td class=\"number\">").skip(1);
    let cells: Vec<_> = cells.map(|cell| cell.split("</td>").next().unwrap()).collect();
    assert!(cells[0].ends_with(" ms") || cells[0].ends_with(" s"), "its time: {row}");
    assert_eq!(cells[1..], ["15", COST], "its tokens and its cost: {row}");
}

async fn a_route_has_its_reasons(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let prompt = "Prove that the algorithm terminates, then analyse its complexity step by step.";
    let fields = [("project", "1"), ("text", prompt)];
    let tried = send_form(&owner, "/routing", &fields).await;
    shows(&tried, 200, "<h2 id=\"route\">The prompt goes to");
    let (_, route) = tried.text.split_once("<h2 id=\"route\">").unwrap();
    let (route, _) = route.split_once("</section>").unwrap();
    assert!(route.contains("<ul><li>") && route.contains("complexity 0."), "{route}");
    assert!(route.contains("<code>sandbox</code>"), "{route}");
}

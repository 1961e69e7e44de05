//! The review queue, drafts of safety settings, and the pages of jobs.

use serde_json::json;

use super::{owner, send_form, shows, signed_in};
use crate::harness::{Backend, Caller, Server, settings, until};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(
    a_finding_is_judged_on_the_page_of_the_queue,
    a_draft_is_tried_on_a_text,
    a_pattern_that_is_given_up_is_named,
    a_draft_is_backtested,
    an_export_has_a_page_and_its_file_is_for_admins,
);

async fn check(key: &Caller, trace: &str, input: &str) -> String {
    let body = json!({"trace_id": trace, "input": input});
    key.post("/api/v1/checks", &body).await.ok(200)["step_id"].to_string()
}

async fn a_finding_is_judged_on_the_page_of_the_queue(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    shows(&owner.get("/safety/reviews").await, 200, "try a text or a draft");
    let key = server.key();
    let trace = key.trace().await;
    let step = check(&key, &trace, "<script>alert(1)</script> mail jane@example.com <b>").await;
    let page = owner.get("/safety/reviews").await;
    let marked = "alert(1)&#60;/script&#62; mail <mark title=\"pii: EMAIL\">jane@example.com</mark> &#60;b&#62;";
    shows(&page, 200, marked);
    assert!(!page.text.contains("<script>alert"), "{}", page.text);
    shows(&page, 200, &format!("/traces/{trace}/steps/{step}?project=1"));
    shows(&page, 200, "pii: EMAIL, score 0.");
    let file = owner.get("/safety/reviews.csv").await;
    shows(&file, 200, "step,trace,ended,type,endpoint,model,risk_score,findings\r\n");
    shows(&file, 200, &format!("{step},{trace},"));

    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    let seen = viewer.get("/safety/reviews").await;
    shows(&seen, 200, "jane@example.com</mark>");
    assert!(!seen.text.contains("name=\"verdict\""), "{}", seen.text);
    let judge = format!("/safety/reviews/{step}?project=1");
    let wrong = [("verdict", "false_positive"), ("note", "<i>ours</i>")];
    assert_eq!(send_form(&viewer, &judge, &wrong).await.status, 403);
    let foreign = format!("/safety/reviews/{step}?project=99");
    assert_eq!(send_form(&owner, &foreign, &wrong).await.status, 404);
    assert_eq!(owner.get("/safety/reviews?project=99").await.status, 404);
    assert_eq!(owner.get("/safety/reviews?before=x").await.status, 400);
    let long = "é".repeat(1_001);
    let refused = send_form(&owner, &judge, &[("verdict", "confirmed"), ("note", &*long)]).await;
    shows(&refused, 422, "note is longer than 1000 characters");
    assert!(refused.text.contains(&long), "the note is not lost");

    let judged = send_form(&owner, &judge, &wrong).await;
    let back = "/safety/reviews?project=1&done=finding_judged";
    assert_eq!((judged.status, judged.header("location")), (303, back), "{}", judged.text);
    let page = owner.get(back).await;
    shows(&page, 200, "The verdict is kept");
    shows(&page, 200, "<td>false positive</td>");
    shows(&page, 200, &format!("<td>{}</td>", crate::harness::OWNER));
    shows(&page, 200, &format!("<a href=\"/steps/{step}?project=1\">{step}</a>"));
    shows(&page, 200, "&#60;i&#62;ours");
    assert!(!page.text.contains("<mark"), "it waits no more: {}", page.text);
    // The form of a page that was open meanwhile replaces nothing.
    let stale = [("expects", "unjudged"), ("verdict", "confirmed"), ("note", "")];
    let refused = send_form(&owner, &judge, &stale).await;
    shows(&refused, 409, &format!("somebody has judged step {step} meanwhile"));
    shows(&refused, 409, "&#60;i&#62;ours");
    // It is changed where it is listed, and keeps its note.
    let stands = page.text.rsplit_once("name=\"expects\" value=\"").unwrap().1;
    let stands = stands.split_once('"').unwrap().0.to_owned();
    let change = [("expects", &*stands), ("verdict", "confirmed")];
    assert_eq!(send_form(&owner, &judge, &change).await.status, 303);
    let page = owner.get("/safety/reviews").await;
    shows(&page, 200, "<td>confirmed</td>");
    shows(&page, 200, "&#60;i&#62;ours");
    let found = owner.get(&format!("/steps/{step}?project=1")).await;
    let place = format!("/traces/{trace}/steps/{step}?project=1");
    assert_eq!((found.status, found.header("location")), (303, &*place));
    assert_eq!(owner.get("/steps/999999?project=1").await.status, 404);
}

const RULE: [(&str, &str); 4] = [
    ("project", "1"),
    ("rule_name", "bird"),
    ("rule_pattern", "(?i)bluebird"),
    ("rule_action", "block"),
];

async fn a_draft_is_tried_on_a_text(backend: Backend) {
    let server = Server::start(&backend).await;
    let api = server.owner().await;
    let owner = owner(&server).await;
    let rules =
        json!({"safety": {"rules": [{"name": "<old>", "pattern": "robin", "action": "flag"}]}});
    settings(&api, 1, rules).await;
    let with = |more: &[(&'static str, &'static str)]| [&RULE, more].concat();
    let tried = send_form(&owner, "/safety", &with(&[("text", "The Bluebird sings")])).await;
    shows(&tried, 200, "The prompt is blocked");
    shows(&tried, 200, "<mark title=\"policy: bird\">Bluebird</mark>");
    // The rules that there are count as well, and the draft can become a change that is shown first.
    shows(&tried, 200, "Show the draft as a change of the settings");
    let robin = send_form(&owner, "/safety", &with(&[("text", "a robin")])).await;
    shows(&robin, 200, "policy: &#60;old&#62;");
    let json =
        [("project", "1"), ("text", "a robin"), ("settings", "{\"safety\": {\"rules\": []}}")];
    shows(&send_form(&owner, "/safety", &json).await, 200, "The prompt passes");
    for (fields, field, fault) in [
        ([("rule_pattern", "("), ("rule_weight", "1")], "rule_pattern", "The pattern"),
        ([("rule_pattern", ""), ("rule_weight", "1")], "rule_pattern", "The pattern is required"),
        ([("rule_pattern", "a"), ("rule_weight", "2")], "rule_weight", "The weight must be"),
        ([("rule_pattern", "a"), ("rule_weight", "x")], "rule_weight", "The weight must be"),
        ([("rule_pattern", "a"), ("settings", "{")], "settings", "The settings are not JSON"),
        (
            [("rule_pattern", "a"), ("settings", "{\"safety\": {\"block_threshold\": 2}}")],
            "settings",
            "settings.safety.block_threshold must be",
        ),
    ] {
        for path in ["/safety", "/safety/backtests"] {
            let fields =
                [&[("project", "1"), ("text", "x"), ("rule_name", "bird")][..], &fields].concat();
            let refused = send_form(&owner, path, &fields).await;
            shows(&refused, 422, &format!("aria-describedby=\"{field}-fault\""));
            shows(&refused, 422, &format!("id=\"{field}-fault\">{fault}"));
            shows(&refused, 422, "name=\"rule_name\" value=\"bird\"");
        }
    }
    let page = owner.get("/safety").await;
    shows(&page, 200, "<td><code class=\"pattern\">robin</code></td><td>is flagged</td>");
    let drafted = owner.get("/safety?rule=%3Cold%3E&project=1").await;
    shows(&drafted, 200, "name=\"rule_name\" value=\"&#60;old&#62;\"");
    let saved = api.get("/api/v1/projects/1").await.ok(200);
    assert_eq!(
        saved["settings"]["safety"]["rules"].as_array().unwrap().len(),
        1,
        "nothing is saved"
    );
}

async fn a_pattern_that_is_given_up_is_named(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let text = "a".repeat(2_000);
    let fields = |text| {
        [
            ("project", "1"),
            ("text", text),
            ("rule_name", "slow <b>"),
            ("rule_pattern", "(a{1,50}){1,50}b"),
            ("rule_action", "block"),
        ]
    };
    let tried = send_form(&owner, "/safety", &fields(&*text)).await;
    shows(&tried, 200, "The prompt passes");
    let given_up = "The pattern of slow &#60;b&#62; was given up, and counts as no match: took more \
        than 4 µs for a byte of the text.";
    shows(&tried, 200, given_up);
    let tried = send_form(&owner, "/safety", &fields("aab")).await;
    shows(&tried, 200, "The prompt is blocked");
    assert!(!tried.text.contains("was given up"), "{}", tried.text);
}

async fn a_draft_is_backtested(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let key = server.key();
    let trace = key.trace().await;
    let step =
        key.execute(&trace, "Tell me about project Bluebird").await.ok(200)["step_id"].clone();
    key.execute(&trace, "The weather is fine").await.ok(200);
    let fields = [&RULE[..], &[("window", "24"), ("settings", "{\"mcp\": {}}")]].concat();
    for role in ["member", "viewer"] {
        roles::user(&server, role, &["1"]).await;
    }
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    let page = member.get("/safety").await;
    assert!(
        page.text.contains("name=\"rule_pattern\"") && !page.text.contains("/safety/backtests")
    );
    assert_eq!(send_form(&member, "/safety/backtests", &fields).await.status, 403);
    shows(&owner.get("/safety").await, 200, "formaction=\"/safety/backtests\"");
    let odd = [&RULE[..], &[("window", "5")]].concat();
    assert_eq!(send_form(&owner, "/safety/backtests", &odd).await.status, 422);

    let asked = send_form(&owner, "/safety/backtests", &fields).await;
    assert_eq!(asked.status, 303, "{}", asked.text);
    let job = asked.header("location").to_owned();
    assert!(job.starts_with("/jobs/") && job.ends_with("?project=1"), "{job}");
    let over = async || Some(owner.get(&job).await).filter(|page| !page.text.contains("data-live"));
    let page = until("the backtest is over", over).await;
    shows(&page, 200, "<span class=\"status completed\" role=\"status\">completed</span>");
    shows(&page, 200, "<th scope=\"row\" class=\"name\">policy: bird</th>");
    shows(&page, 200, &format!("<a href=\"/steps/{step}?project=1\">{step}</a>"));
    shows(&page, 200, "without effect on a backtest: mcp");
    shows(&page, 200, "No blocked request would pass.");
    // Every member of the project reads it, and finds it in the list.
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    shows(&viewer.get(&job).await, 200, "policy: bird");
    shows(&viewer.get("/jobs").await, 200, &format!("<a href=\"{job}\">"));
    assert!(!viewer.get("/safety").await.text.contains("<form class=\"card stacked\""));
    let made = server.owner().await;
    let made = made.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await.ok(201);
    let foreign = job.replace("project=1", &format!("project={}", made["id"]));
    assert_eq!(owner.get(&foreign).await.status, 404);
    assert_eq!(owner.get("/jobs/none?project=1").await.status, 404);
}

async fn an_export_has_a_page_and_its_file_is_for_admins(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let key = server.key();
    key.execute(&key.trace().await, "The weather is fine").await.ok(200);
    let body = json!({"format": "jsonl", "since": "1d"});
    let api = server.owner().await;
    let export = api.post("/api/v1/projects/1/exports", &body).await.ok(202);
    let id = export["job_id"].as_str().unwrap();
    let job = format!("/jobs/{id}?project=1");
    let over = async || Some(owner.get(&job).await).filter(|page| !page.text.contains("data-live"));
    let page = until("the export is over", over).await;
    shows(&page, 200, "It is found until");
    shows(&page, 200, "1 rows, ");
    // Its times are in the zone of the reader, as elsewhere.
    shows(&page, 200, "jsonl of the steps that ended from <time datetime=\"");
    let download = format!("/api/v1/projects/1/exports/{id}/download");
    shows(&page, 200, &format!("href=\"{download}\" download>Download"));
    assert_eq!(
        owner.get(&download).await.status,
        200,
        "the session of the page is that of the API"
    );
    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    let seen = viewer.get(&job).await;
    shows(&seen, 200, "Admins and owners");
    assert!(!seen.text.contains(&download), "{}", seen.text);
}

//! Verdicts on single requests.

use std::sync::Arc;

use checks::GiveUp;
use domain::fees::{Factor, Surcharge};
use domain::ids::{ModelId, StepId};
use domain::model::{Model, Provider};
use domain::money::Usd;
use domain::step::{ApiEndpoint, Call, Routing, Security, Step, StepKind, StepStatus};
use domain::tier::{Intent, Tier};
use domain::time::{SECOND, Timestamp};
use domain::usage::Usage;
use serde_json::{Value, json};

use super::draft::{Draft, DraftProject};
use super::judge::{Asks, Judged, Unjudged, judge};
use crate::testing::{Fresh, step};

/// A public model with prices in USD per 1,000 tokens.
fn model(like: &Model, name: &str, prices: Option<(f64, f64)>) -> Model {
    let usd = |dollars| Usd::from_dollars(dollars).unwrap();
    let mut model = Model {
        // Another one for each name.
        id: ModelId(name.bytes().map(i64::from).sum()),
        identifier: name.to_owned(),
        provider: Provider::Openai,
        is_public: true,
        input_price: prices.map(|(input, _)| usd(input)),
        output_price: prices.map(|(_, output)| usd(output)),
        ..like.clone()
    };
    model.config.fallback = None;
    model
}

/// A draft over a project that has these models.
async fn drafted(draft: Value, models: impl FnOnce(&Model) -> Vec<Model>) -> DraftProject {
    let fresh = Fresh::with(json!({})).await;
    let project = &fresh.caller.project;
    let like = project.models.values().next().unwrap();
    let models = models(like).into_iter().map(|model| (model.identifier.clone(), Arc::new(model)));
    let current = project.drafted(project.project.clone(), models.collect()).unwrap();
    Draft::of(draft.as_object().unwrap().clone()).apply(&current).unwrap()
}

/// A completed call, of a model that it names.
fn call(endpoint: ApiEndpoint, call: Call) -> Step {
    let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
    Step {
        api_endpoint: endpoint,
        started_at: now.minus_micros(SECOND),
        finished_at: now,
        ..step(StepKind::Run, Some(call))
    }
}

fn verdict(
    project: &DraftProject,
    step: &Step,
    content: &Value,
    price: bool,
) -> Result<Judged, Unjudged> {
    let asks = Asks { secure: false, price };
    judge(project, step, content.to_string().as_bytes(), asks, GiveUp::Never)
}

#[tokio::test]
async fn a_draft_price_keeps_the_surcharges_of_the_call() {
    let draft =
        json!({"prices": {"fast": {"input_cost_per_1k": 0.002, "output_cost_per_1k": 0.002}}});
    let project = drafted(draft, |like| {
        let mut fast = model(like, "fast", Some((0.001, 0.001)));
        fast.config.fees.factors[Surcharge::Priority] = Factor(200);
        fast.config.fees.factors[Surcharge::Us] = Factor(110);
        vec![fast]
    });
    let project = project.await;
    let usage = Usage { prompt: 1_000, completion: 1_000, ..Usage::default() };
    let plain = project.priced["fast"].prices().unwrap();
    let fees = project.priced["fast"].config.fees;
    for raised in [vec![], vec![Surcharge::Priority], vec![Surcharge::Priority, Surcharge::Us]] {
        let prices = fees.raised(plain, |surcharge| raised.contains(&surcharge));
        // A fee for a tool stays as it was.
        let cost = prices.cost(&usage) + Usd(7);
        let of = Call::of("fast".to_owned(), Provider::Openai);
        let step =
            call(ApiEndpoint::Chat, Call { usage, cost, prices: Some(prices), ..of.clone() });
        let judged = verdict(&project, &step, &json!({"input": "Hello."}), false).unwrap();
        let twice = prices.cost(&usage) + prices.cost(&usage) + Usd(7);
        assert_eq!(judged.draft.cost, twice, "{raised:?}");
    }
}

#[tokio::test]
async fn an_image_charged_by_the_piece_keeps_its_cost() {
    let draft = json!({"prices": {"painter": {"input_cost_per_1k": 5}},
        "images": {"blocked_terms": ["jane.doe@acme.org"]}});
    let project = drafted(draft, |like| {
        let mut painter = model(like, "painter", Some((0.001, 0.001)));
        painter.config.image_price = Some(Usd(40_000_000));
        vec![painter]
    });
    let project = project.await;
    let usage = Usage { prompt: 1_000, ..Usage::default() };
    let of = Call::of("painter".to_owned(), Provider::Openai);
    let step = call(ApiEndpoint::Images, Call { usage, cost: Usd(40_000_000), ..of });
    let judged = verdict(&project, &step, &json!({"input": "A red house."}), false).unwrap();
    assert_eq!(judged.draft.cost, Usd(40_000_000));

    // A term is found behind the placeholder that the provider saw.
    let hidden = json!({"input": "A portrait of [EMAIL_1_01020304].",
        "placeholders": {"[EMAIL_1_01020304]": "jane.doe@acme.org"}});
    let judged = verdict(&project, &step, &hidden, false).unwrap();
    assert_eq!(judged.draft.block.unwrap().kind, "blocked_term");
}

#[tokio::test]
async fn a_bound_asks_for_a_model_with_a_price() {
    let tiers = json!({"routing_tiers": {"simple": "free"}});
    let project = drafted(tiers, |like| {
        let mut free = model(like, "free", None);
        free.config.fallback = Some("dear".to_owned());
        vec![free, model(like, "dear", Some((1.0, 1.0))), model(like, "old", Some((0.1, 0.1)))]
    });
    let project = project.await;
    let routing = Routing {
        tier: Some(Tier::Simple),
        classified: Tier::Simple,
        complexity: 0.0,
        intent: Intent::Answer,
        reasons: Vec::new(),
    };
    let named = |name: &str| call(ApiEndpoint::Chat, Call::of(name.to_owned(), Provider::Openai));
    let routed = Step { routing: Some(routing), ..named("old") };
    let content = json!({"input": "Hello."});
    for (step, price, model, lacks) in [
        (&routed, false, "free", false),
        (&routed, true, "dear", false),
        (&named("free"), false, "free", false),
        (&named("free"), true, "free", true),
        (&named("dear"), true, "dear", false),
        (&named("gone"), true, "gone", false),
    ] {
        let judged = verdict(&project, step, &content, price).unwrap();
        assert_eq!((judged.draft.model.as_deref(), judged.lacks_price), (Some(model), lacks));
    }
}

#[tokio::test]
async fn a_later_round_is_one_that_the_gateway_sent() {
    let project = drafted(json!({}), |like| vec![model(like, "old", Some((0.1, 0.1)))]).await;
    let first = call(ApiEndpoint::Chat, Call::of("old".to_owned(), Provider::Openai));
    let later = Step { parent: Some(StepId(9)), ..first.clone() };
    let content = |runs: bool, last: &str| {
        json!({"input": [{"role": "user", "content": "Look it up."},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function",
                    "function": {"name": "f", "arguments": "{}"}}]},
                {"role": last, "content": "1", "tool_call_id": "a"}],
            "mcp": [{"label": "l", "url": "https://mcp.example", "runs": runs, "vpc_only": false,
                "functions": {"f": "f"}}]})
    };
    for (step, content, is_round) in [
        (&later, content(true, "tool"), true),
        (&later, content(false, "tool"), false),
        (&later, content(true, "user"), false),
        (&first, content(true, "tool"), false),
    ] {
        let judged = verdict(&project, step, &content, false).unwrap();
        assert_eq!(judged.is_round, is_round, "{content}");
    }
}

#[tokio::test]
async fn a_block_outside_the_stored_messages_is_not_judged() {
    let project = drafted(json!({}), |like| vec![model(like, "old", None)]).await;
    let of = |place: Value| {
        let mut finding = json!({"category": "injection", "type": "override", "score": 0.9});
        finding.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        let findings = Some(json!([finding]));
        Step {
            kind: StepKind::Blocked,
            status: StepStatus::Blocked,
            call: None,
            security: Security { findings, ..Security::default() },
            ..call(ApiEndpoint::Chat, Call::of("old".to_owned(), Provider::Openai))
        }
    };
    let content = json!({"input": "Hello."});
    let within = of(json!({"message": 0, "role": "user", "field": "content"}));
    assert!(verdict(&project, &within, &content, false).is_ok());
    let outside = verdict(&project, &of(json!({"field": "tools"})), &content, false);
    assert_eq!(outside.unwrap_err(), Unjudged::Unreadable);
}

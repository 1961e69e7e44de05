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

use super::both::Both;
use super::draft::{Draft, DraftProject};
use super::judge::{Asks, Judged, Pricing, Unjudged, judge};
use crate::testing::{Fresh, step};

/// A public model with prices in USD per 1,000 tokens.
fn model(like: &Model, name: &str, prices: Option<(f64, f64)>) -> Model {
    let usd = |dollars| Usd::from_dollars(dollars).unwrap();
    let mut model = Model {
        // Another one for each name.
        id: ModelId(name.bytes().map(i64::from).sum()),
        identifier: name.to_owned(),
        provider: Provider::Openai,
        base_url: None,
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
    Draft::of(draft.as_object().unwrap().clone()).apply(&Arc::new(current)).unwrap()
}

/// A completed call, of a model that it names.
pub(super) fn call(endpoint: ApiEndpoint, call: Call) -> Step {
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
    let asks = Asks { secure: false, price: Both { now: price, draft: price } };
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

/// A recorded classification, with the tier that the request went to.
fn routing(classified: Tier, tier: Tier) -> Routing {
    Routing {
        tier: Some(tier),
        classified,
        complexity: 0.0,
        intent: Intent::Answer,
        reasons: Vec::new(),
    }
}

/// A completed call of chat completions that names its model.
fn named(name: &str) -> Step {
    call(ApiEndpoint::Chat, Call::of(name.to_owned(), Provider::Openai))
}

fn with_fallback(model: Model, fallback: &str) -> Model {
    let mut model = model;
    model.config.fallback = Some(fallback.to_owned());
    model
}

/// The model that answers by the draft, or the kind of the block.
fn outcome(judged: &Judged) -> &str {
    match &judged.draft.block {
        Some(block) => {
            assert_eq!(block.category, "routing");
            &block.kind
        }
        None => judged.draft.model.as_deref().unwrap(),
    }
}

#[tokio::test]
async fn a_bound_asks_for_a_model_with_a_price() {
    let tiers = json!({"routing_tiers": {"simple": "free"}});
    let project = drafted(tiers, |like| {
        vec![
            with_fallback(model(like, "free", None), "dear"),
            model(like, "dear", Some((1.0, 1.0))),
            model(like, "old", Some((0.1, 0.1))),
            with_fallback(model(like, "alone", None), "nobody"),
        ]
    });
    let project = project.await;
    let routed = Step { routing: Some(routing(Tier::Simple, Tier::Simple)), ..named("old") };
    let run = |name: &str| Step { api_endpoint: ApiEndpoint::Runs, ..named(name) };
    let content = json!({"input": "Hello."});
    for (step, price, model, lacks) in [
        (&routed, false, "free", false),
        (&routed, true, "dear", false),
        (&named("free"), false, "free", false),
        (&named("free"), true, "dear", false),
        (&run("free"), true, "free", true),
        (&named("alone"), true, "alone", true),
        (&named("dear"), true, "dear", false),
        (&named("gone"), true, "gone", false),
    ] {
        let judged = verdict(&project, step, &content, price).unwrap();
        assert_eq!((outcome(&judged), judged.lacks_price.draft), (model, lacks));
    }
    // By the settings of now the tier has no model at all, and a model that is named is judged alike.
    for (step, lacks) in
        [(&routed, false), (&named("alone"), true), (&named("free"), false), (&run("free"), true)]
    {
        let judged = verdict(&project, step, &content, true).unwrap();
        assert_eq!(judged.lacks_price.now, lacks);
        assert!(!verdict(&project, step, &content, false).unwrap().lacks_price.now);
    }
}

#[tokio::test]
async fn a_model_that_is_named_is_called_in_an_allowed_region() {
    let draft = json!({"allowed_regions": ["eu"]});
    let project = drafted(draft, |like| {
        let within = |region: &str, model: Model| Model { region: region.to_owned(), ..model };
        let priced = |name: &str, price| model(like, name, Some((price, price)));
        vec![
            within("us", with_fallback(priced("far", 0.1), "near")),
            within("eu", priced("near", 0.2)),
            within("us", priced("alone", 0.1)),
        ]
    });
    let project = project.await;
    let usage = Usage { prompt: 1_000, ..Usage::default() };
    let cost = Usd::from_dollars(0.1).unwrap();
    let of = |name: &str| Step {
        call: Some(Call { usage, cost, ..Call::of(name.to_owned(), Provider::Openai) }),
        ..named(name)
    };
    let run = |name: &str| Step { api_endpoint: ApiEndpoint::Runs, ..of(name) };
    let content = json!({"input": "Hello."});
    for (step, expected, dollars) in [
        (&of("near"), "near", 0.1),
        (&of("far"), "near", 0.2),
        (&of("alone"), "region", 0.0),
        (&run("far"), "region", 0.0),
        (&run("near"), "near", 0.1),
    ] {
        let judged = verdict(&project, step, &content, false).unwrap();
        let cost = Usd::from_dollars(dollars).unwrap();
        assert_eq!((outcome(&judged), judged.draft.cost), (expected, cost));
    }
    // All of these are public.
    let asks = Asks { secure: true, price: Both::default() };
    let json = content.to_string();
    let secure = judge(&project, &of("near"), json.as_bytes(), asks, GiveUp::Never).unwrap();
    assert_eq!(outcome(&secure), "secure");
}

#[tokio::test]
async fn images_of_another_model_are_paid_for_at_its_price() {
    let draft = json!({"allowed_regions": ["eu"]});
    let project = drafted(draft, |like| {
        let painter = |name: &str, region: &str, price| {
            let mut model = model(like, name, None);
            model.region = region.to_owned();
            model.config.image_price = Some(Usd(price));
            model
        };
        let writer = Model { provider: Provider::Anthropic, ..painter("writer", "eu", 1) };
        vec![
            with_fallback(painter("far", "us", 40_000_000), "near"),
            painter("near", "eu", 80_000_000),
            with_fallback(painter("alone", "us", 40_000_000), "writer"),
            writer,
        ]
    });
    let project = project.await;
    let content = json!({"input": "A red house.", "params": {"n": 2}});
    for (name, expected, cost) in [("far", "near", 160_000_000), ("alone", "region", 0)] {
        let of = Call { cost: Usd(80_000_000), ..Call::of(name.to_owned(), Provider::Openai) };
        let judged = verdict(&project, &call(ApiEndpoint::Images, of), &content, false).unwrap();
        assert_eq!((outcome(&judged), judged.draft.cost), (expected, Usd(cost)));
    }
}

/// The record of a call that passed as it came keeps the tools of its vendor, in each format.
#[tokio::test]
async fn a_bound_asks_for_a_bound_on_the_tools_of_a_vendor() {
    for (endpoint, provider, endless, search) in [
        (
            ApiEndpoint::Messages,
            Provider::Anthropic,
            json!({"type": "code_execution_20250825", "name": "tool"}),
            json!({"type": "web_search_20250305", "name": "tool"}),
        ),
        (
            ApiEndpoint::Responses,
            Provider::Openai,
            json!({"type": "code_interpreter", "container": {"type": "auto"}}),
            json!({"type": "web_search"}),
        ),
        (
            ApiEndpoint::Gemini,
            Provider::Gemini,
            json!({"toolOfTomorrow": {}}),
            json!({"googleSearch": {}}),
        ),
    ] {
        let project = drafted(json!({}), |like| {
            let priced = |name: &str| Model { provider, ..model(like, name, Some((0.1, 0.1))) };
            let mut bounded = priced("bounded");
            bounded.config.context_window = Some(1_000);
            vec![with_fallback(priced("open"), "bounded"), bounded, priced("alone")]
        });
        let project = project.await;
        let of = |name: &str| Step {
            api_endpoint: endpoint,
            call: Some(Call::of(name.to_owned(), provider)),
            ..named(name)
        };
        let with =
            |tool: Value| json!({"input": "Hello.", "passed": {"request": {"tools": [tool]}}});
        let (endless, search) = (with(endless), with(search));
        for (step, content, price, model, lacks) in [
            (&of("open"), &endless, true, "bounded", false),
            (&of("open"), &endless, false, "open", false),
            (&of("open"), &search, true, "open", false),
            (&of("alone"), &endless, true, "alone", true),
            (&of("alone"), &search, true, "alone", false),
        ] {
            let judged = verdict(&project, step, content, price).unwrap();
            let found = (outcome(&judged), judged.lacks_price.draft);
            assert_eq!(found, (model, lacks), "{endpoint:?}: {content}");
        }
    }
}

#[tokio::test]
async fn a_call_stays_where_it_went_unless_the_draft_moves_it() {
    let models = |like: &Model| {
        let priced = |name: &str| model(like, name, Some((0.1, 0.1)));
        vec![with_fallback(priced("first"), "second"), priced("second"), priced("other")]
    };
    let tiers = json!({"simple": "first", "complex": "second"});
    let content = json!({"input": "Hello."});
    let of = |name: &str, classified, tier| Step {
        routing: Some(routing(classified, tier)),
        ..named(name)
    };
    // The settings of now have the same tiers, so that the draft changes the models of none.
    let fresh = Fresh::with(json!({"routing_tiers": {}})).await;
    let project = &fresh.caller.project;
    let like = project.models.values().next().unwrap();
    let all = models(like).into_iter().map(|model| (model.identifier.clone(), Arc::new(model)));
    let mut stored = project.project.clone();
    stored.settings.insert("routing_tiers".to_owned(), tiers);
    let current = Arc::new(project.drafted(stored, all.collect()).unwrap());
    let draft =
        |draft: Value| Draft::of(draft.as_object().unwrap().clone()).apply(&current).unwrap();
    let (same, other) = (draft(json!({})), draft(json!({"routing_tiers": {"simple": "other"}})));
    let (simple, complex) = (Tier::Simple, Tier::Complex);
    for (project, step, tier, model) in [
        (&same, of("first", simple, simple), simple, "first"),
        // It was answered by a fallback.
        (&same, of("second", simple, simple), simple, "second"),
        (&other, of("second", simple, simple), simple, "other"),
        // A session stayed with the model of another tier.
        (&same, of("second", simple, complex), complex, "second"),
        (&other, of("second", simple, complex), complex, "second"),
        // It classifies otherwise now.
        (&same, of("second", complex, complex), simple, "first"),
        // Its model is not of the tier any more.
        (&same, of("other", simple, simple), simple, "first"),
    ] {
        let judged = verdict(project, &step, &content, false).unwrap();
        assert_eq!((judged.draft.tier, outcome(&judged)), (Some(tier), model));
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_counted_though_the_call_stays() {
    let project = drafted(json!({}), |like| {
        vec![model(like, "free", None), model(like, "dear", Some((1.0, 1.0)))]
    });
    let project = project.await;
    for (name, pricing) in
        [("free", Pricing::Unpriced), ("dear", Pricing::Known), ("gone", Pricing::Unpriced)]
    {
        let cost = Usd(7);
        let call = Call { cost, ..Call::of(name.to_owned(), Provider::Openai) };
        let step = Step { call: Some(call), ..named(name) };
        let judged = verdict(&project, &step, &json!({"input": "Hello."}), false).unwrap();
        assert_eq!((judged.pricing, judged.draft.cost), (pricing, cost), "{name}");
    }
}

#[tokio::test]
async fn a_later_round_is_one_that_the_gateway_sent() {
    let project = drafted(json!({}), |like| vec![model(like, "old", Some((0.1, 0.1)))]).await;
    let of = Call::of("old".to_owned(), Provider::Openai);
    let first = call(ApiEndpoint::Executions, of);
    let later = Step { parent: Some(StepId(9)), ..first.clone() };
    let blocked =
        Step { kind: StepKind::Blocked, status: StepStatus::Blocked, call: None, ..later.clone() };
    let asks = |names: &[&str]| {
        let call = |name: &&str| json!({"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}});
        let calls: Vec<Value> = names.iter().map(call).collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    };
    let result = |of: &str| json!({"role": "tool", "content": "1", "tool_call_id": of});
    let question = json!({"role": "user", "content": "Look it up."});
    let round = |names: &[&str]| {
        let results = names.iter().map(|name| result(name));
        std::iter::once(asks(names)).chain(results).collect::<Vec<_>>()
    };
    let rounds = |all: &[&[&str]]| {
        let rounds = all.iter().flat_map(|names| round(names));
        std::iter::once(question.clone()).chain(rounds).collect::<Vec<_>>()
    };
    let content = |runs: bool, messages: Vec<Value>| {
        json!({"input": messages,
            "mcp": [{"label": "l", "url": "https://mcp.example", "runs": runs, "vpc_only": false,
                "functions": {"f": "f", "g": "g"}}]})
    };
    let one: &[&str] = &["f"];
    let many: Vec<String> = (0..33).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut listed = content(true, rounds(&[&many]));
    listed["mcp"][0]["functions"] = many.iter().map(|name| (*name, *name)).collect();
    for (step, content, is_round) in [
        (&later, content(true, rounds(&[&["f"]])), true),
        (&later, content(true, rounds(&[&["f", "g"], &["g"]])), true),
        (&blocked, content(true, rounds(&[&["f"]])), true),
        (&later, content(false, rounds(&[&["f"]])), false),
        (&later, content(true, vec![question.clone()]), false),
        (&first, content(true, rounds(&[&["f"]])), false),
        // Follow-ups of the caller, which ran a function of its own.
        (&later, content(true, rounds(&[&["own"]])), false),
        (&later, content(true, rounds(&[&["f", "own"]])), false),
        (&later, content(true, rounds(&[&["own"], &["f"]])), true),
        // Nothing is run after the tenth round, and no 33 tools at once.
        (&later, content(true, rounds(&[one; 9])), true),
        (&later, content(true, rounds(&[one; 10])), false),
        (&later, content(true, rounds(&[one; 11])), true),
        (&later, listed, false),
    ] {
        let judged = verdict(&project, step, &content, false).unwrap();
        let after = is_round.then_some(StepId(9));
        assert_eq!(judged.round_after, after, "{content}");
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

use domain::conversation::Body;
use std::sync::LazyLock;

use domain::ids::{ModelId, ProjectId};
use domain::model::{ModelConfig, Provider};
use domain::money::Usd;
use domain::original::{ExternalAccess, Original, WireFormat};
use domain::time::Timestamp;
use serde_json::{Map, json};

use super::*;
use crate::pipeline::in_flight::InFlight;
use crate::testing::{Fresh, of_parts, pdf};

const DOLLAR: i64 = 1_000_000_000;

/// A cost bound for `prompt` prompt tokens, at a dollar a thousand tokens of either kind.
fn cost_bound(prompt: u64, bound: u64, is_requested: bool) -> CostBound<'static> {
    static UNREAD: LazyLock<Prompt> = LazyLock::new(Prompt::default);
    let price = Usd(DOLLAR);
    let prices = Prices { input: price, output: price, ..Prices::default() };
    CostBound {
        least: 1,
        prices: Some(prices),
        flat: None,
        prompt,
        counted: Counted {
            prompt: &UNREAD,
            unread: 0,
            context_window: None,
            tokens: OnceLock::from(prompt / 4),
        },
        charges: vec![ChargeBound { passes: 1, ..ChargeBound::default() }],
        choices: 1,
        predicted: 0,
        bound,
        is_requested,
        held: Usd::ZERO,
    }
}

#[test]
fn a_bound_that_nobody_asked_for_is_lowered_to_what_is_left() {
    let cost = |tokens: i64| Usd(tokens * DOLLAR / 1000);
    let free = cost_bound(40, 1000, false);
    assert_eq!(free.fit(cost(1040), 1), Some((1000, cost(1040))), "by its bytes");
    assert_eq!(free.fit(cost(1039), 1), Some((1000, cost(1010))), "as it is counted");
    assert_eq!(free.fit(cost(1009), 1), Some((999, cost(1009))));
    assert_eq!(free.fit(cost(11), 1), Some((1, cost(11))));
    assert_eq!(free.fit(cost(11), 2), None, "too short to be worth it");
    assert_eq!(free.fit(cost(10), 1), None);
    assert_eq!(free.fit(cost(-5), 1), None);
    let requested = cost_bound(40, 1000, true);
    assert_eq!(requested.fit(cost(1010), 1), Some((1000, cost(1010))));
    assert_eq!(requested.fit(cost(1009), 1), None, "what a caller asks for is not lowered");
    let three = CostBound { choices: 3, ..cost_bound(40, 1000, false) };
    assert_eq!(three.fit(cost(310), 1), Some((100, cost(310))));
    let predicted = CostBound { predicted: 50, ..cost_bound(40, 1000, false) };
    assert_eq!(predicted.fit(cost(1060), 1), Some((1000, cost(1060))));
    assert_eq!(predicted.fit(cost(110), 1), Some((50, cost(110))), "it may all be charged");
    let params = [("prediction".to_owned(), json!({"content": "x".repeat(100)}))];
    let prompt = Prompt { params: params.into_iter().collect(), ..Prompt::default() };
    let model = keeping(Provider::Openai, "gpt-4o", None);
    assert!(CostBound::of(&prompt, &model, PricingBasis::Tokens).predicted > 100);
}

#[test]
fn thinking_comes_on_top_of_an_answer() {
    let bound = |thinking: Value| {
        let params = [("thinking".to_owned(), thinking)].into_iter().collect();
        usual_bound(&Prompt { params, ..Prompt::default() })
    };
    assert_eq!(bound(json!({"type": "enabled", "budget_tokens": 10_000})), 14_096);
    assert_eq!(bound(json!({"type": "enabled", "budget_tokens": u64::MAX})), u64::MAX);
    assert_eq!(bound(json!({"type": "disabled", "budget_tokens": 10_000})), 4096);
    assert_eq!(bound(json!({"type": "adaptive"})), 4096);
}

#[test]
fn no_member_of_a_part_escapes_the_bound() {
    let data = "A".repeat(10_000);
    let file = json!({"file_data": format!("data:application/pdf;base64,{data}")});
    for decoy in [json!({}), json!({"text": "x"}), json!({"image_url": {"url": "data:,"}})] {
        let mut part = json!({"type": "file", "file": file});
        part.as_object_mut().unwrap().extend(decoy.as_object().unwrap().clone());
        let body = Body::Parts(vec![part]);
        let mut prompt = Prompt::question(String::new());
        prompt.messages[0].body = body;
        let (bytes, unread) = sizes(&prompt);
        assert!(bytes >= 10_000 && unread >= 10_000, "{decoy}: {bytes}, {unread}");
    }
}

/// The tokens that are set aside for a prompt where its bytes do not fit.
fn counted(prompt: &Prompt, context_window: Option<u64>) -> (u64, u64) {
    let mut model = keeping(Provider::Anthropic, "claude-sonnet-4-5", None);
    model.config.context_window = context_window;
    let cost_bound = CostBound::of(prompt, &model, PricingBasis::Tokens);
    cost_bound.counted.count();
    (*cost_bound.counted.tokens.get().unwrap(), cost_bound.prompt)
}

#[test]
fn a_picture_at_an_address_is_no_document() {
    let most = |kind: &str| {
        let (at, kind) = ("messages[0]".to_owned(), kind.to_owned());
        let mut original = Original::new(WireFormat::ChatCompletions, String::new());
        original.external_access.push(ExternalAccess {
            at,
            kind,
            address: None,
            is_public_allowed: true,
            removable_tool: None,
            stored_id: None,
        });
        counted(&Prompt { original: Some(Box::new(original)), ..Prompt::default() }, Some(90_000)).1
    };
    assert!(most("image_url") < 90_000);
    assert!(most("file") >= 90_000);
}

#[test]
fn a_video_may_fill_the_window() {
    let most = |has_video, window| {
        let mut original = Original::new(WireFormat::GenerateContent, String::new());
        (original.files, original.has_video) = (100_000, has_video);
        counted(&Prompt { original: Some(Box::new(original)), ..Prompt::default() }, window)
    };
    assert!(most(false, None).1 < 200_000);
    let (counted, bound) = most(true, Some(1_000_000));
    assert!(counted >= 1_000_000 && bound >= 1_000_000, "{counted}, {bound}");
    assert!(most(true, None).1 >= 2_000_000, "the window is not known");
}

#[test]
fn a_pdf_is_set_aside_by_its_pages_and_not_by_its_bytes() {
    for (bytes, context_window, most) in
        [(1_000_000, None, 369_000), (1_000_000, Some(200_000), 200_000), (100, None, 3_000)]
    {
        let prompt = of_parts(vec![pdf(bytes)]);
        let (counted, bound) = counted(&prompt, context_window);
        assert!((most..most + 100).contains(&counted), "{bytes}: {counted}");
        assert!(bound >= counted, "{bytes}: {bound}");
        let mut model = keeping(Provider::Anthropic, "claude-sonnet-4-5", None);
        model.config.context_window = context_window.map(|tokens| tokens / 2);
        let usage = PricingBasis::Tokens.count(&model, &prompt, "", 0);
        assert!((2_000..=counted).contains(&usage.prompt), "{bytes}: {usage:?}");
        assert!(context_window.is_none() || usage.prompt <= 100_010, "{usage:?}");
    }
}

#[test]
fn a_decoy_beside_a_pdf_is_set_aside_by_its_bytes() {
    let mut part = pdf(30_000);
    part["file"]["more"] = "A".repeat(50_000).into();
    part["other"] = pdf(30_000)["file"]["file_data"].clone();
    part["text"] = "x".into();
    let (counted, _) = counted(&of_parts(vec![part]), None);
    assert!(counted >= 50_000 + 2 * 12_000, "{counted}");
    let text = format!("data:application/pdf;base64,{}", "d29yZHMg".repeat(5_000));
    let part = json!({"type": "file", "file": {"file_data": text}});
    assert!(super::tests::counted(&of_parts(vec![part]), None).0 >= 40_000);
}

#[test]
fn what_costs_nothing_always_fits() {
    let free = CostBound { prices: Some(Prices::default()), ..cost_bound(40, 1000, true) };
    assert_eq!(free.fit(Usd(-1), 1), Some((1000, Usd::ZERO)));
    let images = CostBound { flat: Some(Usd(DOLLAR)), ..cost_bound(40, 1000, false) };
    assert_eq!(images.fit(Usd(DOLLAR), 1), Some((1000, Usd(DOLLAR))));
    assert_eq!(images.fit(Usd(DOLLAR - 1), 1), None);
}

/// The money that the caller of a fresh gateway has set aside: in the hour and in the month.
fn reserved(fresh: &Fresh) -> (Usd, Usd) {
    let caller = &fresh.caller;
    let (hour, month) =
        (lock(&caller.key.windows).set_aside, lock(&caller.project.month).set_aside);
    (hour.total(), month.total())
}

#[tokio::test]
async fn money_is_set_aside_until_the_call_has_settled() {
    let fresh = Fresh::with(json!({"monthly_budget": 1.0})).await;
    let trace = fresh.trace().await;
    let flight = fresh.in_flight(&trace).await;
    let (hour, month) = reserved(&fresh);
    assert!(hour > Usd::ZERO && hour == month, "{hour:?} {month:?}");
    flight.finish().await.unwrap();
    assert_eq!(reserved(&fresh), (Usd::ZERO, Usd::ZERO));
    // Also when it is given up.
    let trace = fresh.trace().await;
    let flight: InFlight = fresh.in_flight(&trace).await;
    drop(flight);
    fresh.steps(&trace).await;
    assert_eq!(reserved(&fresh), (Usd::ZERO, Usd::ZERO));
}

/// Another attempt of a call does not wait for the money that the first has set aside.
#[tokio::test]
async fn an_attempt_waits_for_other_calls_alone() {
    let fresh = Fresh::with(json!({"monthly_budget": 1.5})).await;
    let call = || cost_bound(100, 900, true);
    let (_, held) = fresh.gateway.reserve(&fresh.caller, &call()).await.unwrap();
    let waits_for_others =
        |cost_bound| match fresh.gateway.try_reserve_here(&fresh.caller, &cost_bound, 1) {
            ReserveOutcome::Full { others, error } => {
                let passes = matches!(error, Error::BudgetReserved);
                assert_eq!(passes, others, "{error:?}");
                others
            }
            ReserveOutcome::Reserved(..) | ReserveOutcome::Unknown => {
                panic!("there is room for one alone")
            }
        };
    assert!(waits_for_others(call()), "another call may settle meanwhile");
    assert!(
        !waits_for_others(call().bounded(Some(900), None).beside(Some(&held))),
        "nobody else is about to settle"
    );
}

#[test]
fn the_dearest_price_is_that_of_an_hour_where_the_prompt_asks_for_it() {
    let prompt = |part: Value, params: Value| {
        let Value::Object(params) = params else { unreachable!("{params}") };
        let body = Body::Parts(vec![part]);
        let message =
            domain::conversation::Message { body, ..domain::conversation::Message::user("") };
        Prompt { messages: vec![message], params, ..Prompt::default() }
    };
    let plain = json!({"type": "text", "text": "cache_control ttl 1h"});
    let marked = |ttl: Value| json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}});
    let tool = json!({"tools": [{"type": "function", "cache_breakpoint": "1h"}]});
    for (part, params, dearest) in [
        // Nothing is written to a cache unless the request asks for it.
        (plain.clone(), json!({}), 100),
        (plain.clone(), json!({"tools": [{"type": "function"}]}), 100),
        (marked(json!("5m")), json!({}), 125),
        (marked(json!(null)), json!({}), 125),
        (json!({"cache_control": {"type": "ephemeral"}}), json!({}), 125),
        (marked(json!("1h")), json!({}), 200),
        (marked(json!("2h")), json!({}), 200),
        (marked(json!(3600)), json!({}), 200),
        (json!({"content": [marked(json!("1h"))]}), json!({}), 200),
        (plain.clone(), tool, 200),
        (plain.clone(), json!({"cache_breakpoint": "1h"}), 200),
        (plain.clone(), json!({"a": [{"cachePoint": {"type": "default"}}]}), 125),
        (plain, json!({"cache_breakpoint": "5m"}), 125),
    ] {
        let prompt = prompt(part, params);
        let claude = keeping(Provider::Anthropic, "claude-sonnet-4-5", None);
        let is_hour = dearest == 200;
        assert_eq!(providers::may_keep_for_an_hour(&claude, &prompt), is_hour, "{prompt:?}");
        assert_eq!(dearest_input(&claude, &prompt), Usd(dearest), "{prompt:?}");
    }
}

#[test]
fn writes_are_set_aside_where_nobody_need_ask_for_them() {
    let own = Some("https://proxy.example.com");
    for (provider, name, base_url, dearest) in [
        (Provider::Anthropic, "claude-sonnet-4-5", None, 100),
        (Provider::Anthropic, "claude-sonnet-4-5", Some("https://api.anthropic.com/v1"), 100),
        (Provider::Anthropic, "claude-sonnet-4-5", Some("https://notanthropic.com"), 125),
        (Provider::Anthropic, "claude-sonnet-4-5", own, 125),
        (Provider::Bedrock, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", None, 100),
        (Provider::Bedrock, "amazon.nova-pro-v1:0", own, 125),
        (Provider::Openai, "gpt-5.6", None, 125),
        (Provider::Azure, "gpt-5.6", None, 125),
        (Provider::Gemini, "gemini-2.5-flash", None, 125),
        (Provider::Internal, "claude-by-proxy", own, 125),
    ] {
        let model = keeping(provider, name, base_url);
        let message = domain::conversation::Message::user("Hello.");
        let prompt = Prompt { messages: vec![message], ..Prompt::default() };
        assert_eq!(dearest_input(&model, &prompt), Usd(dearest), "{provider:?} {base_url:?}");
    }
}

/// A model with prices for a cache.
fn keeping(provider: Provider, identifier: &str, base_url: Option<&str>) -> Model {
    let config = ModelConfig {
        cache_write_price: Some(Usd(125)),
        cache_write_1h_price: Some(Usd(200)),
        ..ModelConfig::default()
    };
    Model {
        id: ModelId(1),
        project: ProjectId(1),
        name: identifier.to_owned(),
        identifier: identifier.to_owned(),
        provider,
        base_url: base_url.map(str::to_owned),
        api_key: None,
        is_public: provider != Provider::Internal,
        input_price: Some(Usd(100)),
        output_price: Some(Usd(100)),
        data_retention_days: 30,
        region: "global".to_owned(),
        currency: "USD".to_owned(),
        config,
        created_at: Timestamp(0),
    }
}

/// The price at which the prompt's tokens are set aside.
fn dearest_input(model: &Model, prompt: &Prompt) -> Usd {
    CostBound::of(prompt, model, PricingBasis::Tokens).prices.unwrap().input
}

#[test]
fn the_price_of_an_hour_is_set_aside_only_where_it_can_be_charged() {
    let ours = Prompt {
        params: Map::from_iter([("cache_breakpoint".to_owned(), json!("1h"))]),
        ..Prompt::default()
    };
    let control = json!({"type": "ephemeral", "ttl": "1h"});
    let theirs = Prompt {
        params: Map::from_iter([("cache_control".to_owned(), control)]),
        ..Prompt::default()
    };
    let own = Some("https://models.example.com/v1");
    for (provider, name, base_url, of_ours, of_theirs) in [
        (Provider::Anthropic, "claude-sonnet-4-5", None, 200, 200),
        (Provider::Openai, "gpt-4o", None, 125, 125),
        (Provider::Openai, "gpt-4o", Some("https://api.openai.com/v1"), 125, 125),
        (Provider::Openai, "gpt-4o", own, 125, 200),
        (Provider::Internal, "claude-by-proxy", own, 125, 200),
        (Provider::Azure, "gpt-4o", Some("https://x.openai.azure.com"), 125, 125),
        (Provider::Gemini, "gemini-2.5-flash", None, 125, 125),
        (Provider::Bedrock, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", None, 200, 200),
        (Provider::Bedrock, "anthropic.claude-3-7-sonnet-20250219-v1:0", None, 125, 125),
        (Provider::Bedrock, "amazon.nova-pro-v1:0", None, 125, 125),
        (Provider::Bedrock, "meta.llama3-70b-instruct-v1:0", None, 125, 125),
    ] {
        let model = keeping(provider, name, base_url);
        assert_eq!(dearest_input(&model, &ours), Usd(of_ours), "{provider:?} {name}");
        assert_eq!(dearest_input(&model, &theirs), Usd(of_theirs), "{provider:?} {name}");
    }
}

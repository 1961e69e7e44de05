use domain::model::{ModelConfig, Provider};
use proptest::prelude::*;

use super::*;
use crate::testing;

/// A model with prices in USD per million tokens: input, cached input, output.
fn model(id: i64, [input, cached, output]: [f64; 3]) -> Model {
    let price = |dollars: f64| Usd::from_dollars(dollars / 1000.0);
    let config = ModelConfig { cached_input_price: price(cached), ..ModelConfig::default() };
    Model {
        provider: Provider::Anthropic,
        input_price: price(input),
        output_price: price(output),
        config,
        ..testing::model(id)
    }
}

const LARGE: i64 = 1;
const SMALL: i64 = 2;

fn large() -> Model {
    model(LARGE, [3.0, 0.3, 15.0])
}

fn small() -> Model {
    model(SMALL, [0.25, 0.025, 2.0])
}

fn warm(model: i64, tier: Tier, cached: u64) -> Warm {
    Warm { model: ModelId(model), tier, cached, completion: 300 }
}

fn chosen<'a>(tier: Tier, models: &[&'a Model]) -> Candidates<&'a Model> {
    Candidates { tier, models: models.to_vec() }
}

/// The tier and the models that are kept, or none, and the reason.
fn outcome(affinity: Affinity<&Model>) -> (Option<(Tier, Vec<i64>)>, String) {
    match affinity {
        Affinity::Kept(Candidates { tier, models }, reason) => {
            (Some((tier, models.iter().map(|model| model.id.0).collect())), reason)
        }
        Affinity::Left(reason) => (None, reason),
        Affinity::Free => (None, String::new()),
    }
}

/// The decision for a session with a prompt of 42,000 tokens: its warm model, the tier and the models that
/// are chosen, those of the tier `complex`, and one whose circuit is open.
fn decided(
    (model, tier, cached): (i64, Tier, u64),
    (chosen_tier, models): (Tier, &[&Model]),
    complex: &[&Model],
    down: Option<i64>,
) -> (Option<(Tier, Vec<i64>)>, String) {
    let is_down = |model: &Model| down == Some(model.id.0);
    let chosen = chosen(chosen_tier, models);
    outcome(affinity(&warm(model, tier, cached), 42_000, &chosen, complex, is_down))
}

#[test]
fn a_session_keeps_its_model() {
    use Tier::{Complex, Simple};
    let (l, s) = (&large(), &small());
    let (warm, kept) = ((LARGE, Complex, 41_000), "kept: 41,000 cached tokens, 0.11 USD");
    let both = Some((Complex, vec![LARGE, SMALL]));
    let one = Some((Complex, vec![LARGE]));
    let cheap = "kept: 1,000 cached tokens, 0.0027 USD";
    for (name, found, expected, reason) in [
        ("first of its tier", decided(warm, (Complex, &[l, s]), &[], None), &both, kept),
        ("a fallback of its tier", decided(warm, (Complex, &[s, l]), &[], None), &both, kept),
        ("down, worth more", decided(warm, (Simple, &[s]), &[l, s], None), &both, kept),
        (
            "up to the same model",
            decided((LARGE, Simple, 41_000), (Complex, &[l]), &[], None),
            &one,
            kept,
        ),
        (
            "the other's circuit is open",
            decided((LARGE, Complex, 1_000), (Simple, &[s]), &[l], Some(SMALL)),
            &one,
            cheap,
        ),
    ] {
        assert_eq!(found, (expected.clone(), reason.to_owned()), "{name}");
    }
}

#[test]
fn a_session_leaves_its_model() {
    use Tier::{Complex, Secure, Simple};
    let (l, s) = (&large(), &small());
    let warm = (LARGE, Complex, 41_000);
    for (name, found, reason) in [
        (
            "down, worth less",
            decided((LARGE, Complex, 1_000), (Simple, &[s]), &[l], None),
            "left: 1,000 cached tokens, 0.0027 USD; another model saves 0.12 USD",
        ),
        (
            "up at once",
            decided((SMALL, Simple, 41_000), (Complex, &[l, s]), &[], None),
            "left: 41,000 cached tokens, 0.0092 USD; a more capable model is needed",
        ),
        (
            "its circuit is open",
            decided(warm, (Complex, &[l, s]), &[], Some(LARGE)),
            "left: 41,000 cached tokens, 0.11 USD; m1 is not available",
        ),
        ("secure", decided(warm, (Secure, &[s]), &[l], None), ""),
        ("from secure", decided((LARGE, Secure, 41_000), (Simple, &[s]), &[l], None), ""),
        ("no longer there", decided((7, Complex, 41_000), (Simple, &[s]), &[l], None), ""),
        ("nothing cached", decided((LARGE, Complex, 0), (Simple, &[s]), &[l], None), ""),
    ] {
        assert_eq!(found, (None, reason.to_owned()), "{name}");
    }
}

#[test]
fn a_prefix_without_a_price_of_its_own_is_worth_nothing() {
    let free = Model { is_public: false, input_price: None, output_price: None, ..large() };
    let unknown = Model { input_price: None, ..large() };
    let flat = model(LARGE, [3.0, 3.0, 15.0]);
    for model in [&free, &unknown, &flat] {
        let given = chosen(Tier::Simple, &[model]);
        let found = affinity(&warm(LARGE, Tier::Simple, 41_000), 42_000, &given, &[], |_| false);
        assert!(matches!(found, Affinity::Free), "{found:?}");
    }
}

#[test]
fn a_model_without_a_price_saves_nothing() {
    let (large, unknown) = (large(), Model { input_price: None, ..small() });
    let given = chosen(Tier::Simple, &[&unknown]);
    let session = warm(LARGE, Tier::Complex, 1_000);
    let found = affinity(&session, 42_000, &given, &[&large], |_| false);
    assert!(matches!(found, Affinity::Kept(..)), "{found:?}");
}

#[test]
fn amounts_have_two_decimals_or_two_digits() {
    for (nanos, text) in [
        (110_700_000, "0.11"),
        (5_000_000_000, "5.00"),
        (1_234_567_000_000, "1234.57"),
        (10_000_000, "0.01"),
        (9_225_000, "0.0092"),
        (420_000, "0.00042"),
        (1, "0.000000001"),
    ] {
        assert_eq!(amount(Usd(nanos)), text);
    }
}

proptest! {
    /// Whatever the prices, no other model is reached than routing offers, and none is lost.
    #[test]
    fn what_is_kept_was_offered(
        prices in proptest::collection::vec([0.0..50.0, 0.0..50.0, 0.0..50.0f64], 1..6usize),
        split in 0..6usize, current in 0..8i64, cached in 0..200_000u64, tokens in 0..200_000u64,
        from in 0..3usize, to in 0..3usize, down in 0..8i64,
    ) {
        let models: Vec<Model> =
            prices.iter().zip(0..).map(|(prices, id)| model(id, *prices)).collect();
        let all: Vec<&Model> = models.iter().collect();
        let (ours, complex) = all.split_at(split.min(all.len()));
        let session = warm(current, Tier::ALL[from], cached);
        let given = chosen(Tier::ALL[to], ours);
        let found = affinity(&session, tokens, &given, complex, |model| model.id.0 == down);
        if let Affinity::Kept(Candidates { tier, models }, _) = found {
            prop_assert!(models[0].id.0 == current && current != down);
            prop_assert!(tier == given.tier || (given.tier, tier) == (Tier::Simple, Tier::Complex));
            let sorted = |models: &[&Model]| {
                let mut ids: Vec<i64> = models.iter().map(|model| model.id.0).collect();
                ids.sort_unstable();
                ids
            };
            let offered = if tier == given.tier { ours } else { complex };
            prop_assert_eq!(sorted(&models), sorted(offered));
        }
    }
}

use domain::model::ModelConfig;
use proptest::prelude::*;

use super::*;
use crate::testing;

fn model(number: i64, public: bool, fallback: Option<i64>, region: &str) -> Model {
    Model {
        is_public: public,
        input_price: Some(Usd(1_000_000)),
        output_price: Some(Usd(2_000_000)),
        region: region.into(),
        config: ModelConfig { fallback: fallback.map(|n| format!("m{n}")), ..Default::default() },
        ..testing::model(number)
    }
}

fn finder<'a>(models: &'a [Model]) -> impl Fn(&str) -> Option<&'a Model> {
    move |identifier| models.iter().find(|m| m.identifier == identifier)
}

fn route(tier: Tier, first: &str, models: &[Model]) -> Result<Vec<i64>, Unresolved> {
    let tiers = BTreeMap::from([(tier, first.to_owned())]);
    let eu = ["eu".to_owned()];
    resolve(tier, &tiers, finder(models), Some(&eu))
        .map(|models| models.iter().map(|m| m.id.0).collect())
}

#[test]
fn each_tier_tries_its_model_and_then_the_fallbacks() {
    let models = [
        model(1, true, Some(2), "global"),
        model(2, true, Some(3), "us"),
        model(3, false, Some(1), "eu"),
        model(4, true, None, "us"),
        model(5, true, None, "global"),
    ];
    let cases = [
        (Tier::Simple, "m1", Ok(vec![1, 3])),
        (Tier::Complex, "m2", Ok(vec![3, 1])),
        (Tier::Secure, "m1", Ok(vec![3])),
        (Tier::Secure, "m3", Ok(vec![3])),
        (Tier::Secure, "m5", Err(Unresolved::NoPrivateModel)),
        (Tier::Secure, "gone", Err(Unresolved::NoPrivateModel)),
        (Tier::Complex, "gone", Err(Unresolved::NoModelForTier(Tier::Complex))),
        (Tier::Simple, "m4", Err(Unresolved::NoModelInRegion(Tier::Simple))),
    ];
    for (tier, first, expected) in cases {
        assert_eq!(route(tier, first, &models), expected, "{tier} {first}");
    }
}

#[test]
fn an_unset_tier_takes_no_other_model() {
    let models = [model(1, false, None, "global")];
    let tiers = BTreeMap::from([(Tier::Simple, "m1".to_owned())]);
    let find = finder(&models);
    assert!(matches!(resolve(Tier::Secure, &tiers, &find, None), Err(Unresolved::NoPrivateModel)));
    let unset = resolve(Tier::Complex, &tiers, &find, None).map(|_| ()).unwrap_err();
    assert_eq!(
        unset.to_string(),
        "no model could be resolved for the `complex` tier: set routing tiers or fallbacks"
    );
    assert_eq!(
        Unresolved::NoPrivateModel.to_string(),
        "sensitive data detected but no private model registered for the secure tier"
    );
}

#[test]
fn a_cost_needs_a_price() {
    let priced = model(1, true, None, "global");
    assert_eq!(estimate_cost(&priced, 1000, 500), Some(Usd(2_000_000)));
    let unpriced = Model { input_price: None, ..priced.clone() };
    assert_eq!(estimate_cost(&unpriced, 1000, 500), None);
    let private = Model { is_public: false, ..unpriced };
    assert_eq!(estimate_cost(&private, 1000, 500), Some(Usd(1_000_000)));
}

/// Up to 12 models whose fallbacks point anywhere: at each other, at themselves, at nothing.
fn registry() -> impl Strategy<Value = Vec<Model>> {
    let one = (any::<bool>(), proptest::option::of(0..14i64), prop_oneof!["global", "eu", "us"]);
    proptest::collection::vec(one, 1..12).prop_map(|rows| {
        let numbered = rows.into_iter().enumerate();
        numbered.map(|(i, (public, next, region))| model(i as i64, public, next, &region)).collect()
    })
}

proptest! {
    #[test]
    fn chains_end_and_never_repeat(models in registry(), private_only: bool) {
        for first in &models {
            let found = chain(first, finder(&models), private_only, None);
            let mut ids: Vec<_> = found.iter().map(|m| m.id).collect();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), found.len());
            prop_assert!(found.len() <= MAX_CHAIN);
            prop_assert!(!private_only || found.iter().all(|m| m.is_private()));
        }
    }

    #[test]
    fn secure_never_yields_a_public_model(models in registry(), first in 0..14i64) {
        if let Ok(ids) = route(Tier::Secure, &format!("m{first}"), &models) {
            prop_assert!(!ids.is_empty());
            for id in ids {
                prop_assert!(models[id as usize].is_private());
            }
        }
    }

    #[test]
    fn no_tier_leaves_the_allowed_regions(models in registry(), first in 0..14i64) {
        if let Ok(ids) = route(Tier::Complex, &format!("m{first}"), &models) {
            prop_assert!(ids.iter().all(|&id| models[id as usize].region != "us"));
        }
    }
}

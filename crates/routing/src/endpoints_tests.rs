use std::sync::Arc;

use domain::ids::{ModelId, ProjectId};
use domain::model::{ModelConfig, Provider};
use domain::time::Timestamp;
use proptest::prelude::*;

use super::*;

/// A model with an endpoint for each weight and region.
fn model(endpoints: &[(f64, &str)]) -> Model {
    let mut model = Model {
        id: ModelId(1),
        project: ProjectId(1),
        name: "Model".into(),
        identifier: "m".into(),
        provider: Provider::Openai,
        base_url: None,
        api_key: None,
        is_public: true,
        input_price: None,
        output_price: None,
        data_retention_days: 30,
        region: "global".into(),
        currency: "USD".into(),
        config: ModelConfig::default(),
        created_at: Timestamp(0),
    };
    let place = |(index, (weight, region)): (usize, &(f64, &str))| Endpoint {
        index,
        weight: *weight,
        model: Arc::new(Model { region: (*region).into(), ..model.clone() }),
    };
    model.config.endpoints = endpoints.iter().enumerate().map(place).collect();
    model
}

fn order(model: &Model, seed: u64) -> Vec<usize> {
    endpoints(model, seed, None).iter().map(|endpoint| endpoint.index).collect()
}

/// The share of seeds for which each endpoint is the first that is not passed over, 0 to 1.
fn shares(model: &Model, passed_over: &[usize]) -> Vec<f64> {
    const SEEDS: u64 = 20_000;
    let mut counts = vec![0.0; model.config.endpoints.len()];
    for seed in 0..SEEDS {
        let order = order(model, seed);
        if let Some(first) = order.into_iter().find(|index| !passed_over.contains(index)) {
            counts[first] += 1.0 / SEEDS as f64;
        }
    }
    counts
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let near = found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 0.015);
    assert!(near, "{found:?} is not near {expected:?}");
}

#[test]
fn shares_follow_the_weights() {
    let uneven = model(&[(5.0, "eu"), (3.0, "eu"), (2.0, "eu")]);
    assert_near(&shares(&uneven, &[]), &[0.5, 0.3, 0.2]);
    assert_near(&shares(&uneven, &[0]), &[0.0, 0.6, 0.4]);
    assert_near(&shares(&uneven, &[1]), &[5.0 / 7.0, 0.0, 2.0 / 7.0]);
    assert_near(&shares(&uneven, &[0, 2]), &[0.0, 1.0, 0.0]);
    let equal = model(&[(0.25, "eu"); 4]);
    assert_near(&shares(&equal, &[]), &[0.25; 4]);
}

#[test]
fn no_weight_is_too_large_or_too_small() {
    let model = model(&[(f64::MAX, "eu"), (f64::MAX, "eu"), (5e-324, "eu"), (5e-324, "eu")]);
    assert_near(&shares(&model, &[]), &[0.5, 0.5, 0.0, 0.0]);
    assert_near(&shares(&model, &[0, 1]), &[0.0, 0.0, 0.5, 0.5]);
}

#[test]
fn regions_leave_endpoints_out() {
    let model = model(&[(1.0, "us"), (1.0, "eu"), (1.0, "global")]);
    let allowed = |regions: &[&str]| {
        let regions: Vec<String> = regions.iter().map(|&region| region.to_owned()).collect();
        let mut found: Vec<_> =
            endpoints(&model, 7, Some(&regions)).iter().map(|endpoint| endpoint.index).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(allowed(&["eu"]), [1, 2]);
    assert_eq!(allowed(&["eu", "us"]), [0, 1, 2]);
    assert_eq!(allowed(&[]), [2]);
}

proptest! {
    #[test]
    fn each_is_tried_once_and_the_others_keep_their_order(
        weights in proptest::collection::vec(1e-3..1e3, 1..32usize),
        seed: u64,
    ) {
        let given: Vec<_> = weights.iter().map(|&weight| (weight, "eu")).collect();
        let whole = order(&model(&given), seed);
        prop_assert_eq!(&whole, &order(&model(&given), seed));
        let mut sorted = whole.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..weights.len()).collect::<Vec<_>>());
        let mut shorter = given.clone();
        shorter.pop();
        let left: Vec<_> = whole.into_iter().filter(|&index| index < shorter.len()).collect();
        prop_assert_eq!(left, order(&model(&shorter), seed));
    }
}

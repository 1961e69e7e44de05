use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::testing;

/// A model with an endpoint for each weight and region.
fn model(endpoints: &[(f64, &str)]) -> Model {
    let mut model = testing::model(1);
    let place = |(index, (weight, region)): (usize, &(f64, &str))| Endpoint {
        index,
        weight: *weight,
        model: Arc::new(Model { region: (*region).into(), ..model.clone() }),
    };
    model.config.endpoints = endpoints.iter().enumerate().map(place).collect();
    model
}

fn order(model: &Model, seed: u64) -> Vec<usize> {
    endpoints(model, Order::Call(seed), None).iter().map(|endpoint| endpoint.index).collect()
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
        let mut found: Vec<_> = endpoints(&model, Order::Call(7), Some(&regions))
            .iter()
            .map(|endpoint| endpoint.index)
            .collect();
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

/// A model with an endpoint for each address and weight.
fn addressed(endpoints: &[(String, f64)]) -> Model {
    let mut model = model(&vec![(1.0, "eu"); endpoints.len()]);
    for (endpoint, (address, weight)) in model.config.endpoints.iter_mut().zip(endpoints) {
        endpoint.weight = *weight;
        let mut own = Model::clone(&endpoint.model);
        own.base_url = Some(address.clone());
        endpoint.model = Arc::new(own);
    }
    model
}

fn addresses(weights: &[f64]) -> Vec<(String, f64)> {
    let address = |index| format!("https://{index}.example/v1");
    weights.iter().enumerate().map(|(index, &weight)| (address(index), weight)).collect()
}

const SESSIONS: u128 = 10_000;

/// The address that each of many sessions, numbered from a start, comes to.
fn homes(model: &Model, start: u128) -> Vec<String> {
    let home = |number: u128| {
        let session = Order::Session((start.wrapping_add(number)).to_be_bytes());
        endpoints(model, session, None)[0].model.base_url.clone().unwrap()
    };
    (0..SESSIONS).map(home).collect()
}

#[test]
fn sessions_follow_the_weights() {
    for weights in [&[5.0, 3.0, 2.0][..], &[1.0; 8], &[0.5, 0.25, 0.25]] {
        let given = addresses(weights);
        let homes = homes(&addressed(&given), 7 << 64);
        let sum: f64 = weights.iter().sum();
        for (address, weight) in &given {
            let came = homes.iter().filter(|home| *home == address).count();
            let (share, expected) = (came as f64 / SESSIONS as f64, weight / sum);
            assert!((share - expected).abs() < 0.02, "{share} instead of {expected}");
        }
    }
}

#[test]
fn endpoints_at_one_address_share_its_sessions() {
    let same = vec![("https://a.example/v1".to_owned(), 1.0); 4];
    let model = addressed(&same);
    let mut counts = [0; 4];
    for number in 0..SESSIONS {
        let session = Order::Session(number.to_be_bytes());
        counts[endpoints(&model, session, None)[0].index] += 1;
    }
    assert!(counts.iter().all(|count| (2300..2700).contains(count)), "{counts:?}");
}

#[test]
fn a_session_ignores_endpoints_in_other_regions() {
    let model = model(&[(1.0, "us"), (1.0, "eu"), (1.0, "global")]);
    let regions = ["eu".to_owned()];
    for number in 0..100_u128 {
        let session = Order::Session(number.to_be_bytes());
        let found = endpoints(&model, session, Some(&regions));
        assert!(found.len() == 2 && found.iter().all(|one| one.index != 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn only_the_sessions_of_an_endpoint_that_goes_move(
        weights in proptest::collection::vec(1e-3..1e3, 2..9usize),
        gone: prop::sample::Index,
        start: u128,
    ) {
        let all = addresses(&weights);
        let mut left = all.clone();
        let (gone, _) = left.remove(gone.index(all.len()));
        // From right to left: one goes. From left to right: one comes, and moves only what it takes.
        let (before, after) = (homes(&addressed(&all), start), homes(&addressed(&left), start));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before == after || *before == gone);
        }
        // Nor does their order in the list count.
        let mut turned = all;
        turned.reverse();
        prop_assert_eq!(before, homes(&addressed(&turned), start));
    }
}

use domain::fees::{Factor, ToolCharge, VendorTool};

use super::*;

const SEARCH: Usd = Usd(10_000_000);

fn fees() -> FeePrices {
    let mut fees = FeePrices::default();
    fees.tools[VendorTool::WebSearch] = SEARCH;
    fees.factors[Surcharge::Fast] = Factor(600);
    fees
}

fn search(uses: u64) -> ToolCharge {
    ToolCharge {
        at: "tools[0]".to_owned(),
        tool: Some(VendorTool::WebSearch),
        uses: UseBound::Of(uses),
        tokens: Some(1_000),
    }
}

fn bounds(tools: Vec<ToolCharge>, window: Option<u64>) -> Vec<ChargeBound> {
    ChargeBound::all(&Charges { tools, ..Charges::default() }, &fees(), window)
}

#[test]
fn a_request_without_tools_of_the_vendor_reads_its_prompt_once() {
    let all = bounds(Vec::new(), Some(10));
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].uses, all[0].fees), (None, Usd::ZERO));
    assert_eq!(all[0].prompt(500, 4_096), 500, "a window that is too small lowers no bound");
}

#[test]
fn every_use_is_set_aside_with_its_results_and_the_passes_over_the_prompt() {
    let all = bounds(vec![search(3)], None);
    let used: Vec<_> = all.iter().map(|bound| (bound.uses, bound.fees.0 / SEARCH.0)).collect();
    assert_eq!(used, [(Some(u64::MAX), 3), (Some(2), 2), (Some(1), 1)]);
    // Four passes over the prompt; results of 3,000 tokens stand in three of them at most, and so
    // does the beginning of the answer.
    assert_eq!(all[0].prompt(500, 100), 4 * 500 + 3 * 3_000 + 3 * 100);
    assert_eq!(all[2].prompt(500, 100), 2 * 500 + 1_000 + 100);
    let within = bounds(vec![search(3)], Some(700));
    assert_eq!(within[0].prompt(500, 100), 4 * 700, "a model reads no more than its window");
}

#[test]
fn many_uses_are_many_fees_but_no_more_rounds() {
    let all = bounds(vec![search(1_000)], None);
    assert_eq!(all[0].fees, SEARCH.times(1_000));
    assert_eq!(all[0].passes, 11);
    assert_eq!(all[0].prompt(1, 0), 11 + 10 * 1_000_000);
    assert_eq!(bounds(vec![search(u64::MAX)], None)[0].prompt(1, 0), u64::MAX);
}

#[test]
fn searches_before_the_answer_are_fees_and_no_passes() {
    let all = bounds(vec![ToolCharge { uses: UseBound::OnePass(10), ..search(0) }], None);
    assert_eq!(all.len(), 1, "no bound can be lowered");
    assert_eq!(all[0].fees, SEARCH.times(10));
    assert_eq!(all[0].prompt(500, 100), 500);
}

#[test]
fn what_nothing_bounds_fills_the_window() {
    let endless = ToolCharge {
        uses: UseBound::Missing,
        tokens: None,
        tool: Some(VendorTool::CodeExecution),
        ..search(0)
    };
    let mut fees = fees();
    fees.tools[VendorTool::CodeExecution] = Usd(5);
    let charges = Charges { tools: vec![endless], ..Charges::default() };
    let all = ChargeBound::all(&charges, &fees, Some(200_000));
    assert_eq!(all.len(), 1, "no bound can be lowered");
    assert_eq!(all[0].fees, Usd(60), "an hour of a container");
    assert_eq!(all[0].prompt(10, 10), 11 * 200_000);
}

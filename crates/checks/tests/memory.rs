//! The memory of the tables and caches that judging needs.

use allocation_counter::measure;
use checks::{Part, Policy};
use domain::safety::{Origin, Safety};

/// Texts with everything that has tables of its own.
#[path = "../benches/cost/texts.rs"]
#[expect(dead_code, reason = "the benchmark uses the rest")]
mod texts;

/// The most bytes that a byte of any text takes while it is judged.
const MOST: f64 = 11.0;

fn judge(policy: &Policy, text: &str) {
    policy.inspect(&[Part { origin: Origin::User, text }]);
}

#[test]
fn tables_take_little_memory() {
    let kept = measure(|| {
        let policy = Policy::compile(&Safety::default()).unwrap();
        judge(&policy, texts::EVERYTHING);
        for number in 0..40 {
            judge(&policy, &texts::ordinary(10_000, number));
        }
        for family in texts::hostile() {
            judge(&policy, &(family.text)(10_000));
        }
    });
    // A process keeps 12 MiB for them and for routing, which takes less than one.
    assert!(kept.bytes_current < 11 << 20, "{} bytes", kept.bytes_current);
}

#[test]
fn a_thousand_patterns_do_not_allocate_each() {
    let policy = Policy::compile(&Safety::default()).unwrap();
    let texts: Vec<String> = (0..64).map(|number| texts::ordinary(2_000, number)).collect();
    for text in &texts {
        judge(&policy, text);
    }
    let most = texts.iter().map(|text| measure(|| judge(&policy, text)).count_total).max();
    assert!(most < Some(64), "{most:?} allocations");
}

/// The memory that a text takes while it is judged, in bytes for each of its bytes.
fn peak(policy: &Policy, text: &str) -> f64 {
    judge(policy, text);
    measure(|| judge(policy, text)).bytes_max as f64 / text.len() as f64
}

#[test]
fn hostile_texts_take_a_few_bytes_for_each_of_theirs() {
    let policy = Policy::compile(&Safety::default()).unwrap();
    let mut peaks: Vec<(f64, &str)> = texts::hostile()
        .iter()
        // Lists that grow are at their largest at some sizes only.
        .flat_map(|family| [200_000, 263_000].map(|size| (family, size)))
        .map(|(family, size)| (peak(&policy, &(family.text)(size)), family.name))
        .collect();
    peaks.sort_by(|a, b| b.0.total_cmp(&a.0));
    assert!(peaks[0].0 <= MOST, "{:.1?}", &peaks[..12]);
}

#[test]
fn codes_take_little_more_than_their_text() {
    let policy = Policy::compile(&Safety::default()).unwrap();
    let size = 500_000;
    let texts = [
        ("base64", "Tm90aGluZyB0byBiZSBzZWVuLiA".to_owned()),
        ("base64 in pieces", "Tm90aGluZyB0byBiZSBzZWVuLiA= ".to_owned()),
        ("escapes", "%4e%6f\\u0074&#104;".to_owned()),
        ("long pieces", "4e6f7468696e6720746f206265207365656e2e20".repeat(400) + "\n\n"),
    ];
    for (name, unit) in texts {
        let text = unit.repeat(size / unit.len());
        judge(&policy, &text);
        let most = measure(|| judge(&policy, &text)).bytes_max;
        assert!(most < 4 * size as u64, "{name}: {most} bytes for {}", text.len());
    }
}

//! Files read back, and compared with the steps that they were written from.

use domain::attributes::Attributes;
use domain::export::ExportFormat;
use domain::grade::Grade;
use domain::money::Usd;
use domain::shown_content::ShownContent;
use domain::step::Step;
use domain::time::DAY;
use domain::trace::TraceStatus;
use domain::usage::Usage;
use parquet::basic::{LogicalType, TimeUnit, Type};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::testing::{attributes, note, project, run};

/// The file of some steps, taken in as many parts as there are steps.
fn file(format: ExportFormat, steps: &[Step], content: Option<&[u8]>) -> Vec<u8> {
    let shown = content.map(|json| RecordedContent::Shown(ShownContent::read(json).unwrap()));
    file_with(format, steps, shown.unwrap_or(RecordedContent::Absent))
}

fn file_with(format: ExportFormat, steps: &[Step], content: RecordedContent<'_>) -> Vec<u8> {
    let mut exporter = Exporter::new(format).unwrap();
    exporter.begin_project(project()).unwrap();
    let mut bytes = Vec::new();
    for step in steps {
        let trace = TraceFacts { status: TraceStatus::Completed, grade: Some(Grade::B) };
        exporter.write(&Record { step, trace: Some(trace), content }).unwrap();
        bytes.extend(exporter.take().unwrap());
    }
    bytes.extend(exporter.finish().unwrap());
    bytes
}

fn rows(bytes: Vec<u8>) -> SerializedFileReader<bytes::Bytes> {
    SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap()
}

fn usage([prompt, cached, write, completion, reasoning]: [u64; 5]) -> Usage {
    let all =
        Usage { prompt, cached, cache_write: write, completion, reasoning, ..Usage::default() };
    all.reported().unwrap()
}

/// A row of CSV by its columns.
fn focus(steps: &[Step]) -> Vec<std::collections::HashMap<String, String>> {
    let bytes = file(ExportFormat::Focus, steps, None);
    let mut reader = csv::Reader::from_reader(&*bytes);
    reader.deserialize().map(std::result::Result::unwrap).collect()
}

/// A number with at most nine decimals, in units of the ninth.
fn nanos(decimal: &str) -> i64 {
    let (whole, rest) = decimal.split_once('.').unwrap();
    let digits = format!("{}{rest:0<9}", whole.trim_start_matches('-'));
    let nanos: i64 = digits.parse().unwrap();
    if whole.starts_with('-') { -nanos } else { nanos }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tokens = proptest::array::uniform5(0_u64..50_000);
    // Enough time for several days; parts that tokens do not explain on either side of nothing.
    let step = (0..3 * DAY, tokens, -40_i64..40, 0_u8..3);
    proptest::collection::vec(step, 0..60).prop_map(|mut drawn| {
        drawn.sort_by_key(|(after, ..)| *after);
        let numbered = drawn.into_iter().zip(1..);
        numbered
            .map(|((after, tokens, extra, kind), id)| match kind {
                0 => note(id, after),
                1 => run(id, after, usage(tokens), 0),
                _ => {
                    let attributes = attributes(&format!("user {}", id % 3), "support");
                    Step { attributes: Some(attributes), ..run(id, after, usage(tokens), extra) }
                }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn every_file_has_every_step_once_and_the_same_cost(steps in steps()) {
        let expected: Vec<(i64, Usd)> = steps.iter().map(|step| (step.id.0, step.cost())).collect();
        let total: Usd = expected.iter().map(|(_, cost)| *cost).sum();

        let lines = String::from_utf8(file(ExportFormat::Jsonl, &steps, None)).unwrap();
        let lines = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let cost = line.get("cost").map(|cost| serde_json::from_value(cost.clone()).unwrap());
            (line["id"].as_i64().unwrap(), cost.unwrap_or_default())
        });
        prop_assert_eq!(&lines.collect::<Vec<_>>(), &expected);

        let reader = rows(file(ExportFormat::Parquet, &steps, None));
        let read = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let index = |name: &str| {
                row.get_column_iter().position(|(known, _)| known == name).unwrap()
            };
            let cost = row.get_long(index("cost_nanousd")).unwrap_or_default();
            (row.get_long(index("id")).unwrap(), Usd(cost))
        });
        prop_assert_eq!(&read.collect::<Vec<_>>(), &expected);

        let charged = focus(&steps).iter().map(|row| Usd(nanos(&row["BilledCost"]))).sum::<Usd>();
        prop_assert_eq!(charged, total);
    }
}

#[test]
fn a_line_has_the_names_of_the_interface() {
    let step = Step {
        attributes: Some(attributes("ann", "support")),
        ..run(7, 0, usage([9, 1, 0, 3, 0]), 0)
    };
    let content = br#"{"input":"Hi [PII_EMAIL_1]","output":"Hello"}"#;
    let line = String::from_utf8(file(ExportFormat::Jsonl, &[step], Some(content))).unwrap();
    let expected = r#"{"id":7,"type":"run","project_id":1,"#.to_owned()
        + r#""trace_id":"00000000-0000-0000-0000-000000000007","trace_status":"completed","#
        + r#""optimization_grade":"B","key_id":"ak_0000000000000002","api_endpoint":"chat","#
        + r#""model":"gpt-4o","provider":"openai","infrastructure":"public_cloud","#
        + r#""input":"Hi [PII_EMAIL_1]","output":"Hello","status":"completed","latency_ms":1.5,"#
        + r#""cost":0.000034074,"prompt_tokens":9,"completion_tokens":3,"cached_tokens":1,"#
        + r#""user":"ann","tags":{"team":"support"},"#
        + r#""security":{"pii_detected":false,"injection_attempt":false,"secret_leaked":false,"#
        + r#""risk_score":0.0,"review":false},"#
        + r#""started_at":"2026-11-19T23:59:59.998Z","created_at":"2026-11-20T00:00:00.000Z"}"#;
    assert_eq!(line, expected + "\n");
}

#[test]
fn parquet_has_the_types_of_its_values_and_bounded_row_groups() {
    let steps: Vec<Step> = (1..=3).map(|id| run(id, id, usage([9, 1, 0, 3, 0]), 0)).collect();
    // Two contents fill a row group.
    let long = format!(r#"{{"input":"{}"}}"#, "x".repeat(5 * 1024 * 1024));
    let reader = rows(file(ExportFormat::Parquet, &steps, Some(long.as_bytes())));
    assert_eq!(reader.num_row_groups(), 2);
    let schema = reader.metadata().file_metadata().schema_descr();
    let logical = |name: &str| {
        let column = schema.columns().iter().find(|column| column.name() == name).unwrap();
        (column.physical_type(), column.logical_type_ref().cloned())
    };
    let time = LogicalType::timestamp(true, TimeUnit::MICROS);
    assert_eq!(logical("created_at"), (Type::INT64, Some(time)));
    assert_eq!(logical("cost_nanousd"), (Type::INT64, None));
    assert_eq!(logical("model"), (Type::BYTE_ARRAY, Some(LogicalType::String)));
    let first = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let index = first.get_column_iter().position(|(name, _)| name == "key_id").unwrap();
    assert_eq!(first.get_string(index).unwrap(), "ak_0000000000000002");
}

#[test]
fn a_content_that_is_missing_is_marked() {
    let step = run(7, 0, usage([9, 1, 0, 3, 0]), 0);
    for (fault, word) in
        [(ContentFault::Unreadable, "unreadable"), (ContentFault::NoMemory, "no_memory")]
    {
        let missing = RecordedContent::Missing(fault);
        let line = file_with(ExportFormat::Jsonl, std::slice::from_ref(&step), missing);
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&line["content_error"], line.get("input")), (&word.into(), None));
        let parquet = file_with(ExportFormat::Parquet, std::slice::from_ref(&step), missing);
        let row = rows(parquet).get_row_iter(None).unwrap().next().unwrap().unwrap();
        let index = |name| row.get_column_iter().position(|(known, _)| known == name).unwrap();
        assert_eq!(row.get_string(index("content_error")).unwrap(), word);
    }
}

#[test]
fn a_step_that_cannot_be_read_is_marked_in_its_place() {
    let at = note(8, 1);
    let damaged = DamagedStep { id: at.id, project: at.project, finished_at: at.finished_at };
    let file = |format| {
        let mut exporter = Exporter::new(format).unwrap();
        exporter.begin_project(project()).unwrap();
        let content = RecordedContent::Absent;
        let (before, after) = (note(7, 0), note(9, 2));
        exporter.write(&Record { step: &before, trace: None, content }).unwrap();
        exporter.write_damaged(&damaged).unwrap();
        exporter.write(&Record { step: &after, trace: None, content }).unwrap();
        exporter.finish().unwrap()
    };
    let lines = String::from_utf8(file(ExportFormat::Jsonl)).unwrap();
    let line: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let expected = serde_json::json!({
        "id": 8, "project_id": 1, "step_error": "unreadable", "created_at": at.finished_at,
    });
    assert_eq!(line, expected);
    assert_eq!(lines.lines().count(), 3);
    let read = rows(file(ExportFormat::Parquet));
    let errors: Vec<_> = read
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            let text = |wanted: &str| {
                let mut columns = row.get_column_iter();
                columns.find(|(name, _)| *name == wanted).unwrap().1.to_string()
            };
            (text("id"), text("step_error"), text("status"))
        })
        .collect();
    let whole = |id: &str| (id.to_owned(), "null".to_owned(), "\"completed\"".to_owned());
    let marked = ("8".to_owned(), "\"unreadable\"".to_owned(), "null".to_owned());
    assert_eq!(errors, [whole("7"), marked, whole("9")]);
    // Costs without it would be too low.
    let mut costs = Exporter::new(ExportFormat::Focus).unwrap();
    costs.begin_project(project()).unwrap();
    assert!(matches!(costs.write_damaged(&damaged), Err(Error::UnknownCost(StepId(8)))));
}

/// Contents are charged to the memory of requests by whoever has them written; rows are not.
#[test]
fn files_keep_little_memory_however_many_steps_there_are() {
    const MIB: u64 = 1024 * 1024;
    for (format, most) in [(ExportFormat::Parquet, 16 * MIB), (ExportFormat::Focus, 56 * MIB)] {
        for tags in [0, 8] {
            let taken = allocation_counter::measure(|| {
                let mut exporter = Exporter::new(format).unwrap();
                exporter.begin_project(project()).unwrap();
                for id in 1..=60_000 {
                    let mut attributes = Attributes::clone(&attributes(&id.to_string(), "red"));
                    attributes.tags = (0..tags).map(|n| (n.to_string(), id.to_string())).collect();
                    let run = run(id, id, usage([9, 0, 0, 3, 0]), 0);
                    let step = Step { attributes: Some(attributes.into()), ..run };
                    let content = RecordedContent::Absent;
                    exporter.write(&Record { step: &step, trace: None, content }).unwrap();
                    drop(exporter.take().unwrap());
                }
                drop(exporter.finish().unwrap());
            });
            assert!(taken.bytes_max < most, "{format:?} with {tags} tags: {}", taken.bytes_max);
        }
    }
}

#[test]
fn charges_are_bounded_by_their_bytes() {
    // Each with as much text as a step can have.
    let steps = (1..=6_000).map(|id| {
        let mut attributes = Attributes::clone(&attributes(&format!("{id:0>128}"), "support"));
        let tag = |number| (format!("{number:🙂>64}"), "🙂".repeat(128));
        attributes.tags = (0..8).map(tag).collect();
        Step { attributes: Some(attributes.into()), ..run(id, id, usage([9, 0, 0, 0, 0]), 0) }
    });
    let mut exporter = Exporter::new(ExportFormat::Focus).unwrap();
    exporter.begin_project(project()).unwrap();
    let (mut bytes, mut early, mut total) = (exporter.take().unwrap(), 0, Usd::ZERO);
    for step in steps {
        total += step.cost();
        exporter
            .write(&Record { step: &step, trace: None, content: RecordedContent::Absent })
            .unwrap();
        let taken = exporter.take().unwrap();
        early += taken.len();
        bytes.extend(taken);
    }
    // At least one part of 36 MB of texts is written before the day ends; a row repeats none of its tags.
    assert!(early > 15_000_000, "{early}");
    bytes.extend(exporter.finish().unwrap());
    let costs = charges(&bytes, b',').map(|row| Usd(nanos(&row[0])));
    assert_eq!(costs.sum::<Usd>(), total);
}

#[test]
fn a_day_of_many_users_has_a_row_for_each_charge() {
    let mut exporter = Exporter::new(ExportFormat::Focus).unwrap();
    exporter.begin_project(project()).unwrap();
    for id in 1..=30_000 {
        let user = format!("user-{}", id * 7_919 % 10_000);
        let attributes = Attributes { user: Some(user), ..Attributes::default() };
        let run = run(id, 1, usage([9, 0, 0, 3, 0]), 0);
        let step = Step { attributes: Some(attributes.into()), ..run };
        let content = RecordedContent::Absent;
        exporter.write(&Record { step: &step, trace: None, content }).unwrap();
    }
    let rows = charges(&exporter.finish().unwrap(), b',').count();
    // Two kinds of tokens of each user.
    assert_eq!(rows, 20_000);
}

/// The rows of charges as a program reads them that takes a separator.
fn charges(file: &[u8], separator: u8) -> impl Iterator<Item = Vec<String>> {
    let reader = csv::ReaderBuilder::new().delimiter(separator).flexible(true).from_reader(file);
    reader.into_records().map(|row| row.unwrap().iter().map(str::to_owned).collect())
}

/// A text of parts that mean something to a program that reads CSV.
fn hostile() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "=", "+", "-", "@", "＝", ";", ",", "\"", "'", "\t", "\n", "\r", " ", "x", "\\",
    ]);
    proptest::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_of_a_user_begins_a_formula(name in hostile(), model in hostile(), user in hostile()) {
        let mut facts = project();
        facts.name.clone_from(&name);
        facts.keys.insert(KeyId(2), name.clone());
        let mut step =
            Step { attributes: Some(attributes(&user, &user)), ..run(3, 0, usage([9, 0, 0, 0, 0]), 0) };
        let call = step.call.as_mut().unwrap();
        (call.model, call.infrastructure) = (model.clone(), user.clone());
        let mut exporter = Exporter::new(ExportFormat::Focus).unwrap();
        exporter.begin_project(facts).unwrap();
        exporter.write(&Record { step: &step, trace: None, content: RecordedContent::Absent }).unwrap();
        let bytes = exporter.finish().unwrap();

        // By commas each text is in its cell.
        let mut reader = csv::Reader::from_reader(&*bytes);
        let row: HashMap<String, String> = reader.deserialize().next().unwrap().unwrap();
        let without = |text: &str| text.replace('\'', "");
        for (column, text) in [
            ("SubAccountName", &name),
            ("ResourceName", &name),
            ("SkuId", &model),
            ("x_Infrastructure", &user),
            ("x_User", &user),
        ] {
            prop_assert_eq!(without(&row[column]), without(text), "{}", column);
        }
        let tags: Value = serde_json::from_str(&row["Tags"]).unwrap();
        prop_assert_eq!(&tags, &serde_json::json!({"team": user}));

        for separator in [b',', b';', b'\t'] {
            for cell in charges(&bytes, separator).flatten() {
                let begin = cell.trim_start_matches(|c: char| c == '"' || c.is_whitespace());
                prop_assert!(!begin.starts_with(['=', '+', '-', '@', '＝']), "{:?}", cell);
            }
        }
    }
}

/// The columns of FOCUS 1.2 that a data set must have: feature level "Mandatory".
const MANDATORY: [&str; 21] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
];
/// Those among them that may be null.
const NULLABLE: [&str; 2] = ["BillingAccountName", "ChargeClass"];

#[test]
fn costs_have_the_columns_of_focus() {
    let step = Step {
        attributes: Some(attributes("=2+3", "R&D")),
        ..run(3, 0, usage([1500, 500, 0, 40, 15]), 7)
    };
    let next_day = run(4, DAY, usage([10, 0, 0, 0, 0]), 0);
    let rows = focus(&[step.clone(), step.clone(), note(5, 1), next_day]);
    for row in &rows {
        for column in MANDATORY {
            let value = row.get(column).unwrap_or_else(|| panic!("{column} is missing"));
            assert_eq!(value.is_empty(), NULLABLE.contains(&column), "{column}");
        }
    }
    let shown: Vec<_> = rows
        .iter()
        .map(|row| {
            let columns =
                ["ChargePeriodStart", "SkuMeter", "ConsumedQuantity", "ConsumedUnit", "BilledCost"];
            columns.map(|column| row[column].as_str()).join(" ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "2026-11-20T00:00:00Z Input Tokens 2000 Tokens 0.002469134",
            "2026-11-20T00:00:00Z Cached Input Tokens 1000 Tokens 0.001234566",
            "2026-11-20T00:00:00Z Output Tokens 50 Tokens 0.000382718",
            "2026-11-20T00:00:00Z Reasoning Tokens 30 Tokens 0.000229628",
            "2026-11-20T00:00:00Z Other Charges 2 Requests 0.000000014",
            "2026-11-21T00:00:00Z Input Tokens 10 Tokens 0.000012346",
        ]
    );
    let row = &rows[0];
    for (column, value) in [
        ("ChargePeriodEnd", "2026-11-21T00:00:00Z"),
        ("BillingPeriodStart", "2026-11-01T00:00:00Z"),
        ("BillingPeriodEnd", "2026-12-01T00:00:00Z"),
        ("BillingAccountId", "3"),
        ("BillingAccountName", ""),
        ("SubAccountId", "1"),
        ("SubAccountName", "Support"),
        ("ResourceId", "ak_0000000000000002"),
        ("ResourceName", "web"),
        ("SkuId", "gpt-4o"),
        ("ProviderName", "OpenAI"),
        ("Tags", r#"{"team":"R&D"}"#),
        ("x_User", "'=2+3"),
    ] {
        assert_eq!(row[column], value, "{column}");
    }
    // The name of the other key begins like a formula.
    assert_eq!(rows[5]["ResourceName"], "'=cmd()");
}

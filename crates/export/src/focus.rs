//! Costs for chargeback as CSV, in the columns of FOCUS 1.2 (`FinOps` Open Cost and Usage Specification).
//!
//! A row is the charge for one kind of token, of one key, model, user and set of tags, in one day. The
//! parts of a cost that tokens do not explain (tools of the vendor, images, attempts that broke off) are
//! rows in requests. So the rows add up to the costs of the steps, to the nano-dollar.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::ids::KeyId;
use domain::model::Provider;
use domain::money::Usd;
use domain::step::{Call, Step};
use domain::time::{DAY, Timestamp};
use domain::usage::TokenKind;

use crate::{ProjectFacts, Result, cell};

/// The most bytes of memory that the charges of a day take until its end. If there are more, all are written
/// and begin anew: a day has several rows for most of them, so that a lower bound makes far larger files.
/// Its rows take twice as much when they are written.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The memory of a charge beside its texts: nodes of a tree are half full when it is filled in order.
const CHARGE_BYTES: usize = 2 * (size_of::<Charge>() + size_of::<Sums>());
/// The memory of a text beside its characters, which is what allocating it costs.
const TEXT_BYTES: usize = 16;
/// The memory of tags beside their texts: they are a tree of one node, with room for eleven.
const TAGS_BYTES: usize = 11 * 2 * size_of::<String>() + TEXT_BYTES;

/// What a row charges for, within its day.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Charge {
    key: Option<KeyId>,
    model: String,
    provider: Provider,
    infrastructure: String,
    user: Option<String>,
    tags: BTreeMap<String, String>,
    meter: Meter,
}

impl Charge {
    /// The memory that it takes.
    fn bytes(&self) -> usize {
        let Self { model, infrastructure, user, tags, .. } = self;
        let texts = [model, infrastructure].into_iter().chain(user);
        let texts = texts.chain(tags.iter().flat_map(|(name, value)| [name, value]));
        let texts: usize = texts.map(|text| TEXT_BYTES + text.len()).sum();
        CHARGE_BYTES + texts + if tags.is_empty() { 0 } else { TAGS_BYTES }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meter {
    Tokens(TokenKind),
    /// Requests that cost something beside their tokens.
    Requests,
}

impl Meter {
    fn name(self) -> &'static str {
        match self {
            Self::Tokens(TokenKind::Prompt) => "Input Tokens",
            Self::Tokens(TokenKind::Cached) => "Cached Input Tokens",
            Self::Tokens(TokenKind::CacheWrite) => "Cache Write Tokens",
            Self::Tokens(TokenKind::Completion) => "Output Tokens",
            Self::Tokens(TokenKind::Reasoning) => "Reasoning Tokens",
            Self::Requests => "Other Charges",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Tokens(_) => "Tokens",
            Self::Requests => "Requests",
        }
    }
}

/// The sums of a charge.
#[derive(Debug, Default)]
struct Sums {
    quantity: u64,
    cost: Usd,
}

/// A row as it is written.
struct Row<'a> {
    project: &'a ProjectFacts,
    /// The first moment of its day.
    day: Timestamp,
    charge: &'a Charge,
    sums: &'a Sums,
}

/// The value of a column; empty for null.
type Value = for<'a> fn(&Row<'a>) -> Cow<'a, str>;

/// The columns and their values. All that are mandatory in FOCUS 1.2 are there, and of the others those
/// that a gateway knows. The last two are our own.
const COLUMNS: &[(&str, Value)] = &[
    ("BilledCost", |row| cost(row)),
    ("BillingAccountId", |row| row.project.org.to_string().into()),
    ("BillingAccountName", |_| "".into()),
    ("BillingAccountType", |_| "Organization".into()),
    ("BillingCurrency", |_| "USD".into()),
    ("BillingPeriodEnd", |row| moment(row.day.next_month_start())),
    ("BillingPeriodStart", |row| moment(row.day.month_start())),
    ("ChargeCategory", |_| "Usage".into()),
    ("ChargeClass", |_| "".into()),
    ("ChargeDescription", |row| {
        let described = format!("{} of {}", row.charge.meter.name(), row.charge.model);
        cell::text(&described).into_owned().into()
    }),
    ("ChargeFrequency", |_| "Usage-Based".into()),
    ("ChargePeriodEnd", |row| moment(Timestamp(row.day.0.saturating_add(DAY)))),
    ("ChargePeriodStart", |row| moment(row.day)),
    ("ConsumedQuantity", |row| row.sums.quantity.to_string().into()),
    ("ConsumedUnit", |row| row.charge.meter.unit().into()),
    ("ContractedCost", |row| cost(row)),
    ("EffectiveCost", |row| cost(row)),
    ("InvoiceIssuerName", |row| provider(row)),
    ("ListCost", |row| cost(row)),
    ("PricingQuantity", |row| row.sums.quantity.to_string().into()),
    ("PricingUnit", |row| row.charge.meter.unit().into()),
    ("ProviderName", |row| provider(row)),
    ("PublisherName", |row| provider(row)),
    ("ResourceId", |row| row.charge.key.map(|key| key.to_string()).unwrap_or_default().into()),
    ("ResourceName", |row| {
        let name = row.charge.key.and_then(|key| row.project.keys.get(&key));
        name.map(|name| cell::text(name)).unwrap_or_default()
    }),
    ("ResourceType", |row| row.charge.key.map_or("", |_| "API Key").into()),
    ("ServiceCategory", |_| "AI and Machine Learning".into()),
    ("ServiceName", |row| format!("{} API", provider(row)).into()),
    ("ServiceSubcategory", |_| "Generative AI".into()),
    ("SkuId", |row| cell::text(&row.charge.model)),
    ("SkuMeter", |row| row.charge.meter.name().into()),
    ("SubAccountId", |row| row.project.id.to_string().into()),
    ("SubAccountName", |row| cell::text(&row.project.name)),
    ("SubAccountType", |_| "Project".into()),
    // An object begins with a brace, which begins no formula.
    ("Tags", |row| cell::json(&serde_json::json!(row.charge.tags).to_string()).into()),
    ("x_Infrastructure", |row| cell::text(&row.charge.infrastructure)),
    ("x_User", |row| row.charge.user.as_deref().map(cell::text).unwrap_or_default()),
];

fn cost<'a>(row: &Row<'a>) -> Cow<'a, str> {
    row.sums.cost.to_string().replacen('$', "", 1).into()
}

/// The name of the vendor in whose format the model is called.
fn provider<'a>(row: &Row<'a>) -> Cow<'a, str> {
    match row.charge.provider {
        Provider::Openai => "OpenAI",
        Provider::Anthropic => "Anthropic",
        Provider::Gemini => "Google",
        Provider::Bedrock => "AWS",
        Provider::Azure => "Microsoft",
        Provider::Internal => "Internal",
    }
    .into()
}

/// A whole second in the format of FOCUS.
fn moment<'a>(at: Timestamp) -> Cow<'a, str> {
    at.to_string().replace(".000Z", "Z").into()
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct FocusFile {
    rows: csv::Writer<Vec<u8>>,
    project: Option<ProjectFacts>,
    /// The day of the charges, as whole days since 1970.
    day: i64,
    charges: BTreeMap<Charge, Sums>,
    /// The memory that they take.
    bytes: usize,
}

impl FocusFile {
    pub(crate) fn new() -> Result<Self> {
        let mut rows = csv::Writer::from_writer(Vec::new());
        rows.write_record(COLUMNS.iter().map(|(name, _)| name))?;
        Ok(Self { rows, project: None, day: 0, charges: BTreeMap::new(), bytes: 0 })
    }

    pub(crate) fn begin_project(&mut self, project: ProjectFacts) -> Result<()> {
        self.end_day()?;
        self.project = Some(project);
        Ok(())
    }

    pub(crate) fn write(&mut self, step: &Step) -> Result<()> {
        let Some(call) = &step.call else { return Ok(()) };
        let day = step.finished_at.0.div_euclid(DAY);
        if day != self.day || self.bytes >= MOST_BYTES {
            self.end_day()?;
            self.day = day;
        }
        for (meter, quantity, cost) in metered(call) {
            let attributes = step.attributes.as_deref();
            let charge = Charge {
                key: step.key,
                model: call.model.clone(),
                provider: call.provider,
                infrastructure: call.infrastructure.clone(),
                user: attributes.and_then(|attributes| attributes.user.clone()),
                tags: attributes.map(|attributes| attributes.tags.clone()).unwrap_or_default(),
                meter,
            };
            let bytes = charge.bytes();
            let sums = self.charges.entry(charge).or_insert_with(|| {
                self.bytes += bytes;
                Sums::default()
            });
            sums.quantity = sums.quantity.saturating_add(quantity);
            sums.cost += cost;
        }
        Ok(())
    }

    /// Writes the charges of the day.
    fn end_day(&mut self) -> Result<()> {
        let charges = std::mem::take(&mut self.charges);
        self.bytes = 0;
        let Some(project) = &self.project else { return Ok(()) };
        // Each is given back when its row is written.
        for (charge, sums) in charges {
            let (charge, sums) = (&charge, &sums);
            let row = Row { project, day: Timestamp(self.day * DAY), charge, sums };
            self.rows.write_record(COLUMNS.iter().map(|(_, value)| value(&row).into_owned()))?;
        }
        Ok(())
    }

    pub(crate) fn ready(&self) -> usize {
        self.rows.get_ref().len()
    }

    pub(crate) fn take(&mut self) -> Result<Vec<u8>> {
        // The library's writer gives its buffer away with itself.
        let rows = std::mem::replace(&mut self.rows, csv::Writer::from_writer(Vec::new()));
        Ok(rows.into_inner().map_err(csv::IntoInnerError::into_error)?)
    }

    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.end_day()?;
        self.take()
    }
}

/// What a call is charged for. The costs add up to that of the call.
fn metered(call: &Call) -> Vec<(Meter, u64, Usd)> {
    let tokens = call.usage.by_kind();
    let costs = call.prices.map(|prices| prices.cost_by_kind(&call.usage).map(|(_, cost)| cost));
    // A call that is paid by the image may have prices for tokens that it does not pay.
    let costs = costs.filter(|costs| costs.iter().copied().sum::<Usd>() <= call.cost);
    let costs = costs.unwrap_or_default();
    let mut metered: Vec<_> = tokens
        .into_iter()
        .zip(costs)
        .filter(|((_, tokens), _)| *tokens > 0)
        .map(|((kind, tokens), cost)| (Meter::Tokens(kind), tokens, cost))
        .collect();
    let rest = call.cost - costs.into_iter().sum();
    if rest != Usd::ZERO {
        metered.push((Meter::Requests, 1, rest));
    }
    metered
}

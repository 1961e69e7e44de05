//! The query of a list of traces: its page, its order and its filters.

use std::ops::Range;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::attributes::{AttributeName, LONGEST_VALUE, is_value};
use domain::grade::Grade;
use domain::ids::TraceId;
use domain::money::Usd;
use domain::time::{DAY, Timestamp};
use domain::trace::TraceStatus;
use form_urlencoded::{byte_serialize, parse};
use gateway::{Error, Order, Term, TraceQuery};
use utoipa::IntoParams;

use crate::app::App;
use crate::http::error::Failure;

const DEFAULT_PER_PAGE: i64 = 50;
const MOST_PER_PAGE: i64 = 100;
/// The most filters of one kind.
const MOST_FILTERS: usize = 8;
/// The longest identifier of a model, in bytes.
const LONGEST_MODEL: usize = 256;
/// The most characters of a value that a fault shows.
const LONGEST_SHOWN: usize = 40;

/// The page of traces and their filters, all of which a trace has to fit.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the description of the query, which is read by hand")]
pub struct ListParams {
    /// From 1 on.
    #[param(minimum = 1)]
    page: Option<i64>,
    /// At most 100; more is read as 100.
    #[param(minimum = 1)]
    per_page: Option<i64>,
    /// `newest` (the default) or `oldest` first.
    order: Option<String>,
    /// With `newest`: only traces older than this one. Cheaper than a high page.
    before: Option<String>,
    /// With `oldest`: only traces newer than this one. Cheaper than a high page.
    after: Option<String>,
    /// `pending`, `completed`, `replay` or `failed`.
    status: Option<String>,
    /// An ISO date or time: opened then or later.
    from: Option<String>,
    /// An ISO date, which counts as a whole day, or the time before which it was opened.
    to: Option<String>,
    /// The overall grade, `A` to `F`.
    grade: Option<String>,
    /// A model that was called, shadow calls apart.
    model: Option<String>,
    /// The id of the key that opened it.
    key: Option<String>,
    /// A user of the trace or of one of its steps.
    user: Option<String>,
    /// A session of the trace or of one of its steps.
    session: Option<String>,
    /// `tag[NAME]=VALUE`: a tag of the trace or of one of its steps; up to 8.
    #[param(style = DeepObject, explode, value_type = Option<Object>)]
    tag: Option<()>,
    /// `metadata[NAME]=VALUE`: a member of its metadata that is a text, a number or a truth value; up to 8.
    #[param(style = DeepObject, explode, value_type = Option<Object>)]
    metadata: Option<()>,
    /// USD.
    #[param(minimum = 0)]
    min_cost: Option<f64>,
    /// Milliseconds from its opening to its last step.
    #[param(minimum = 0)]
    min_latency_ms: Option<f64>,
    /// `pii`, `injection` or `secret`; several are separated by commas.
    finding: Option<String>,
    /// `true`: one of its steps has failed; `false`: none has.
    has_error: Option<bool>,
}

/// The query of a list.
#[derive(Debug)]
pub struct ListQuery {
    /// The page that is asked for.
    pub asked: TraceQuery,
    /// Its number, from 1 on.
    pub number: i64,
    /// The rest of the query without the place of the page, for links to other pages.
    pub rest: String,
}

impl FromRequestParts<App> for ListQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        Ok(read(parts.uri.query().unwrap_or_default())?)
    }
}

/// Reads a query.
pub(crate) fn read(query: &str) -> Result<ListQuery, Error> {
    let mut asked = TraceQuery { limit: DEFAULT_PER_PAGE, ..TraceQuery::default() };
    let (mut number, mut before, mut after, mut rest) = (1, None, None, String::new());
    for (name, value) in parse(query.as_bytes()) {
        let mut is_filter = false;
        match &*name {
            "page" => number = whole(&value, "page")?,
            "per_page" => asked.limit = per_page(&value)?,
            "before" => before = Some(trace(&value, "before")?),
            "after" => after = Some(trace(&value, "after")?),
            _ => is_filter = filter(&mut asked, &name, &value)?,
        }
        if is_filter {
            rest.push('&');
            rest.extend(byte_serialize(name.as_bytes()));
            rest.push('=');
            rest.extend(byte_serialize(value.as_bytes()));
        }
    }
    asked.beyond = match (asked.order, before, after) {
        (Order::Newest, before, None) => before,
        (Order::Oldest, None, after) => after,
        _ => {
            let rule = "before is for order=newest, and after for order=oldest";
            return Err(Error::Malformed(rule.to_owned()));
        }
    };
    asked.offset = (number - 1).saturating_mul(asked.limit);
    Ok(ListQuery { asked, number, rest })
}

/// Reads a filter, or the order, and returns whether it is one. Unknown names are passed over.
fn filter(asked: &mut TraceQuery, name: &str, value: &str) -> Result<bool, Error> {
    match name {
        "order" => {
            let orders = [("newest", Order::Newest), ("oldest", Order::Oldest)];
            asked.order = word(name, value, &orders)?;
        }
        "status" => asked.status = Some(status(value)?),
        "from" => asked.from = Some(time(name, value)?.start),
        "to" => asked.to = Some(time(name, value)?.end),
        "grade" => {
            let grades = Grade::ALL.iter().map(|grade| (grade.as_str(), *grade));
            asked.grade = Some(word(name, value, &grades.collect::<Vec<_>>())?);
        }
        "model" => {
            let is_name = (1..=LONGEST_MODEL).contains(&value.len());
            if !is_name || value.contains(char::is_control) {
                return Err(Error::invalid(format!(
                    "model must have 1 to {LONGEST_MODEL} bytes, and no control characters"
                )));
            }
            asked.model = Some(value.to_owned());
        }
        "key" => {
            let key = value.parse().map_err(|error| Error::invalid(format!("key: {error}")))?;
            asked.key = Some(key);
        }
        "user" | "session" => {
            let attribute = AttributeName::parse(name);
            let value = text(name, value, is_value(value))?;
            let same = |(known, _): &&(AttributeName, String)| Some(known) == attribute.as_ref();
            bounded(asked.attributes.iter().filter(same).count() + 1, name)?;
            asked.attributes.extend(attribute.map(|attribute| (attribute, value)));
        }
        "min_cost" => asked.min_cost = Some(cost(value)?),
        "min_latency_ms" => asked.min_latency = Some(latency(value)?),
        "finding" => {
            let words = [
                ("pii", Term::pii as fn() -> Term),
                ("injection", Term::injection),
                ("secret", Term::secret),
            ];
            for finding in value.split(',') {
                let finding = word(name, finding.trim(), &words)?();
                if !asked.findings.contains(&finding) {
                    asked.findings.push(finding);
                }
            }
            bounded(asked.findings.len(), name)?;
        }
        "has_error" => {
            asked.has_error = Some(word(name, value, &[("true", true), ("false", false)])?);
        }
        _ => return member(asked, name, value),
    }
    Ok(true)
}

/// Reads a filter by a tag or a member of the metadata, as `tag[NAME]`.
fn member(asked: &mut TraceQuery, name: &str, value: &str) -> Result<bool, Error> {
    let Some((kind, member)) = name.split_once('[') else { return Ok(false) };
    let Some(member) = member.strip_suffix(']') else { return Ok(false) };
    match kind {
        "tag" => {
            let tag = AttributeName::parse(&format!("tag:{member}"));
            let tag = tag.ok_or_else(|| Error::invalid(format!("{} names no tag", shown(name))))?;
            asked.attributes.push((tag, text(name, value, is_value(value))?));
            let is_tag =
                |(name, _): &&(AttributeName, String)| matches!(name, AttributeName::Tag(_));
            bounded(asked.attributes.iter().filter(is_tag).count(), "tag")?;
        }
        "metadata" => {
            if Term::metadata(member, value).is_none() {
                return Err(Error::invalid(format!("{} {}", shown(name), limits())));
            }
            asked.metadata.push((member.to_owned(), value.to_owned()));
            bounded(asked.metadata.len(), "metadata")?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn bounded(count: usize, name: &str) -> Result<(), Error> {
    if count <= MOST_FILTERS {
        return Ok(());
    }
    Err(Error::invalid(format!("{name} is given more than {MOST_FILTERS} times")))
}

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

fn limits() -> String {
    format!("must have 1 to {LONGEST_VALUE} characters, and no control characters")
}

fn text(name: &str, value: &str, fits: bool) -> Result<String, Error> {
    if fits && !value.is_empty() {
        return Ok(value.to_owned());
    }
    Err(Error::invalid(format!("{} {}", shown(name), limits())))
}

/// The meaning of one of a few words.
fn word<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, Error> {
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Error::invalid(format!(
            "{name} must be one of {}, not '{}'",
            words.join(", "),
            shown(value)
        ))
    })
}

fn status(value: &str) -> Result<TraceStatus, Error> {
    TraceStatus::parse(value).ok_or_else(|| {
        Error::invalid(format!(
            "status must be pending, completed, replay or failed, not '{}'",
            shown(value)
        ))
    })
}

/// A moment, or a date as the day that it is.
pub(crate) fn time(name: &str, value: &str) -> Result<Range<Timestamp>, Error> {
    if let Some(day) = Timestamp::parse_date(value) {
        return Ok(day..day.minus_micros(-DAY));
    }
    let fault = || Error::Malformed(format!("{name} must be an ISO 8601 date or time"));
    let at = Timestamp::parse(value).ok_or_else(fault)?;
    Ok(at..at)
}

fn number(name: &str, value: &str) -> Result<f64, Error> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite());
    let number = number.ok_or_else(|| Error::Malformed(format!("{name} must be a number")))?;
    if number < 0.0 {
        return Err(Error::invalid(format!("{name} must not be negative")));
    }
    Ok(number)
}

fn cost(value: &str) -> Result<Usd, Error> {
    let cost = Usd::from_dollars(number("min_cost", value)?);
    cost.ok_or_else(|| Error::invalid("min_cost is out of range"))
}

fn latency(value: &str) -> Result<i64, Error> {
    // Larger than any number is larger than any latency.
    Ok((number("min_latency_ms", value)? * 1000.0).round() as i64)
}

fn trace(value: &str, name: &str) -> Result<TraceId, Error> {
    value.parse().map_err(|_| Error::Malformed(format!("{name} must be a trace id")))
}

fn whole(value: &str, name: &str) -> Result<i64, Error> {
    match value.parse::<i64>() {
        Ok(number) if number >= 1 => Ok(number),
        _ => Err(Error::Malformed(format!("{name} must be a whole number of at least 1"))),
    }
}

fn per_page(value: &str) -> Result<i64, Error> {
    // More than a number holds is more than a page holds.
    if value.len() > 18 && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(MOST_PER_PAGE);
    }
    Ok(whole(value, "per_page")?.min(MOST_PER_PAGE))
}

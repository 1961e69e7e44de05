//! The figures of a project.

use axum::extract::State;
use axum::response::Response;
use dashboard::{
    Change, Chart, ChartBar, Count, Duration, Frame, GroupTable, Money, Overview, OverviewParts,
    OverviewPeriod, Part, Percent, Section, ShareRow, Texts, Tile,
};
use domain::ids::ProjectId;
use domain::time::millis;
use form_urlencoded::{Serializer, byte_serialize};
use gateway::{
    ComparedFigures, Dimension, Error, Period, Usage, UsageBucket, UsageGroup, UsageSeries,
};

use crate::app::App;
use crate::console::address::address;
use crate::console::csv;
use crate::console::failure::Result;
use crate::console::first_steps::first_steps;
use crate::console::page;
use crate::console::visit::Visit;
use crate::evidence::trace_query;

/// The groups of a table; the CSV has all.
const SHOWN: usize = 8;

/// The dimensions of the tables: the word of the API, and the filter of traces by it.
const GROUPS: [(&str, Option<&str>); 6] = [
    ("model", Some("model")),
    ("key", Some("key")),
    ("user", Some("user")),
    ("session", Some("session")),
    ("tier", None),
    ("endpoint", None),
];

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let period = period(&app, &visit)?;
    let by = dimensions(&visit)?;
    let (gateway, member) = (&app.gateway, visit.member());
    let (figures, usages, series) = tokio::try_join!(
        gateway.figures_for_member(member, project, &period),
        gateway.usages_for_member(member, project, period.clone(), by),
        gateway.series_for_member(member, project, &period),
    )?;
    let parts = parts(&app, &visit, project, (&figures, &series, &usages)).await?;
    let mut query = Serializer::new(String::new());
    let changes = match &parts.period {
        OverviewPeriod::Hours(hours) => {
            query.append_pair("window", &hours.to_string());
            true
        }
        OverviewPeriod::Days(first, last) => {
            query.append_pair("start_date", first).append_pair("end_date", last);
            // Days that are over change no more.
            period.end > gateway.now()
        }
    };
    if let Some(tag) = visit.get("tag") {
        query.append_pair("tag", tag);
    }
    let live = format!("/live/overview?{}", query.finish());
    let frame = parts.frame.clone();
    Ok(page(&Overview {
        live: changes.then(|| frame.href(&live)),
        period: parts.period.clone(),
        tag: visit.get("tag").unwrap_or_default().to_owned(),
        frame,
        parts,
    }))
}

/// The dimensions that group usage: their names, each with the filter of traces by it.
fn tables(visit: &Visit) -> Vec<(String, Option<&'static str>)> {
    let by_tag = visit.get("tag").map(|tag| (format!("tag:{tag}"), Some("tag")));
    GROUPS.into_iter().map(|(name, filter)| (name.to_owned(), filter)).chain(by_tag).collect()
}

/// The same as dimensions.
pub(super) fn dimensions(visit: &Visit) -> Result<Vec<Dimension>> {
    tables(visit).iter().map(|(name, _)| dimension(name)).collect()
}

/// The parts of the page that change while it is open.
pub(super) async fn parts(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    (figures, series, usages): (&ComparedFigures, &UsageSeries, &[Usage]),
) -> Result<OverviewParts> {
    let query = query(visit);
    let frame = visit.frame(Section::Overview, visit.t.overview.title, Some(project));
    let groups = tables(visit).into_iter().zip(usages).map(|((name, filter), usage)| {
        let name_encoded: String = byte_serialize(name.as_bytes()).collect();
        let csv = frame.href(&format!("/usage.csv?by={name_encoded}&{query}"));
        table(&name, filter, usage, &frame, csv)
    });
    let groups = groups.collect();
    let is_new = figures.now.usage.requests == 0 && !has_trace(app, visit, project).await?;
    let days = visit.get("start_date").zip(visit.get("end_date"));
    Ok(OverviewParts {
        period: match days {
            Some((first, last)) => OverviewPeriod::Days(first.to_owned(), last.to_owned()),
            None => OverviewPeriod::Hours(period(app, visit)?.hours()),
        },
        first_steps: is_new.then(|| first_steps(app, visit, project)).transpose()?,
        tiles: tiles(visit.t, figures),
        charts: if is_new { Vec::new() } else { charts(visit.t, series) },
        series: frame.href(&format!("/series.csv?{query}")),
        groups,
        address: address(app, &visit.headers),
        frame,
    })
}

/// Whether anything was ever called in a project, and is still there.
async fn has_trace(app: &App, visit: &Visit, project: ProjectId) -> Result<bool> {
    let one = trace_query::read("per_page=1")?.asked;
    let found = app.gateway.list_traces_for_member(visit.member(), project, &one).await?;
    Ok(!found.traces.is_empty())
}

/// The period that an address names.
pub(super) fn period(app: &App, visit: &Visit) -> Result<Period> {
    let (start, end) = (visit.get("start_date"), visit.get("end_date"));
    Ok(Period::read(visit.get("window"), start, end, app.gateway.now())?)
}

/// The period of an address as a query.
fn query(visit: &Visit) -> String {
    let mut query = Serializer::new(String::new());
    for name in ["window", "start_date", "end_date"] {
        if let Some(value) = visit.get(name) {
            query.append_pair(name, value);
        }
    }
    query.finish()
}

/// The figures over time.
fn charts(t: &Texts, series: &UsageSeries) -> Vec<Chart> {
    type Words = fn(&Texts, &UsageBucket) -> String;
    let chart = |title, words: Words, parts: fn(&UsageBucket) -> Vec<Part>| {
        let bar = |bucket: &UsageBucket| ChartBar {
            begins: series.begins(bucket),
            words: words(t, bucket),
            parts: parts(bucket),
        };
        let highest = series.buckets.iter().max_by(|a, b| {
            let sum = |bucket: &&UsageBucket| -> f64 {
                parts(bucket).iter().map(|part| part.value).sum()
            };
            sum(a).total_cmp(&sum(b))
        });
        Chart {
            title,
            highest: highest.map(|bucket| words(t, bucket)).unwrap_or_default(),
            bars: series.buckets.iter().map(bar).collect(),
        }
    };
    vec![
        chart(t.overview.spend, spend_words, spend_parts),
        chart(t.overview.requests, request_words, request_parts),
        chart(t.overview.tokens, token_words, token_parts),
        chart(t.overview.mean_latency, latency_words, latency_parts),
    ]
}

fn fill(value: f64) -> Vec<Part> {
    vec![Part { class: "fill", value }]
}

fn spend_words(_: &Texts, bucket: &UsageBucket) -> String {
    Money(bucket.cost()).to_string()
}

fn spend_parts(bucket: &UsageBucket) -> Vec<Part> {
    fill(bucket.cost().dollars())
}

fn request_words(t: &Texts, bucket: &UsageBucket) -> String {
    let t = &t.overview;
    let [requests, failed, blocked] = [bucket.requests, bucket.failures, bucket.blocked].map(Count);
    match (failed.0 > 0, blocked.0 > 0) {
        (false, false) => requests.to_string(),
        (true, false) => t.requests_failed(requests, failed),
        (false, true) => t.requests_blocked(requests, blocked),
        (true, true) => t.requests_failed_blocked(requests, failed, blocked),
    }
}

fn request_parts(bucket: &UsageBucket) -> Vec<Part> {
    let (failed, blocked) = (bucket.failures, bucket.blocked);
    let answered = (bucket.requests - failed - blocked).max(0);
    [("fill", answered), ("failed", failed), ("blocked", blocked)]
        .map(|(class, count)| Part { class, value: count as f64 })
        .to_vec()
}

fn token_words(_: &Texts, bucket: &UsageBucket) -> String {
    Count(bucket.tokens()).to_string()
}

fn token_parts(bucket: &UsageBucket) -> Vec<Part> {
    fill(bucket.tokens() as f64)
}

fn latency_words(_: &Texts, bucket: &UsageBucket) -> String {
    Duration(mean_latency(bucket)).to_string()
}

fn latency_parts(bucket: &UsageBucket) -> Vec<Part> {
    fill(mean_latency(bucket))
}

/// The figures over time as CSV.
pub(super) async fn series_csv(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let period = period(&app, &visit)?;
    let series = app.gateway.series_for_member(visit.member(), project, &period).await?;
    let head = ["begins", "requests", "blocked", "errors", "tokens", "cost_usd", "mean_latency_ms"];
    let row = |bucket: &UsageBucket| {
        let mut cells = vec![series.begins(bucket).to_string()];
        let numbers = [bucket.requests, bucket.blocked, bucket.failures, bucket.tokens()];
        cells.extend(numbers.iter().map(i64::to_string));
        cells.push(bucket.cost().dollars().to_string());
        cells.push(mean_latency(bucket).to_string());
        cells
    };
    Ok(csv::file("series", &head, series.buckets.iter().map(row)))
}

/// The mean latency of a bucket's requests that were not blocked, in milliseconds.
fn mean_latency(bucket: &UsageBucket) -> f64 {
    let called = bucket.requests - bucket.blocked;
    if called > 0 { millis(bucket.latency_sum) / called as f64 } else { 0.0 }
}

/// The usage by a dimension as CSV.
pub(super) async fn csv(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let by = visit.get("by").unwrap_or("model");
    let period = period(&app, &visit)?;
    let usage = usage(&app, &visit, project, &period, by).await?;
    let cells = |name: String, row: &gateway::GroupRow| {
        let numbers = [
            row.requests,
            row.blocked,
            row.failures,
            row.prompt_tokens,
            row.cached_tokens,
            row.completion_tokens,
        ];
        let mut cells = vec![name];
        cells.extend(numbers.iter().map(i64::to_string));
        cells.push(row.cost().dollars().to_string());
        cells
    };
    let head = [
        by,
        "requests",
        "blocked",
        "errors",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "cost_usd",
    ];
    let named = |group: &UsageGroup| group.name.clone().or_else(|| group.value.clone());
    let rows =
        usage.groups.iter().map(|group| cells(named(group).unwrap_or_default(), &group.usage));
    let rest = usage.rest.iter().map(|rest| cells(visit.t.overview.all_others.to_owned(), rest));
    Ok(csv::file("usage", &head, rows.chain(rest)))
}

async fn usage(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    period: &Period,
    by: &str,
) -> Result<Usage> {
    let by = dimension(by)?;
    let usage = app.gateway.usage_for_member(visit.member(), Some(project), period.clone(), &by);
    Ok(usage.await?)
}

/// The dimension of a name.
fn dimension(by: &str) -> Result<Dimension> {
    let unknown = || Error::Malformed("by is none of what usage is grouped by".to_owned());
    Ok(Dimension::parse(by).ok_or_else(unknown)?)
}

/// The figures as the page shows them.
fn tiles(t: &Texts, figures: &ComparedFigures) -> Vec<Tile> {
    let t = &t.overview;
    let ComparedFigures { now, before } = figures;
    let (usage, findings) = (&now.usage, &now.findings);
    let latency = now.latency.map(Option::unwrap_or_default);
    let latency_before = before.latency.map(Option::unwrap_or_default);
    let share = |part: i64| {
        let all = usage.requests as f64;
        if part > 0 { t.share_of_all(Percent(part as f64 / all)) } else { String::new() }
    };
    let tile = |label, value: String, change, note: String| Tile { label, value, change, note };
    let mut tiles = vec![
        tile(
            t.spend,
            Money(usage.cost()).to_string(),
            Change::of(before.usage.cost().dollars(), usage.cost().dollars()),
            String::new(),
        ),
        tile(
            t.requests,
            Count(usage.requests).to_string(),
            Change::of(before.usage.requests as f64, usage.requests as f64),
            String::new(),
        ),
        tile(
            t.errors,
            Count(usage.failures).to_string(),
            Change::of(before.usage.failures as f64, usage.failures as f64),
            share(usage.failures),
        ),
        tile(
            t.blocked_calls,
            Count(usage.blocked).to_string(),
            Change::of(before.usage.blocked as f64, usage.blocked as f64),
            share(usage.blocked),
        ),
        tile(
            t.tokens,
            Count(usage.tokens()).to_string(),
            Change::of(before.usage.tokens() as f64, usage.tokens() as f64),
            t.completion_tokens(Count(usage.completion_tokens)),
        ),
        tile(
            t.median_latency,
            Duration(latency[0]).to_string(),
            Change::of(latency_before[0], latency[0]),
            String::new(),
        ),
        tile(
            t.high_latency,
            Duration(latency[1]).to_string(),
            Change::of(latency_before[1], latency[1]),
            t.p99(Duration(latency[2])),
        ),
        tile(
            t.findings,
            Count(findings.found).to_string(),
            Change::of(before.findings.found as f64, findings.found as f64),
            t.findings_of(Count(findings.pii), Count(findings.injection), Count(findings.secret)),
        ),
    ];
    if now.revenue.0 > 0 {
        let margin = now.revenue - usage.cost();
        let margin_before = before.revenue - before.usage.cost();
        // A share of a loss says nothing.
        let change = (before.revenue.0 > 0 && margin_before.0 > 0)
            .then(|| Change::of(margin_before.dollars(), margin.dollars()));
        tiles.push(tile(
            t.margin,
            Money(margin).to_string(),
            change.flatten(),
            t.of_revenue(Money(now.revenue)),
        ));
    }
    tiles
}

/// The id of a group's row: the same row of later usage has the same.
fn row_id(value: Option<&str>) -> String {
    let encoded = |value: &str| byte_serialize(value.as_bytes()).collect::<String>();
    value.map_or_else(|| "none".to_owned(), |value| format!("of-{}", encoded(value)))
}

fn table(
    title: &str,
    filter: Option<&str>,
    usage: &Usage,
    frame: &Frame,
    csv: String,
) -> GroupTable {
    let all = usage.total.cost().dollars();
    let left = usage.groups.iter().skip(SHOWN).map(|group| group.usage.cost()).sum();
    let left = usage.rest.as_ref().map_or(left, |rest| left + rest.cost());
    let has_more = usage.groups.len() > SHOWN || usage.rest.is_some();
    // The filter by a tag has its name before the value.
    let tag = title.strip_prefix("tag:");
    let rows = usage.groups.iter().take(SHOWN).map(|group| {
        let href = group.value.as_deref().zip(filter);
        let href = href.map(|(value, filter)| match tag {
            Some(tag) => frame.traces_by(filter, &format!("{tag}={value}")),
            None => frame.traces_by(filter, value),
        });
        let usage = &group.usage;
        ShareRow {
            id: row_id(group.value.as_deref()),
            href,
            requests: Count(usage.requests),
            tokens: Count(usage.prompt_tokens + usage.completion_tokens),
            failures: Count(usage.failures),
            cost: Money(usage.cost()),
            share: if all > 0.0 { usage.cost().dollars() / all } else { 0.0 },
            label: group.name.clone().or_else(|| group.value.clone()),
        }
    });
    GroupTable {
        title: title.to_owned(),
        rows: rows.collect(),
        rest: has_more.then_some(Money(left)),
        csv,
    }
}

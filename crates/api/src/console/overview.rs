//! The figures of a project.

use axum::extract::State;
use axum::response::Response;
use dashboard::{
    Change, Count, Duration, Frame, GroupTable, Money, Overview, Section, ShareRow, Tile,
};
use domain::ids::ProjectId;
use domain::time::HOUR;
use gateway::{Dimension, Error, Period, Stats, Usage, UsageGroup};

use crate::app::App;
use crate::console::address::address;
use crate::console::csv;
use crate::console::failure::Result;
use crate::console::page;
use crate::console::visit::Visit;

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
    let now = app.gateway.now();
    let period = Period::read(visit.get("window"), None, None, now)?;
    let hours = period.end.since(period.start) / HOUR;
    let before = Period {
        label: String::new(),
        start: period.start.minus_micros(hours * HOUR),
        end: period.start,
    };
    let member = visit.member();
    let stats = app.gateway.stats_for_member(member, Some(project), period.clone()).await?;
    let of_before = app.gateway.stats_for_member(member, Some(project), before).await?;
    let mut groups = Vec::with_capacity(GROUPS.len());
    let frame = visit.frame(Section::Overview, "Overview", Some(project));
    let mut total = None;
    for (name, filter) in GROUPS {
        let usage = usage(&app, &visit, project, &period, name).await?;
        total.get_or_insert_with(|| usage.total.clone());
        let csv = frame.href(&format!("/usage.csv?by={name}&window={hours}"));
        groups.push(table(name, filter, usage, &frame, csv));
    }
    let total = total.unwrap_or_default();
    Ok(page(&Overview {
        tiles: tiles(&stats, &of_before, &total),
        is_empty: stats.total_requests == 0,
        groups,
        frame,
        hours,
        period: period.label,
        address: address(&app, &visit.headers),
    }))
}

/// The usage by a dimension as CSV.
pub(super) async fn csv(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let by = visit.get("by").unwrap_or("model");
    let period = Period::read(visit.get("window"), None, None, app.gateway.now())?;
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
    let rest = usage.rest.iter().map(|rest| cells("all others".to_owned(), rest));
    Ok(csv::file("usage", &head, rows.chain(rest)))
}

async fn usage(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    period: &Period,
    by: &str,
) -> Result<Usage> {
    let unknown = || Error::Malformed("by is none of what usage is grouped by".to_owned());
    let dimension = Dimension::parse(by).ok_or_else(unknown)?;
    let usage =
        app.gateway.usage_for_member(visit.member(), Some(project), period.clone(), &dimension);
    Ok(usage.await?)
}

fn tiles(stats: &Stats, before: &Stats, total: &gateway::GroupRow) -> Vec<Tile> {
    let count = |stats: &Stats| stats.total_requests as f64;
    let latency = |stats: &Stats, at: usize| stats.latency[at].unwrap_or_default();
    let findings = &stats.security;
    let tile = |label, value: String, change, note: String| Tile { label, value, change, note };
    let mut tiles = vec![
        tile(
            "Spend",
            Money(stats.cost).to_string(),
            Change::of(before.cost.dollars(), stats.cost.dollars()),
            String::new(),
        ),
        tile(
            "Requests",
            Count(stats.total_requests).to_string(),
            Change::of(count(before), count(stats)),
            format!("{} failed, {} blocked", Count(total.failures), Count(total.blocked)),
        ),
        tile(
            "Tokens",
            Count(total.prompt_tokens + total.completion_tokens).to_string(),
            None,
            format!("{} of them completion", Count(total.completion_tokens)),
        ),
        tile(
            "Latency, median",
            Duration(latency(stats, 0)).to_string(),
            Change::of(latency(before, 0), latency(stats, 0)),
            format!("p95 {}, p99 {}", Duration(latency(stats, 1)), Duration(latency(stats, 2))),
        ),
        tile(
            "Traces with findings",
            Count(findings.pii + findings.injection + findings.secret).to_string(),
            None,
            format!(
                "{} personal data, {} injection, {} secret",
                Count(findings.pii),
                Count(findings.injection),
                Count(findings.secret)
            ),
        ),
    ];
    if stats.revenue.0 > 0 {
        tiles.push(tile(
            "Margin",
            Money(stats.revenue - stats.cost).to_string(),
            None,
            format!("of {} revenue", Money(stats.revenue)),
        ));
    }
    tiles
}

fn table(
    title: &'static str,
    filter: Option<&str>,
    usage: Usage,
    frame: &Frame,
    csv: String,
) -> GroupTable {
    let all = usage.total.cost().dollars();
    let left = usage.groups.iter().skip(SHOWN).map(|group| group.usage.cost()).sum();
    let left = usage.rest.as_ref().map_or(left, |rest| left + rest.cost());
    let has_more = usage.groups.len() > SHOWN || usage.rest.is_some();
    let rows = usage.groups.into_iter().take(SHOWN).map(|group| {
        let href = group.value.as_deref().zip(filter);
        let href = href.map(|(value, filter)| frame.traces_by(filter, value));
        let usage = &group.usage;
        ShareRow {
            href,
            requests: Count(usage.requests),
            tokens: Count(usage.prompt_tokens + usage.completion_tokens),
            failures: Count(usage.failures),
            cost: Money(usage.cost()),
            share: if all > 0.0 { usage.cost().dollars() / all } else { 0.0 },
            label: group.name.or(group.value),
        }
    });
    GroupTable { title, rows: rows.collect(), rest: has_more.then_some(Money(left)), csv }
}

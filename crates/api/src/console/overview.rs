//! The figures of a project.

use axum::extract::State;
use axum::response::Response;
use dashboard::{
    Change, Count, Duration, Frame, GroupTable, Money, Overview, Section, ShareRow, Tile,
};
use domain::ids::ProjectId;
use gateway::{ComparedFigures, Dimension, Error, Figures, Period, Usage, UsageGroup};

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
    let period = Period::read(visit.get("window"), None, None, app.gateway.now())?;
    let hours = period.hours();
    let member = visit.member();
    let now = app.gateway.figures_for_member(member, project, &period).await?;
    let before = app.gateway.figures_for_member(member, project, &period.before()).await?;
    let mut groups = Vec::with_capacity(GROUPS.len());
    let frame = visit.frame(Section::Overview, "Overview", Some(project));
    let mut total = None;
    for (name, filter) in GROUPS {
        let usage = usage(&app, &visit, project, &period, name).await?;
        total.get_or_insert_with(|| usage.total.clone());
        let csv = frame.href(&format!("/usage.csv?by={name}&window={hours}"));
        groups.push(table(name, filter, usage, &frame, csv));
    }
    let figures = ComparedFigures { now, before, usage: total.unwrap_or_default() };
    Ok(page(&Overview {
        tiles: tiles(&figures),
        is_empty: figures.now.requests == 0,
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

/// The figures as the page shows them.
pub(super) fn tiles(figures: &ComparedFigures) -> Vec<Tile> {
    let ComparedFigures { now, before, usage } = figures;
    let count = |figures: &Figures| figures.requests as f64;
    let latency = |figures: &Figures, at: usize| figures.latency[at].unwrap_or_default();
    let findings = &now.findings;
    let tile = |label, value: String, change, note: String| Tile { label, value, change, note };
    let mut tiles = vec![
        tile(
            "Spend",
            Money(now.cost).to_string(),
            Change::of(before.cost.dollars(), now.cost.dollars()),
            String::new(),
        ),
        tile(
            "Requests",
            Count(now.requests).to_string(),
            Change::of(count(before), count(now)),
            format!("{} failed, {} blocked", Count(usage.failures), Count(usage.blocked)),
        ),
        tile(
            "Tokens",
            Count(usage.prompt_tokens + usage.completion_tokens).to_string(),
            None,
            format!("{} of them completion", Count(usage.completion_tokens)),
        ),
        tile(
            "Latency, median",
            Duration(latency(now, 0)).to_string(),
            Change::of(latency(before, 0), latency(now, 0)),
            format!("p95 {}, p99 {}", Duration(latency(now, 1)), Duration(latency(now, 2))),
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
    if now.revenue.0 > 0 {
        tiles.push(tile(
            "Margin",
            Money(now.revenue - now.cost).to_string(),
            None,
            format!("of {} revenue", Money(now.revenue)),
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

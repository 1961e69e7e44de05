//! Limits and budgets of a project: who holds what.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::Response;
use dashboard::{Count, Held, KeyLimits, LimitsPage, Money, Section, key_state};
use domain::ids::KeyId;
use domain::time::Timestamp;
use gateway::{KeyHoldings, KeyView};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::paging::{List, place, read_place};
use crate::console::visit::{AFTER, Visit};
use crate::console::{csv, page};

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let holdings = app.gateway.holdings(visit.member(), project).await?;
    let frame = visit.frame(Section::Limits, visit.t.limits.title, Some(project));
    let after: Option<(Timestamp, KeyId)> = visit.get(AFTER).map(read_place).transpose()?;
    let views = app.gateway.list_keys(visit.member()).into_iter();
    let views: HashMap<KeyId, KeyView> = views.map(|view| (view.key.id, view)).collect();
    let place_of = |held: &KeyHoldings| {
        let view = views.get(&held.id)?;
        Some((view.key.created_at, view.key.id))
    };
    let is_beyond =
        |held: &KeyHoldings| place_of(held).is_some_and(|place| after.is_none_or(|at| place > at));
    let keys = holdings.keys.into_iter().filter(is_beyond).collect();
    let list = List { path: "/limits", parameter: AFTER };
    let (keys, pages) = list.page(&visit, &frame, keys, |held| {
        place_of(held).map(|(made, id)| place(made, id)).unwrap_or_default()
    });
    let key = |held: &KeyHoldings| {
        let key = &views.get(&held.id)?.key;
        Some(KeyLimits {
            name: key.name.clone(),
            href: frame.traces_by("key", &key.id.to_string()),
            status: key.status.as_str(),
            state: key_state(visit.t, key.status.as_str()),
            held: Held {
                spent: Money(held.spent),
                reserved: Money(held.reserved),
                bound: key.hourly_limit.map(Money),
            },
            requests: held.requests.into(),
        })
    };
    Ok(page(&LimitsPage {
        keys: keys.iter().filter_map(key).collect(),
        pages,
        month: Held {
            spent: Money(holdings.spent),
            reserved: Money(holdings.reserved),
            bound: holdings.budget.map(Money),
        },
        file: frame.href("/limits.csv"),
        most_requests: holdings.most_requests.map(Count::from),
        frame,
    }))
}

/// The list as a file.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let holdings = app.gateway.holdings(visit.member(), project).await?.keys;
    let holdings: HashMap<KeyId, KeyHoldings> =
        holdings.into_iter().map(|held| (held.id, held)).collect();
    let head = ["key", "name", "status", "spent_usd", "reserved_usd", "cap_usd", "requests"];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "limits", &head);
    let line = |view: KeyView| {
        let (key, held) = (&view.key, holdings.get(&view.key.id)?);
        Some(vec![
            key.id.to_string(),
            key.name.clone(),
            key.status.as_str().to_owned(),
            csv::amount(held.spent),
            csv::amount(held.reserved),
            key.hourly_limit.map(csv::amount).unwrap_or_default(),
            held.requests.to_string(),
        ])
    };
    file.add(app.gateway.list_keys(visit.member()).into_iter().filter_map(line));
    Ok(file.response(visit.t))
}

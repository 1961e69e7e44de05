//! Limits and budgets of a project: who holds what.

use axum::extract::State;
use axum::response::Response;
use dashboard::{Count, Held, KeyLimits, LimitsPage, Money, Section, key_state};
use gateway::KeyHoldings;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::page;
use crate::console::visit::Visit;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let holdings = app.gateway.holdings(visit.member(), project)?;
    let frame = visit.frame(Section::Limits, visit.t.limits.title, Some(project));
    let views = app.gateway.list_keys(visit.member());
    let key = |held: &KeyHoldings| {
        let key = &views.iter().find(|view| view.key.id == held.id)?.key;
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
            requests: Count(i64::try_from(held.requests).unwrap_or(i64::MAX)),
        })
    };
    Ok(page(&LimitsPage {
        keys: holdings.keys.iter().filter_map(key).collect(),
        month: Held {
            spent: Money(holdings.spent),
            reserved: Money(holdings.reserved),
            bound: holdings.budget.map(Money),
        },
        most_requests: holdings
            .most_requests
            .map(|most| Count(i64::try_from(most).unwrap_or(i64::MAX))),
        frame,
    }))
}

//! Many gateways on one PostgreSQL: they are upgraded, stopped and cut off one after the other.

mod cut_off;
mod drain;
mod pooler;
mod upgrades;

use crate::harness::{Answer, Backend, Mock, Server, Setup};

/// A gateway on PostgreSQL that others may stand beside and that stops without a delay, with a model `mock`. `None` if
/// no server is available.
async fn shared() -> Option<(Server, Mock)> {
    let backend = Backend::postgres()?;
    let setup = Setup::new(&backend).env("SLUICE_ALLOW_INEXACT_LIMITS", "true");
    let setup = setup.env("SLUICE_SHUTDOWN_DELAY", "0").env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let server = setup.start().await;
    server.lift_limits().await;
    let mock = Mock::always(Answer::text("Served.")).await;
    mock.register(&server.owner().await, "mock").await;
    Some((server, mock))
}

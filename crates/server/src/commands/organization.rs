//! The organization, from the command line.

use clap::Subcommand;
use domain::time::Clock;

use super::{Failure, say, visit};
use crate::config::Config;

#[derive(Subcommand)]
pub(crate) enum OrganizationCommand {
    /// Let users sign in with passwords again: the way in when no provider of single sign-on works
    AllowPasswordLogin,
}

pub(crate) async fn run(config: &Config, command: OrganizationCommand) -> Result<(), Failure> {
    let OrganizationCommand::AllowPasswordLogin = command;
    let store = visit(config).await?;
    let allowed = gateway::allow_password_login(&store, &Clock::system()).await;
    store.close().await;
    say(if allowed? {
        "Users may sign in with passwords again. `sluice user reset-password` sets one."
    } else {
        "Users may sign in with passwords already."
    })
}

//! `sluice migrate`: the schema brought up to date, or looked at.

use clap::Args;
use domain::time::Clock;
use store::{Claim, SchemaState};

use super::{Failure, say, visit};
use crate::config::Config;
use crate::open;

#[derive(Args)]
pub(crate) struct Migrate {
    /// Print whether this version may start on the database, and change nothing: exit code 0 if so, else 1
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(config: &Config, command: &Migrate) -> Result<(), Failure> {
    if command.check {
        return say(&sentence(store::inspect_schema(&config.location).await?));
    }
    if config.location.is_postgres() {
        // Gateways that run go on.
        match store::apply_migrations(&config.location).await? {
            0 => {}
            1 => say("1 migration was applied.")?,
            many => say(&format!("{many} migrations were applied."))?,
        }
    }
    let store = match visit(config).await {
        Ok(store) => store,
        // The one gateway of a data folder has its schema to itself.
        Err(_) => open::store(config, Claim::Alone, &Clock::system()).await?,
    };
    store.close().await;
    say("The database schema is up to date.")
}

fn sentence(state: SchemaState) -> String {
    match state {
        SchemaState::UpToDate { version } => {
            format!("The schema is up to date (version {version}): this version may start.")
        }
        SchemaState::Ahead { found, known } => format!(
            "The schema is newer (version {found}, this version knows {known}) and supports this version: it may \
             start."
        ),
        SchemaState::Behind { found: 0, known, .. } => {
            format!("The database is empty: this version may start and makes schema {known}.")
        }
        SchemaState::Behind { found, known, pending, running, .. } => {
            let work = match pending {
                1 => "1 migration is".to_owned(),
                many => format!("{many} migrations are"),
            };
            let others = match running {
                None => "No gateway runs at the database.",
                Some(_) => "The gateways that run go on.",
            };
            format!(
                "{work} to be applied (version {found} to {known}): this version may start. {others}"
            )
        }
    }
}

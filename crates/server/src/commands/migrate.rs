//! `sluice migrate`: the schema brought up to date, or looked at.

use clap::Args;
use domain::time::Clock;
use store::{Claim, Claimed, Error, Location, SchemaState};

use super::{Failure, say};
use crate::config::Config;
use crate::{master_key, open};

#[derive(Args)]
pub(crate) struct Migrate {
    /// Print whether this version may start on the database, and change nothing: exit code 0 if so, else 1
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(config: &Config, command: &Migrate) -> Result<(), Failure> {
    if command.check {
        let state = store::inspect_schema(&config.location).await?;
        return say(&sentence(state, config.location.is_postgres()));
    }
    let claim = match config.location {
        Location::Sqlite(_) => claim_on_folder(config).await,
        Location::Postgres(_) | Location::Pooled { .. } => {
            apply_beside_others(config).await?;
            Claim::Visit
        }
    };
    let store = open::store(config, claim, &Clock::system()).await?;
    store.close().await;
    say("The database schema is up to date.")
}

/// A visit, but for a schema to change: a gateway that serves a folder has its schema to itself.
async fn claim_on_folder(config: &Config) -> Claim {
    match store::inspect_schema(&config.location).await {
        Ok(SchemaState::Behind { found: 1.., .. }) => Claim::Alone,
        // A database that cannot be read cannot be visited either, and the visit says why.
        _ => Claim::Visit,
    }
}

/// Applies what is outstanding on PostgreSQL. Gateways that run go on.
async fn apply_beside_others(config: &Config) -> Result<(), Failure> {
    // A database that was named by mistake has another key, and nothing in it is changed.
    let claimed = Claimed::take(config.location.clone(), Claim::Visit).await?;
    let master = master_key::of(config, &claimed).await?;
    let fits = claimed.fits(&master).await;
    claimed.release().await;
    if fits? == Some(false) {
        return Err(Error::WrongMasterKey.into());
    }
    match store::apply_migrations(&config.location).await? {
        0 => Ok(()),
        1 => say("1 migration was applied."),
        many => say(&format!("{many} migrations were applied.")),
    }
}

fn sentence(state: SchemaState, is_postgres: bool) -> String {
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
                // One that serves a folder shows nobody what it knows.
                None if !is_postgres => "",
                None => " No gateway runs at the database.",
                Some(_) => " The gateways that run go on.",
            };
            format!(
                "{work} to be applied (version {found} to {known}): this version may start.{others}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_gateways_that_a_folder_does_not_show() {
        let behind =
            |running| SchemaState::Behind { found: 32, known: 34, pending: 2, oldest: 0, running };
        let said = sentence(behind(None), false);
        assert!(said.ends_with("(version 32 to 34): this version may start."), "{said}");
        assert!(sentence(behind(None), true).ends_with("No gateway runs at the database."));
        assert!(sentence(behind(Some(33)), true).ends_with("The gateways that run go on."));
    }
}

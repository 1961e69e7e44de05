//! API keys, from the command line.

use clap::Subcommand;
use domain::ids::ProjectId;
use domain::time::Clock;

use super::{Failure, say, visit};
use crate::config::Config;

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print it, once. A running gateway accepts it within a second
    Create {
        /// The project that the key is good for
        #[arg(long, default_value_t = 1)]
        project: i64,
        /// Name of the key, for people
        #[arg(long, default_value = "Command line")]
        name: String,
        /// The most it may spend in a rolling hour, USD
        #[arg(long, value_name = "USD")]
        hourly_limit: Option<f64>,
    },
}

pub(crate) async fn run(config: &Config, command: KeyCommand) -> Result<(), Failure> {
    let KeyCommand::Create { project, name, hourly_limit } = command;
    let store = visit(config).await?;
    let clock = Clock::system();
    let raw = gateway::create_key(&store, ProjectId(project), &name, hourly_limit, &clock).await?;
    store.close().await;
    say(raw.expose())
}

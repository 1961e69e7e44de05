//! Service tokens, from the command line.

use clap::Subcommand;
use domain::ids::ProjectId;
use domain::time::Clock;
use gateway::{NewServiceToken, TokenExpiry};

use super::{Failure, say, visit};
use crate::config::Config;

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a service token for the control plane and print it, once. It is good for 90 days without `--expires-at`
    Create {
        /// Name of the token, for people
        #[arg(long, default_value = "Command line")]
        name: String,
        /// admin, member or viewer
        #[arg(long, default_value = "viewer")]
        role: String,
        /// Projects that a member or viewer sees
        #[arg(long = "project", value_name = "ID")]
        projects: Vec<i64>,
        /// The time from which on it is no longer good (ISO 8601), or `never`
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
}

pub(crate) async fn run(config: &Config, command: TokenCommand) -> Result<(), Failure> {
    let TokenCommand::Create { name, role, projects, expires_at } = command;
    let expiry = match expires_at {
        None => TokenExpiry::Default,
        Some(word) if word == "never" => TokenExpiry::Never,
        Some(time) => TokenExpiry::At(time),
    };
    let projects = projects.into_iter().map(ProjectId).collect();
    let new = NewServiceToken { name, role, projects, expiry };
    let store = visit(config).await?;
    let raw = gateway::create_service_token(&store, new, &Clock::system()).await?;
    store.close().await;
    say(raw.expose())
}

//! Sluice: a self-hosted, governed gateway between application code and AI model providers.
//!
//! The binary only composes: it reads the configuration, opens the database, and serves.

mod bare_refusals;
mod coalesce_wakes;
mod commands;
mod config;
mod listen;
mod loops;
mod master_key;
mod open;
mod serve;
mod slow_client_guard;
mod telemetry;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::Failure;
use config::Flags;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// A self-hosted, governed gateway between application code and AI model providers.
#[derive(Parser)]
#[command(name = "sluice", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (the default)
    Serve,
    /// Bring the database schema up to date and stop
    Migrate(commands::migrate::Migrate),
    /// Check the configuration and print it without secrets
    CheckConfig {
        /// Print every key at its default, with its meaning
        #[arg(long)]
        defaults: bool,
    },
    /// Check configuration, database, master key, prices and models, and print how to fix them
    Doctor,
    /// Seal everything under a new master key (stop every gateway first)
    RotateMasterKey,
    /// Manage users
    #[command(subcommand)]
    User(commands::users::UserCommand),
    /// Manage the organization
    #[command(subcommand)]
    Organization(commands::organization::OrganizationCommand),
    /// Manage API keys
    #[command(subcommand)]
    Key(commands::keys::KeyCommand),
    /// Manage service tokens
    #[command(subcommand)]
    Token(commands::tokens::TokenCommand),
    /// Check the audit log
    #[command(subcommand)]
    Audit(commands::audit::AuditCommand),
    /// Print the API description
    Openapi,
    /// Judge a text, or JSON Lines {"id","text","role"}: findings out
    Check(commands::judge::Check),
    /// Print the settings with which a coding agent calls this gateway, or write them
    AgentSetup(commands::agent_setup::AgentSetup),
    /// Replay traces on a gateway that runs, and fail under conditions (the key is in `SLUICE_API_KEY`)
    Replay(commands::replay::ReplayCommand),
    /// Export the steps or the costs of projects to a file, beside a gateway that may be running
    Export(commands::export::ExportCommand),
    /// Judge recorded requests by draft settings on a gateway that runs, and fail under conditions (the
    /// credentials are in `SLUICE_TOKEN`, or in `SLUICE_USER_EMAIL` and `SLUICE_USER_PASSWORD`)
    Backtest(commands::backtest::BacktestCommand),
    /// Route a prompt, or JSON Lines {"id","input"}: tier, complexity and reasons out
    Route(commands::judge::Source),
}

/// The log level of commands.
const COMMAND_LOG: &str = "warn";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let trouble = match cli.command {
        Some(Command::Replay(_) | Command::Backtest(_)) => ExitCode::from(commands::job::TROUBLE),
        _ => ExitCode::FAILURE,
    };
    run(cli).unwrap_or_else(|failure| {
        commands::complain(&failure);
        trouble
    })
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let flags = cli.flags;
    let done = match cli.command.unwrap_or(Command::Serve) {
        Command::Check(asked) => commands::judge::check(&asked),
        Command::Route(source) => commands::judge::route(&source),
        Command::AgentSetup(setup) => commands::agent_setup::run(&setup, &flags),
        Command::Openapi => commands::openapi(),
        Command::CheckConfig { defaults } => commands::check_config::run(&flags, defaults),
        command => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .on_thread_park(allocator::collect_if_requested)
                .build()
                .map_err(|error| Failure(format!("the runtime cannot start: {error}")))?;
            return runtime.block_on(work(command, &flags));
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

async fn work(command: Command, flags: &Flags) -> Result<ExitCode, Failure> {
    let config = config::Config::load(flags);
    // `serve` writes these warnings to its own log.
    if config.is_err() || !matches!(command, Command::Serve) {
        commands::warn_of_unknown_variables();
    }
    let config = config?;
    if !matches!(command, Command::Serve) {
        telemetry::start_logs(COMMAND_LOG)?;
    }
    let done = match command {
        Command::Replay(command) => {
            return Box::pin(commands::replay::run(&command, &config)).await;
        }
        Command::Backtest(command) => {
            return Box::pin(commands::backtest::run(&command, &config)).await;
        }
        Command::Migrate(command) => commands::migrate::run(&config, &command).await,
        Command::Doctor => commands::doctor::run(&config).await,
        Command::RotateMasterKey => commands::rotate_master_key(&config).await,
        Command::User(command) => commands::users::run(&config, command).await,
        Command::Organization(command) => commands::organization::run(&config, command).await,
        Command::Key(command) => commands::keys::run(&config, command).await,
        Command::Token(command) => commands::tokens::run(&config, command).await,
        Command::Audit(command) => commands::audit::run(&config, command).await,
        Command::Export(command) => commands::export::run(&config, command).await,
        _ => Box::pin(serve::run(config)).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}

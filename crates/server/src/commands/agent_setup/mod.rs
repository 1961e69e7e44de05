//! `sluice agent-setup`: the settings with which a coding agent calls this gateway, printed or written
//! into the agent's own configuration file.

mod agents;
mod file;

use std::io::{IsTerminal as _, Write as _};

use clap::Args;

use super::{Failure, say};
use crate::config::{Config, Flags};
use agents::{Agent, Asked, Contents};
use file::Target;

/// The variable that agents read the key from if the settings do not hold it.
const KEY_VARIABLE: &str = "SLUICE_API_KEY";

#[derive(Args)]
pub(crate) struct AgentSetup {
    /// The agent
    #[arg(value_enum)]
    agent: Agent,
    /// Address of the gateway [default: `public_url`, else `listen` of the configuration]
    #[arg(long)]
    url: Option<String>,
    /// The key to put into the settings; without it they read the variable `SLUICE_API_KEY`
    #[arg(long)]
    key: Option<String>,
    /// The model to use, by its identifier
    #[arg(long)]
    model: Option<String>,
    /// Write the agent's configuration file, after showing what changes
    #[arg(long)]
    write: bool,
    /// Do not ask before writing
    #[arg(long, requires = "write")]
    yes: bool,
}

/// Prints the settings, or writes them.
pub(crate) fn run(setup: &AgentSetup, flags: &Flags) -> Result<(), Failure> {
    let url = match &setup.url {
        Some(url) => url.clone(),
        None => own_url(&Config::load(flags)?),
    };
    let asked = Asked::new(&url, setup.key.as_deref(), setup.model.as_deref())?;
    let settings = agents::settings(setup.agent, &asked)?;
    let path = settings.path(&|name| std::env::var_os(name))?;
    if !setup.write {
        say(&settings.shell)?;
        let joint = if settings.is_shell_enough { "or" } else { "and" };
        return say(&format!("\n# {joint} in {}:\n{}", path.display(), settings.contents));
    }
    let target = Target::read(path)?;
    let new = match &settings.contents {
        Contents::Json(settings) => target.merged(settings)?,
        Contents::Text(text) => target.whole(text)?,
    };
    if target.holds(&new) {
        if setup.key.is_some() {
            target.protect()?;
        }
        return say(&format!("{} has these settings already.", target.path().display()));
    }
    say(&target.changes(&new))?;
    if !setup.yes && !is_confirmed(&target)? {
        return Err(Failure("nothing was written".to_owned()));
    }
    target.write(&new)?;
    say(&format!("{} is written.", target.path().display()))?;
    match settings.left {
        Some(left) => say(&left),
        None => Ok(()),
    }
}

/// The address of a gateway with this configuration, as seen from its own machine.
pub(super) fn own_url(config: &Config) -> String {
    config.public_url.clone().unwrap_or_else(|| {
        let mut listen = config.listen;
        if listen.ip().is_unspecified() {
            listen.set_ip(match listen {
                std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{listen}")
    })
}

fn is_confirmed(target: &Target) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure("there is no terminal to ask on: add --yes to write".to_owned()));
    }
    let unusable = |error: std::io::Error| Failure(format!("the terminal cannot be used: {error}"));
    let mut output = std::io::stdout();
    write!(output, "Write this to {}? [y/N] ", target.path().display())
        .and_then(|()| output.flush())
        .map_err(unusable)?;
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(unusable)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

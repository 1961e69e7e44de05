//! Users, from the command line.

use clap::Subcommand;
use domain::ids::ProjectId;
use domain::project::Role;
use domain::secret::Secret;
use domain::time::Clock;
use gateway::NewUser;
use store::Store;

use super::{Failure, say, visit};
use crate::config::Config;

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Make a user; the password comes from `SLUICE_USER_PASSWORD` or is generated and printed
    Create {
        /// The user's address
        email: String,
        /// owner, admin, member or viewer
        #[arg(long, default_value = "member")]
        role: String,
        /// Projects that a member or viewer belongs to
        #[arg(long = "project", value_name = "ID")]
        projects: Vec<i64>,
    },
    /// Set a new password and end all sessions of the user
    ResetPassword {
        /// The user's address
        email: String,
    },
    /// Remove the second factors of a user who is locked out, and end all their sessions
    ResetMfa {
        /// The user's address
        email: String,
    },
}

pub(crate) async fn run(config: &Config, command: UserCommand) -> Result<(), Failure> {
    let store = visit(config).await?;
    let generated = change(&store, command).await?;
    store.close().await;
    match generated {
        Some(password) => say(&format!("Password: {}", password.expose())),
        None => Ok(()),
    }
}

/// Returns the password if it was made here.
async fn change(store: &Store, command: UserCommand) -> Result<Option<Secret>, Failure> {
    let clock = Clock::system();
    match command {
        UserCommand::Create { email, role, projects } => {
            let role = Role::parse(&role).ok_or_else(|| {
                Failure(format!("the role is '{role}': it must be owner, admin, member or viewer"))
            })?;
            let (password, generated) = password()?;
            let projects = projects.into_iter().map(ProjectId).collect();
            let user = NewUser { email: email.clone(), password: password.clone(), role, projects };
            gateway::create_user(store, user, &clock).await?;
            say(&format!("{email} was made, as {role}."))?;
            Ok(generated.then_some(password))
        }
        UserCommand::ResetPassword { email } => {
            let (password, generated) = password()?;
            gateway::reset_password(store, &email, &password, &clock).await?;
            say(&format!("{email} has a new password; all sessions have ended."))?;
            Ok(generated.then_some(password))
        }
        UserCommand::ResetMfa { email } => {
            gateway::reset_mfa(store, &email, &clock).await?;
            say(&format!("{email} has no second factor any more; all sessions have ended."))?;
            Ok(None)
        }
    }
}

/// The password and whether it was made here.
fn password() -> Result<(Secret, bool), Failure> {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    match std::env::var("SLUICE_USER_PASSWORD") {
        Ok(password) => Ok((Secret::new(password), false)),
        Err(_) => Ok((Secret::new(URL_SAFE_NO_PAD.encode(store::random::<18>()?)), true)),
    }
}

//! The servers that a project allows, with the tokens that they require.

use domain::project::Project;
use domain::secret::Secret;
use domain::settings::Settings;
use providers::McpAddress;
use store::SealingKey;

use crate::error::{Error, Result};
use crate::state::mcp_tokens::Tokens;

/// `settings.mcp.allowed_servers`, read, and the token of each.
#[derive(Debug, Default)]
pub(crate) struct Allowed(Vec<(McpAddress, Option<Secret>)>);

impl Allowed {
    /// Opens the stored servers of a project. An entry that is no address allows nothing.
    pub(crate) fn open(
        project: &Project,
        settings: &Settings,
        sealing: &SealingKey,
    ) -> Result<Self> {
        let mut tokens = Tokens::open(project, sealing)?;
        let servers = settings.mcp_servers.iter().filter_map(|entry| {
            let address = McpAddress::read(entry).ok()?;
            Some((address, tokens.remove(entry)))
        });
        Ok(Self(servers.collect()))
    }

    /// The token of a server, if there is one; an error that names the server when it is not
    /// allowed.
    pub(crate) fn check(&self, server: &McpAddress) -> Result<Option<&Secret>> {
        // Its own entry is more specific than one for all of its host.
        let own = self.0.iter().find(|(entry, _)| entry == server);
        let entry = own.or_else(|| self.0.iter().find(|(entry, _)| entry.covers(server)));
        entry.map(|(_, token)| token.as_ref()).ok_or_else(|| {
            Error::invalid(format!(
                "MCP server {} is not allowed: list it in settings.mcp.allowed_servers",
                server.as_str()
            ))
        })
    }
}

//! A provider reaches only those addresses and tools for a caller that the project allows.
//! The provider calls them with the account of the gateway's operator, from a place of its own.

use domain::conversation::Prompt;
use domain::original::Reach;
use domain::settings::Settings;
use providers::{is_public_url, share_host};

use crate::error::{Error, Result};

/// The longest part of a caller's text that is quoted, in characters.
const LONGEST_QUOTE: usize = 100;

/// Refuses a request by which a provider would reach what the project does not allow.
pub(super) fn check(prompt: &Prompt, settings: &Settings) -> Result<()> {
    let reaches = prompt.original.iter().flat_map(|original| &original.reaches);
    let faults: Vec<String> =
        reaches.filter(|reach| !is_allowed(reach, settings)).map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::Reach(faults)) }
}

fn is_allowed(reach: &Reach, settings: &Settings) -> bool {
    let is_listed = |address: &String| {
        (reach.is_public_allowed && is_public_url(address))
            || settings.mcp_servers.iter().any(|server| share_host(server, address))
    };
    settings.vendor_tools.contains(&reach.kind) || reach.address.as_ref().is_some_and(is_listed)
}

fn fault(reach: &Reach) -> String {
    let quoted = |text: &str| text.chars().take(LONGEST_QUOTE).collect::<String>();
    let kind = quoted(&reach.kind);
    match &reach.address {
        Some(address) => format!(
            "{}: {} is no address that a provider may reach for this project: its host has to be in \
             settings.mcp.allowed_servers, or '{kind}' in settings.passthrough.vendor_tools",
            reach.at,
            quoted(address)
        ),
        None => format!(
            "{}: a tool of type '{kind}' has to be allowed in settings.passthrough.vendor_tools",
            reach.at
        ),
    }
}

#[cfg(test)]
mod tests {
    use domain::original::{Original, WireFormat};

    use super::*;

    fn checked(reach: Reach) -> Result<()> {
        let settings = Settings {
            mcp_servers: vec!["https://tools.example/mcp".to_owned()],
            vendor_tools: vec!["file_search".to_owned()],
            ..Settings::default()
        };
        let mut original = Original::new(WireFormat::Messages, String::new());
        original.reaches.push(reach);
        check(&Prompt { original: Some(Box::new(original)), ..Prompt::default() }, &settings)
    }

    #[test]
    fn only_what_the_project_allows_is_reached() {
        let reach = |kind: &str, address: Option<&str>, is_public_allowed| Reach {
            at: "tools[0]".to_owned(),
            kind: kind.to_owned(),
            address: address.map(str::to_owned),
            is_public_allowed,
        };
        for allowed in [
            reach("file_search", None, false),
            reach("mcp", Some("https://tools.example/mcp"), false),
            reach("mcp", Some("https://tools.example/other?x=1"), false),
            reach("image", Some("https://images.example/a.png?x=1"), true),
            reach("image", Some("http://8.8.8.8/a.png"), true),
        ] {
            checked(allowed.clone()).unwrap_or_else(|error| panic!("{allowed:?}: {error}"));
        }
        for refused in [
            reach("mcp", None, false),
            reach("mcp", Some("https://evil.example/mcp"), false),
            reach("mcp", Some("http://tools.example/mcp"), false),
            reach("mcp", Some("https://tools.example.evil.test/mcp"), false),
            reach("document", Some("https://images.example/a.pdf"), false),
            reach("image", Some("http://127.0.0.1/a.png"), true),
            reach("image", Some("http://2130706433/a.png"), true),
            reach("image", Some("http://[::ffff:10.0.0.1]/a.png"), true),
            reach("image", Some("http://169.254.169.254/latest"), true),
            reach("image", Some("http://metadata.google.internal/"), true),
            reach("image", Some("http://intranet/a.png"), true),
            reach("image", Some("http://localhost:8080/a.png"), true),
            reach("image", Some("file:///etc/passwd"), true),
            reach("image", Some("gs://bucket/a.png"), true),
        ] {
            assert!(matches!(checked(refused.clone()), Err(Error::Reach(_))), "{refused:?}");
        }
    }
}

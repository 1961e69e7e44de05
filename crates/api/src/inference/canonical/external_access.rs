//! The tools, addresses and files of the vendor's that a provider would call or read for a caller.

use domain::original::ExternalAccess;

/// The type under which a project allows files that the vendor keeps.
pub(crate) const KEPT_FILE: &str = "file";
/// The type of the servers of tools that a vendor calls.
pub(crate) const MCP: &str = "mcp";

/// The use of a tool of this type, at a place in a request.
pub(crate) fn tool(at: &str, kind: &str) -> ExternalAccess {
    let (at, kind) = (at.to_owned(), kind.to_owned());
    ExternalAccess {
        at,
        kind,
        address: None,
        is_public_allowed: false,
        removable_tool: None,
        stored_id: None,
    }
}

/// An address in a part of this type.
pub(crate) fn address_of(at: &str, kind: &str, address: &str) -> ExternalAccess {
    ExternalAccess { address: Some(address.to_owned()), ..tool(at, kind) }
}

/// Whether a text is an address that a server could fetch. `data:` URLs hold their content and are not
/// fetched.
pub(crate) fn is_address(text: &str) -> bool {
    let text = text.trim_start();
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && rest.starts_with(['/', '\\']) && !scheme.eq_ignore_ascii_case("data")
}

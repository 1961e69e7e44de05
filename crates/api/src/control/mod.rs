//! The control plane: the data that a signed-in member reads and changes.

pub(crate) mod audit;
pub(crate) mod audit_query;
pub(crate) mod identities;
pub(crate) mod invitations;
pub(crate) mod keys;
pub(crate) mod models;
pub(crate) mod organization;
pub(crate) mod passkeys;
pub(crate) mod passwords;
pub(crate) mod people;
pub(crate) mod projects;
pub(crate) mod safety;
pub(crate) mod second_factor;
pub(crate) mod service_tokens;
pub(crate) mod session;
pub(crate) mod session_list;
pub(crate) mod sign_on;
pub(crate) mod sign_on_providers;
pub(crate) mod verification;

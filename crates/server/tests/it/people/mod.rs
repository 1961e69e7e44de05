//! The people of an organization, `/users`, `/invitations` and passwords.

mod invitations;
mod letters;
mod passwords;
mod roles;
mod service_tokens;

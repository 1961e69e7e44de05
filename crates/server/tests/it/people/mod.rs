//! The people of an organization, `/users`, `/invitations` and passwords.

mod invitations;
mod passwords;
mod roles;

//! The control plane: members and their sessions, projects, models, keys, and the audit of every change.

pub(crate) mod bootstrap;
pub(crate) mod command_line;
pub(crate) mod doctor;
pub(crate) mod invitations;
pub(crate) mod keys;
pub(crate) mod link_token;
pub(crate) mod links;
pub(crate) mod members;
pub(crate) mod models;
pub(crate) mod offline_export;
pub(crate) mod organization;
pub(crate) mod own_account;
pub(crate) mod passwords;
pub(crate) mod people;
pub(crate) mod projects;
pub(crate) mod recovery_codes;
pub(crate) mod safety_preview;
pub(crate) mod sdk_config;
pub(crate) mod second_factor;
pub(crate) mod self_service;
pub(crate) mod session_list;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod totp;
pub(crate) mod verification;

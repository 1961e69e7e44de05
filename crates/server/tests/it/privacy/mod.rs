//! Privacy: where personal data and credentials go, and where they do not.

mod attachments;
mod echoed_keys;
mod personal_data;
mod placeholders;
mod structured_text;

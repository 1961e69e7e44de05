//! `POST /chat/completions`.

mod provider_formats;

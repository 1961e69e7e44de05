//! `POST /embeddings`.

pub mod vectors;

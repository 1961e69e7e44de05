//! Safety: findings in prompts and answers, and the actions on them.

mod answers;
mod coverage;
mod gemini_places;
mod own_words;
mod passing_places;
mod reviews;
mod settings;
mod streams;

//! Safety: findings in prompts and answers, and the actions on them.

mod answers;
mod coverage;
mod settings;
mod streams;

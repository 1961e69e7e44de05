//! Charge: by what a call is paid for.

use domain::conversation::Prompt;
use domain::model::Model;
use domain::money::{Prices, Usd};
use domain::step::Door;
use domain::usage::Usage;
use serde_json::Value;

use crate::tokens;

/// About the completion tokens of one image, where a provider does not say: a square one takes 1,056
/// at OpenAI (medium quality) and 1,290 at Google.
const PER_IMAGE: u64 = 1290;

/// What a provider is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// Prompt and completion tokens.
    Tokens,
    /// Prompt tokens alone (embeddings).
    Input,
    /// So many images, where the model has a price for one; else tokens.
    Images(u64),
}

impl Charge {
    pub(super) fn of(door: Door, prompt: &Prompt) -> Self {
        match door {
            Door::Embeddings => Self::Input,
            Door::Images => {
                Self::Images(prompt.params.get("n").and_then(Value::as_u64).unwrap_or(1))
            }
            _ => Self::Tokens,
        }
    }

    /// Whether a model can be asked for what is charged so.
    pub(super) fn fits(self, model: &Model) -> bool {
        match self {
            Self::Tokens => true,
            Self::Input => providers::check_embeds(model).is_ok(),
            Self::Images(_) => providers::check_paints(model).is_ok(),
        }
    }

    /// Whether a text is the answer.
    pub(super) fn is_for_text(self) -> bool {
        self == Self::Tokens
    }

    /// What tokens cost, where they cost anything by themselves.
    pub(super) fn prices(self, model: &Model) -> Option<Prices> {
        match self {
            Self::Input => model.input_prices(),
            Self::Images(_) if model.config.image_price.is_some() => None,
            Self::Tokens | Self::Images(_) => model.prices(),
        }
    }

    /// What one image costs.
    pub(super) fn image_price(self, model: &Model) -> Option<Usd> {
        model.config.image_price.filter(|_| matches!(self, Self::Images(_)))
    }

    /// Whether what is asked for has a price.
    pub(super) fn is_priced(self, model: &Model) -> bool {
        self.image_price(model).is_some() || self.prices(model).is_some()
    }

    /// What the images that are asked for cost, as far as that is known before they are made.
    pub(super) fn cost_of_images(self, model: &Model, prompt: &Prompt) -> Option<Usd> {
        let Self::Images(count) = self else { return None };
        match self.image_price(model) {
            Some(price) => Some(price.times(count)),
            None => Some(self.prices(model)?.cost(&self.count(model, prompt, "", count))),
        }
    }

    /// Counts what was used, where the provider has not said: for a prompt, what was answered, and
    /// so many images.
    pub(super) fn count(self, model: &Model, prompt: &Prompt, answer: &str, images: u64) -> Usage {
        let prompt_tokens = || tokens::of_texts(prompt);
        match self {
            Self::Tokens => tokens::count(prompt, answer),
            Self::Input => Usage::of_prompt(prompt_tokens()),
            // Paid for by the piece.
            Self::Images(_) if model.config.image_price.is_some() => Usage::default(),
            Self::Images(_) => Usage {
                completion: PER_IMAGE.saturating_mul(images),
                ..Usage::of_prompt(prompt_tokens())
            },
        }
    }

    /// How many images there are, or were asked for where nobody has counted them.
    pub(super) fn images(self, made: Option<u64>) -> u64 {
        match self {
            Self::Images(asked) => made.unwrap_or(asked),
            Self::Tokens | Self::Input => 0,
        }
    }
}

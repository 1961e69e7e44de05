//! The basis on which a call is priced.

use domain::conversation::Prompt;
use domain::model::{Model, Provider};
use domain::money::{Prices, Usd};
use domain::step::ApiEndpoint;
use domain::usage::Usage;
use serde_json::Value;

use crate::pipeline::tokens;

/// The completion tokens of one image at Google, whatever its shape.
const OF_GOOGLE: u64 = 1290;
/// The completion tokens of an image of 1024x1024 at OpenAI, by quality. Others take about as many
/// more as they have more pixels.
const LOW: u64 = 272;
const MEDIUM: u64 = 1056;
const HIGH: u64 = 4160;
const SQUARE: u64 = 1024 * 1024;
/// The most pixels of an image whose size is left to the provider.
const LARGE: u64 = 1536 * 1024;

/// The unit that a provider charges for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PricingBasis {
    /// Prompt and completion tokens.
    Tokens,
    /// Prompt tokens alone (embeddings).
    Input,
    /// A number of images, if the model has a price for one; else tokens.
    Images(u64),
}

impl PricingBasis {
    pub(crate) fn of(api_endpoint: ApiEndpoint, prompt: &Prompt) -> Self {
        match api_endpoint {
            ApiEndpoint::Embeddings => Self::Input,
            ApiEndpoint::Images => {
                Self::Images(prompt.params.get("n").and_then(Value::as_u64).unwrap_or(1))
            }
            _ => Self::Tokens,
        }
    }

    /// Whether a model can be used for a call that is charged so.
    pub(crate) fn fits(self, model: &Model) -> bool {
        match self {
            Self::Tokens => true,
            Self::Input => providers::check_embeddings(model).is_ok(),
            Self::Images(_) => providers::check_images(model).is_ok(),
        }
    }

    /// Whether a text is the answer.
    pub(super) fn is_for_text(self) -> bool {
        self == Self::Tokens
    }

    /// The prices of tokens, if tokens are charged by themselves.
    pub(crate) fn prices(self, model: &Model) -> Option<Prices> {
        match self {
            Self::Input => model.input_prices(),
            Self::Images(_) if model.config.image_price.is_some() => None,
            Self::Tokens | Self::Images(_) => model.prices(),
        }
    }

    /// The price of one image.
    pub(crate) fn image_price(self, model: &Model) -> Option<Usd> {
        model.config.image_price.filter(|_| matches!(self, Self::Images(_)))
    }

    /// Whether the call has a price.
    pub(crate) fn is_priced(self, model: &Model) -> bool {
        self.image_price(model).is_some() || self.prices(model).is_some()
    }

    /// The most that the requested images can cost, with `prompt` tokens in the prompt.
    pub(super) fn most_of_images(
        self,
        model: &Model,
        prompt: &Prompt,
        prompt_tokens: u64,
    ) -> Option<Usd> {
        let Self::Images(count) = self else { return None };
        if let Some(price) = self.image_price(model) {
            return Some(price.times(count));
        }
        let completion = tokens_of_image(model.provider, prompt, HIGH, LARGE).saturating_mul(count);
        let usage = Usage { completion, ..Usage::of_prompt(prompt_tokens) };
        Some(dearest(self.prices(model)?, model, prompt).cost(&usage))
    }

    /// The cost of the requested images, as far as it is known before they are made.
    pub(crate) fn cost_of_images(self, model: &Model, prompt: &Prompt) -> Option<Usd> {
        let Self::Images(count) = self else { return None };
        match self.image_price(model) {
            Some(price) => Some(price.times(count)),
            None => Some(self.prices(model)?.cost(&self.count(model, prompt, "", count))),
        }
    }

    /// Counts the usage, if the provider has not reported it: for a prompt, an answer, and a number
    /// of images.
    pub(super) fn count(self, model: &Model, prompt: &Prompt, answer: &str, images: u64) -> Usage {
        let prompt_tokens = || tokens::of_texts(prompt);
        match self {
            Self::Tokens => tokens::count(prompt, answer, model.config.context_window),
            Self::Input => Usage::of_prompt(prompt_tokens()),
            // Paid for by the piece.
            Self::Images(_) if model.config.image_price.is_some() => Usage::default(),
            Self::Images(_) => Usage {
                completion: tokens_of_image(model.provider, prompt, MEDIUM, SQUARE)
                    .saturating_mul(images),
                ..Usage::of_prompt(prompt_tokens())
            },
        }
    }

    /// The number of images made, or requested if the number made is unknown.
    pub(super) fn images(self, made: Option<u64>) -> u64 {
        match self {
            Self::Images(requested) => made.unwrap_or(requested),
            Self::Tokens | Self::Input => 0,
        }
    }
}

/// Prices at which no prompt token is cheaper than it may turn out to be: a provider may write it to its
/// cache, for minutes or for an hour.
pub(super) fn dearest(prices: Prices, model: &Model, prompt: &Prompt) -> Prices {
    let mut input = prices.input.max(prices.cached_input);
    // The prompt is searched only if that makes a difference.
    if prices.cache_write.max(prices.cache_write_1h) > input
        && providers::may_write_cache(model, prompt)
    {
        input = input.max(prices.cache_write);
        if prices.cache_write_1h > input && providers::may_keep_for_an_hour(model, prompt) {
            input = prices.cache_write_1h;
        }
    }
    Prices { input, ..prices }
}

/// About the completion tokens of one image, with the quality (as tokens of a square) and the
/// pixels that are assumed if the caller leaves them to the provider.
fn tokens_of_image(provider: Provider, prompt: &Prompt, unsaid: u64, pixels: u64) -> u64 {
    if provider == Provider::Gemini {
        return OF_GOOGLE;
    }
    let param = |name: &str| prompt.params.get(name).and_then(Value::as_str);
    let of_square = match param("quality") {
        None | Some("auto") => unsaid,
        Some("low") => LOW,
        Some("medium" | "standard") => MEDIUM,
        Some(_) => HIGH,
    };
    let requested = param("size").and_then(providers::parse_size);
    let requested = requested.map(|(width, height)| u64::from(width) * u64::from(height));
    of_square.saturating_mul(requested.unwrap_or(pixels)).div_ceil(SQUARE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(size: &str, quality: Option<&str>) -> (u64, u64) {
        let mut params = serde_json::Map::from_iter([("size".to_owned(), json!(size))]);
        params.extend(quality.map(|quality| ("quality".to_owned(), json!(quality))));
        let prompt = Prompt { params, ..Prompt::default() };
        let of = |unsaid, pixels| tokens_of_image(Provider::Openai, &prompt, unsaid, pixels);
        (of(MEDIUM, SQUARE), of(HIGH, LARGE))
    }

    /// The figures are those of OpenAI's manual.
    #[test]
    fn images_take_tokens_by_quality_and_size() {
        for (size, quality, about, most) in [
            ("1024x1024", Some("low"), 272, 272),
            ("1024x1536", Some("low"), 408, 408),
            ("1024x1024", Some("medium"), 1056, 1056),
            ("1024x1536", Some("high"), 6240, 6240),
            ("1024x1024", None, 1056, 4160),
            ("1024x1024", Some("auto"), 1056, 4160),
            ("auto", None, 1056, 6240),
            ("auto", Some("low"), 272, 408),
        ] {
            assert_eq!(tokens(size, quality), (about, most), "{size} {quality:?}");
        }
    }
}

//! The model registry: the models that a project may call, their addresses, and their prices.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::fees::FeePrices;
use crate::ids::{ModelId, ProjectId};
use crate::money::{CachePrices, Price, Prices, Usd};
use crate::secret::Secret;
use crate::tier::words;
use crate::time::Timestamp;

words!(
    /// The wire format of a model.
    Provider {
        /// The chat-completions format, the vendor's own or any compatible server.
        Openai = "openai",
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// Google's generateContent.
        Gemini = "gemini",
        /// AWS Bedrock's Converse.
        Bedrock = "bedrock",
        /// The chat-completions format as Azure deploys it.
        Azure = "azure",
        /// The chat-completions format on a server of one's own.
        Internal = "internal",
    }
);

impl Provider {
    /// Reads a provider's name or one of its aliases.
    pub fn parse_alias(word: &str) -> Option<Self> {
        match word {
            "google" => Some(Self::Gemini),
            "azure_openai" => Some(Self::Azure),
            "aws_bedrock" => Some(Self::Bedrock),
            _ => Self::parse(word),
        }
    }

    /// Whether sensitive requests may be sent to a model of it: a server of one's own is private whatever it is
    /// called.
    pub(crate) fn is_private(self, is_public: bool) -> bool {
        !is_public || self == Self::Internal
    }
}

/// The `base_url` that stands for the model the gateway serves itself.
pub const SANDBOX_URL: &str = "sandbox:";

/// A model definition as the request path reads it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its number.
    pub id: ModelId,
    /// The project that owns it.
    pub project: ProjectId,
    /// For people.
    pub name: String,
    /// The name that callers pass as `model`; unique in the project.
    pub identifier: String,
    /// Its wire format.
    pub provider: Provider,
    /// Its address; `None` means the vendor's own endpoint.
    pub base_url: Option<String>,
    /// The provider's credential.
    pub api_key: Option<Secret>,
    /// Whether data leaves the customer's own ground by calling it.
    pub is_public: bool,
    /// USD per 1,000 prompt tokens; `None` if unknown.
    pub input_price: Option<Price>,
    /// USD per 1,000 completion tokens; `None` if unknown.
    pub output_price: Option<Price>,
    /// Days before trace data of this model is purged; at least 1.
    pub data_retention_days: i64,
    /// A region tag; `global` is everywhere.
    pub region: String,
    /// A label for cost reports.
    pub currency: String,
    /// Everything else, as the registry keeps it.
    pub config: ModelConfig,
    /// When it was registered.
    pub created_at: Timestamp,
}

impl Model {
    /// Whether sensitive requests may be sent to it.
    pub fn is_private(&self) -> bool {
        self.provider.is_private(self.is_public)
    }

    /// Whether the gateway itself answers for it.
    pub fn is_sandbox(&self) -> bool {
        self.base_url.as_deref() == Some(SANDBOX_URL)
    }

    /// Whether a call of the other one goes to the same address with the same credential.
    pub fn is_reached_like(&self, other: &Self) -> bool {
        let key = |model: &Self| model.api_key.as_ref().map(|key| key.expose().to_owned());
        let keys = |model: &Self| -> Vec<_> {
            model.config.endpoints.iter().map(|endpoint| key(&endpoint.model)).collect()
        };
        self.provider == other.provider
            && self.base_url == other.base_url
            && self.upstream_name() == other.upstream_name()
            && self.config.all == other.config.all
            && key(self) == key(other)
            && keys(self) == keys(other)
    }

    /// The provider's name for it.
    pub fn upstream_name(&self) -> &str {
        self.config.upstream_model.as_deref().unwrap_or(&self.identifier)
    }

    /// The label its cost is grouped by.
    pub fn infrastructure(&self) -> &str {
        match &self.config.infrastructure {
            Some(label) => label,
            None if self.is_private() => "private",
            None => "public_cloud",
        }
    }

    /// The prices of its tokens; `None` when it is public and has no price.
    pub fn prices(&self) -> Option<Prices> {
        let output = self.output_price.or(self.unknown_price())?;
        Some(Prices { output, ..self.input_prices()? })
    }

    /// The price of its prompt tokens if there are no others; `None` when it is public and has no
    /// price for them.
    pub fn input_prices(&self) -> Option<Prices> {
        let input = self.input_price.or(self.unknown_price())?;
        let ModelConfig { cached_input_price, cache_write_price, cache_write_1h_price, .. } =
            self.config;
        let (read, write, write_1h) = (cached_input_price, cache_write_price, cache_write_1h_price);
        Some(Prices::new(input, Price::ZERO, CachePrices { read, write, write_1h }))
    }

    /// The price if none is set: zero on a private model.
    fn unknown_price(&self) -> Option<Price> {
        self.is_private().then_some(Price::ZERO)
    }
}

/// The known keys of `additional_config`, and the whole object as it was given.
#[derive(Clone, Debug, Default)]
pub struct ModelConfig {
    /// `infrastructure`.
    pub infrastructure: Option<String>,
    /// `fallback_identifier`.
    pub fallback: Option<String>,
    /// `upstream_model`.
    pub upstream_model: Option<String>,
    /// `max_output_tokens`.
    pub max_output_tokens: Option<u64>,
    /// `context_window`: the most tokens of a prompt and its answer together.
    pub context_window: Option<u64>,
    /// `timeout_ms`: the total time of a call.
    pub timeout: Option<Duration>,
    /// `cached_input_cost_per_1k`.
    pub cached_input_price: Option<Price>,
    /// `cache_write_cost_per_1k`.
    pub cache_write_price: Option<Price>,
    /// `cache_write_1h_cost_per_1k`.
    pub cache_write_1h_price: Option<Price>,
    /// `cost_per_image`: USD for one image.
    pub image_price: Option<Usd>,
    /// `prices`: what its vendor charges beside tokens.
    pub fees: FeePrices,
    /// `endpoints`: the endpoints that serve the model; empty when it has one, its own.
    pub endpoints: Vec<Endpoint>,
    /// Every key, known or not.
    pub all: Map<String, Value>,
}

/// One of several endpoints that serve a model.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its position in the list, from 0.
    pub index: usize,
    /// Its share of the calls is this over the sum of all weights; finite and above 0.
    pub weight: f64,
    /// The model as it is called there: with the endpoint's address, credential and region, and
    /// without endpoints.
    pub model: Arc<Model>,
}

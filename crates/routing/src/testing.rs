//! A model for the tests.

use domain::ids::{ModelId, ProjectId};
use domain::model::{Model, ModelConfig, Provider};
use domain::time::Timestamp;

/// A public model of OpenAI's without prices, `m` and its number.
pub(crate) fn model(number: i64) -> Model {
    Model {
        id: ModelId(number),
        project: ProjectId(1),
        name: format!("Model {number}"),
        identifier: format!("m{number}"),
        provider: Provider::Openai,
        base_url: None,
        api_key: None,
        is_public: true,
        input_price: None,
        output_price: None,
        data_retention_days: 30,
        region: "global".into(),
        currency: "USD".into(),
        config: ModelConfig::default(),
        created_at: Timestamp(0),
    }
}

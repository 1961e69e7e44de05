//! Model definitions as they are stored, read: configuration, credentials, list prices.

pub(crate) mod config;
pub(crate) mod endpoints;
pub(crate) mod fees;

use domain::model::{Model, Provider};
use domain::secret::Secret;
use store::{ModelRow, SealingKey};

use crate::error::{Error, Result};
use crate::state::list_prices;

/// The context that ties a sealed credential to its field. The data key is the project's own, so a
/// credential cannot move between projects.
pub(crate) const CREDENTIAL: &str = "model:api_key";

/// Opens a stored definition.
pub(crate) fn open(row: ModelRow, sealing: &SealingKey) -> Result<Model> {
    let api_key = match &row.api_key {
        Some(sealed) => {
            let plain = sealing.open(CREDENTIAL, sealed)?;
            let text = String::from_utf8(plain)
                .map_err(|_| Error::Internal(format!("model {}: credential", row.id)))?;
            Some(Secret::new(text))
        }
        None => None,
    };
    let (mut config, given) = config::stored(&row)?;
    let keys = endpoints::open_keys(&row, sealing)?;
    let name = config.upstream_model.as_deref().unwrap_or(&row.identifier);
    let list =
        list_prices::list_price(name, row.provider).filter(|_| row.provider != Provider::Internal);
    // Its faults were refused when it was saved.
    let given_fees = fees::read(&config.all, &mut Vec::new());
    config.fees = given_fees.of(row.provider, name, list.is_some() || row.is_public);
    if let Some(list) = list {
        list.complete(&mut config, row.input_price, row.output_price);
    }
    let mut model = Model {
        input_price: row.input_price.or(list.and_then(|list| list.input)),
        output_price: row.output_price.or(list.and_then(|list| list.output)),
        id: row.id,
        project: row.project,
        name: row.name,
        identifier: row.identifier,
        provider: row.provider,
        base_url: row.base_url,
        api_key,
        is_public: row.is_public,
        data_retention_days: row.data_retention_days,
        region: row.region,
        currency: row.currency,
        config,
        created_at: row.created_at,
    };
    model.config.endpoints = endpoints::place(&model, given, keys);
    Ok(model)
}

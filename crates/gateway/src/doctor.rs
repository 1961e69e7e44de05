//! What `sluice doctor` asks of the registry: prices, tiers, and whether models can be reached.

use std::collections::HashMap;
use std::time::Duration;

use domain::model::Model;
use domain::settings::Settings;
use domain::tier::Tier;
use providers::Client;
use store::Store;

use crate::error::{Error, Result};
use crate::models;

/// One thing that was looked at.
#[derive(Debug)]
pub struct Finding {
    /// Whether nothing has to be done.
    pub well: bool,
    /// What was seen, and what to do.
    pub what: String,
}

/// Looks at every project's tiers and every model's price and reachability.
pub async fn inspect_models(
    store: &Store,
    client: &Client,
    patience: Duration,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let sealing: HashMap<_, _> = store.data_keys().await?.into_iter().collect();
    let rows = store.models().await?;
    for project in store.projects().await? {
        let settings = Settings::parse(&project.settings).map_err(Error::Invalid)?;
        let key = sealing
            .get(&project.id)
            .ok_or_else(|| Error::Internal(format!("project {} has no data key", project.id)))?;
        let own = rows.iter().filter(|row| row.project == project.id);
        let own: Vec<Model> =
            own.map(|row| models::open(row.clone(), key)).collect::<Result<_>>()?;
        let named = format!("project {} ({})", project.id, project.name);
        for &tier in Tier::ALL {
            let configured = settings.routing_tiers.get(&tier);
            let well =
                configured.is_some_and(|model| own.iter().any(|known| known.identifier == *model));
            if !well {
                let what = format!(
                    "{named}: the tier `{tier}` has no registered model; set settings.routing_tiers.{tier}"
                );
                findings.push(Finding { well, what });
            }
        }
        for model in &own {
            findings.push(price(&named, model));
            findings.push(reach(&named, model, client, patience).await);
        }
    }
    Ok(findings)
}

fn price(named: &str, model: &Model) -> Finding {
    let identifier = &model.identifier;
    if model.prices().is_some() {
        return Finding { well: true, what: format!("{named}: model {identifier} has a price.") };
    }
    let what = format!(
        "{named}: model {identifier} is public and has no price; keys with a cap cannot use it. Set \
         input_cost_per_1k and output_cost_per_1k"
    );
    Finding { well: false, what }
}

async fn reach(named: &str, model: &Model, client: &Client, patience: Duration) -> Finding {
    let identifier = &model.identifier;
    let fault = match tokio::time::timeout(patience, client.probe(model)).await {
        Ok(Ok(())) => {
            let what = format!("{named}: model {identifier} can be reached.");
            return Finding { well: true, what };
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} seconds", patience.as_secs()),
    };
    let what = format!(
        "{named}: model {identifier} cannot be reached: {fault}. Check base_url, the network and the egress rules"
    );
    Finding { well: false, what }
}

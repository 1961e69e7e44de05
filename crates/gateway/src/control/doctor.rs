//! The checks of `sluice doctor` on the registry: prices, tiers, and whether models can be reached. And its
//! advice on safety settings, by the verdicts of people.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::model::Model;
use domain::tier::Tier;
use domain::time::Clock;
use providers::Client;
use store::Store;

use crate::error::Result;
use crate::evidence::reviews::advice_on;
use crate::state::registry::Registry;

/// One thing that was looked at.
#[derive(Debug)]
pub struct Finding {
    /// Whether nothing has to be done.
    pub well: bool,
    /// The observation, and the action to take.
    pub what: String,
}

/// Looks at every project, its tiers, and its models' price and reachability.
pub async fn inspect_models(
    store: &Store,
    client: &Client,
    patience: Duration,
    clock: &Clock,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let registry = Registry::load(store, clock).await?;
    for (project, why) in registry.unreadable() {
        let what = format!(
            "project {project} cannot be read and is not served: {why}. Start the version that wrote it, or \
             restore a backup"
        );
        findings.push(Finding { well: false, what });
    }
    for project in registry.projects() {
        let named = format!("project {} ({})", project.id(), project.project.name);
        for &tier in Tier::ALL {
            let configured = project.settings.routing_tiers.get(&tier);
            let well = configured.is_some_and(|model| project.models.contains_key(model));
            if !well {
                let what = format!(
                    "{named}: the tier `{tier}` has no registered model; set settings.routing_tiers.{tier}"
                );
                findings.push(Finding { well, what });
            }
        }
        for model in by_id(&project.models) {
            findings.push(price(&named, model));
            if model.config.endpoints.is_empty() {
                let what = format!("model {}", model.identifier);
                findings.push(reach(&named, &what, model, client, patience).await);
            }
            for endpoint in &model.config.endpoints {
                let what = format!("endpoints[{}] of model {}", endpoint.index, model.identifier);
                findings.push(reach(&named, &what, &endpoint.model, client, patience).await);
            }
        }
    }
    Ok(findings)
}

/// Advice on the safety settings of every project, in sentences. None of it is a fault; a project whose verdicts
/// cannot be read hides no other.
pub async fn inspect_reviews(store: &Store, clock: &Clock) -> Result<Vec<String>> {
    let registry = Registry::load(store, clock).await?;
    let mut sentences = Vec::new();
    for project in registry.projects() {
        let named = format!("project {} ({})", project.id(), project.project.name);
        match advice_on(store, &project, clock.now()).await {
            Ok(judged) => sentences.extend(judged.iter().map(|one| format!("{named}: {one}"))),
            Err(error) => {
                sentences.push(format!("{named}: its verdicts give no advice: {}", error.cause()));
            }
        }
    }
    Ok(sentences)
}

fn by_id(models: &HashMap<String, Arc<Model>>) -> Vec<&Arc<Model>> {
    let mut all: Vec<_> = models.values().collect();
    all.sort_by_key(|model| model.id);
    all
}

fn price(named: &str, model: &Model) -> Finding {
    let identifier = &model.identifier;
    if model.prices().is_some() || model.config.image_price.is_some() {
        return Finding { well: true, what: format!("{named}: model {identifier} has a price.") };
    }
    let what = format!(
        "{named}: model {identifier} is public and has no price; keys with a cap cannot use it. Set \
         input_cost_per_1k and output_cost_per_1k"
    );
    Finding { well: false, what }
}

async fn reach(
    named: &str,
    place: &str,
    model: &Model,
    client: &Client,
    patience: Duration,
) -> Finding {
    let fault = match tokio::time::timeout(patience, client.probe(model)).await {
        Ok(Ok(())) => {
            let what = format!("{named}: {place} can be reached.");
            return Finding { well: true, what };
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} seconds", patience.as_secs()),
    };
    let what = format!(
        "{named}: {place} cannot be reached: {fault}. Check base_url, the network and the egress rules"
    );
    Finding { well: false, what }
}

//! Steps that are alike in everything that usage is grouped by, read once for all dimensions.

use std::collections::BTreeMap;

use domain::money::Usd;

use super::{ALL, Dimension, GroupRow, IS_COUNTED, OF_STEP, SUMS};
use crate::error::{Error, Result};
use crate::from_row::from_row;

/// Requests, blocked, failures, tokens of the prompt, of these from a cache, of the completion, and cost.
pub(super) type Sums = [i64; 7];

from_row! {
    /// The usage of steps that are alike in every dimension.
    #[derive(Debug)]
    pub(super) struct Alike {
        model: String,
        key: String,
        tier: String,
        endpoint: String,
        user: String,
        session: String,
        tags: String,
        requests: i64,
        blocked: i64,
        failures: i64,
        prompt_tokens: i64,
        cached_tokens: i64,
        completion_tokens: i64,
        dollars: i64,
        nanos: i64,
    }
}

/// The usage of steps, by dimension and value. Steps without a tag are in none of its values.
#[derive(Clone, Debug, Default)]
pub(super) struct ByValue(pub(super) BTreeMap<(String, String), Sums>);

impl ByValue {
    /// Counts steps in every dimension.
    pub(super) fn count(&mut self, alike: Alike) -> Result<()> {
        let Alike { model, key, tier, endpoint, user, session, tags, .. } = &alike;
        for (dimension, value) in [
            (ALL, ""),
            ("model", model.as_str()),
            ("key", key.as_str()),
            ("tier", tier.as_str()),
            ("endpoint", endpoint.as_str()),
            ("user", user.as_str()),
            ("session", session.as_str()),
        ] {
            self.add(dimension.to_owned(), value.to_owned(), &alike);
        }
        if !tags.is_empty() {
            let tags: BTreeMap<String, String> = serde_json::from_str(tags)
                .map_err(|_| Error::Corrupt("the tags of a step".to_owned()))?;
            for (name, value) in tags {
                self.add(format!("tag:{name}"), value, &alike);
            }
        }
        Ok(())
    }

    /// Adds the usage of other steps.
    pub(super) fn add_all(&mut self, other: &Self) {
        for (group, more) in &other.0 {
            match self.0.get_mut(group) {
                Some(sums) => add(sums, *more),
                None => drop(self.0.insert(group.clone(), *more)),
            }
        }
    }

    fn add(&mut self, dimension: String, value: String, alike: &Alike) {
        let more = [
            alike.requests,
            alike.blocked,
            alike.failures,
            alike.prompt_tokens,
            alike.cached_tokens,
            alike.completion_tokens,
            Usd::of_parts(alike.dollars, alike.nanos).0,
        ];
        add(self.0.entry((dimension, value)).or_default(), more);
    }

    /// The groups of a dimension; those without a value of it are the group of none.
    pub(super) fn groups(&self, dimension: &Dimension) -> Vec<GroupRow> {
        let name = dimension.name();
        let mut groups: Vec<GroupRow> = self
            .0
            .range((name.clone(), String::new())..)
            .take_while(|((of, _), _)| *of == name)
            .map(|((_, value), sums)| GroupRow::of(value, *sums))
            .collect();
        if dimension.tag().is_some()
            && let Some(all) = self.0.get(&(ALL.to_owned(), String::new()))
        {
            let without =
                groups.iter().fold(GroupRow::of("", *all), |left, group| left.without(group));
            groups.push(without);
        }
        groups
    }
}

fn add(sums: &mut Sums, more: Sums) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

/// The usage of the steps of the project $1 that fit a condition. Columns are made of groups: made of steps, each
/// expression runs once a step.
pub(super) fn alike(condition: &str) -> String {
    format!(
        "SELECT COALESCE(model, '') AS model,
                COALESCE(CAST(key_id AS TEXT), '') AS key,
                COALESCE(tier, '') AS tier,
                api_endpoint AS endpoint,
                COALESCE(attr_user, '') AS \"user\",
                COALESCE(attr_session, '') AS session,
                COALESCE(attr_tags, '') AS tags,
                {SUMS}
         FROM (
             SELECT model, key_id, tier, api_endpoint, attr_user, attr_session, attr_tags, {OF_STEP}
             FROM steps
             WHERE project_id = $1 AND {condition} AND {IS_COUNTED}) AS counted
         GROUP BY counted.model, key_id, counted.tier, api_endpoint, attr_user, attr_session, attr_tags"
    )
}

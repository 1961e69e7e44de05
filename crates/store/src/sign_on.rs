//! Single sign-on: the providers.

use std::collections::HashMap;

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, ProjectId, SignOnProviderId};
use domain::secret::Secret;
use domain::sign_on::SignOnRule;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::people::role;
use crate::seal::SealingKey;

/// A provider of single sign-on: an issuer, and what it knows of us.
#[derive(Clone, Debug)]
pub struct SignOnProvider {
    /// Its number; 0 before it is added.
    pub id: SignOnProviderId,
    /// The organization.
    pub org: OrgId,
    /// Its name in addresses. No other provider has it.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// The issuer, as it names itself.
    pub issuer: String,
    /// Our id there.
    pub client_id: String,
    /// Our secret there, if we have one.
    pub client_secret: Option<Secret>,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// The claim with the groups of a user.
    pub groups_claim: String,
    /// The rules, in order.
    pub rules: Vec<SignOnRule>,
    /// Whether a second factor that the issuer has seen counts.
    pub trusts_factor: bool,
    /// When it was added.
    pub created_at: Timestamp,
}

const LIST: &str = "
    SELECT id, org_id, slug, name, issuer, client_id, client_secret, scopes, groups_claim, rules,
           trusts_factor, created_at
    FROM sign_on_providers WHERE org_id = $1 ORDER BY name, id";

from_row! {
    struct Row {
        id: i64,
        org_id: i64,
        slug: String,
        name: String,
        issuer: String,
        client_id: String,
        client_secret: Option<Vec<u8>>,
        scopes: String,
        groups_claim: String,
        rules: String,
        trusts_factor: bool,
        created_at: i64,
    }
}

/// A rule as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredRule {
    claim_value: String,
    role: String,
    projects: Vec<ProjectId>,
}

impl SignOnProvider {
    /// Whether it asks this issuer, as this client.
    pub fn is_client(&self, issuer: &str, client_id: &str) -> bool {
        self.issuer == issuer && self.client_id == client_id
    }
}

impl Row {
    fn read(self, master: &SealingKey) -> Result<SignOnProvider> {
        let corrupt = |what: &str| Error::Corrupt(format!("sign-on provider {}: {what}", self.id));
        let open = |sealed: Vec<u8>| -> Result<Secret> {
            let secret = String::from_utf8(master.open(&place(self.id), &sealed)?);
            Ok(Secret::new(secret.map_err(|_| Error::Seal)?))
        };
        let rules: Vec<StoredRule> =
            serde_json::from_str(&self.rules).map_err(|_| corrupt("rules"))?;
        let rule = |rule: StoredRule| {
            let StoredRule { claim_value, role: word, projects } = rule;
            Ok(SignOnRule { claim_value, role: role(&word)?, projects })
        };
        Ok(SignOnProvider {
            id: SignOnProviderId(self.id),
            org: OrgId(self.org_id),
            client_secret: self.client_secret.map(open).transpose()?,
            scopes: serde_json::from_str(&self.scopes).map_err(|_| corrupt("scopes"))?,
            rules: rules.into_iter().map(rule).collect::<Result<_>>()?,
            slug: self.slug,
            name: self.name,
            issuer: self.issuer,
            client_id: self.client_id,
            groups_claim: self.groups_claim,
            trusts_factor: self.trusts_factor,
            created_at: Timestamp(self.created_at),
        })
    }
}

impl Store {
    /// The providers of an organization, by name.
    #[boxed]
    pub async fn sign_on_providers(&self, org: OrgId) -> Result<Vec<SignOnProvider>> {
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(LIST).bind(org.0).fetch_all(db).await?
        });
        rows.into_iter().map(|row| row.read(&self.master)).collect()
    }

    /// One of them as a transaction sees it, by the connection that the transaction has: there are few.
    #[boxed]
    pub async fn sign_on_provider_of_now(
        &self,
        tx: &mut Tx,
        org: OrgId,
        id: SignOnProviderId,
    ) -> Result<Option<SignOnProvider>> {
        let rows: Vec<Row> = within!(tx, db => {
            sqlx::query_as(LIST).bind(org.0).fetch_all(&mut *db).await?
        });
        let row = rows.into_iter().find(|row| row.id == id.0);
        row.map(|row| row.read(&self.master)).transpose()
    }

    /// Adds a provider. [`Error::Taken`] when its slug is in use.
    #[boxed]
    pub async fn add_sign_on_provider(
        &self,
        tx: &mut Tx,
        new: &SignOnProvider,
    ) -> Result<SignOnProviderId> {
        const ADD: &str = "
            INSERT INTO sign_on_providers
                (org_id, slug, name, issuer, client_id, scopes, groups_claim, rules, created_at)
            VALUES ($1, $2, $3, $4, $5, '[]', '', '[]', $6) RETURNING id";
        let id: i64 = within!(tx, db => {
            sqlx::query_scalar(ADD)
                .bind(new.org.0)
                .bind(&new.slug)
                .bind(&new.name)
                .bind(&new.issuer)
                .bind(&new.client_id)
                .bind(new.created_at.0)
                .fetch_one(&mut *db)
                .await?
        });
        let id = SignOnProviderId(id);
        // The place of its secret has its number.
        self.save_sign_on_provider(tx, &SignOnProvider { id, ..new.clone() }).await?;
        Ok(id)
    }

    /// Writes everything of a provider. [`Error::Taken`] when its slug is in use.
    #[boxed]
    pub async fn save_sign_on_provider(
        &self,
        tx: &mut Tx,
        provider: &SignOnProvider,
    ) -> Result<()> {
        const SAVE: &str = "
            UPDATE sign_on_providers
            SET slug = $2, name = $3, issuer = $4, client_id = $5, client_secret = $6, scopes = $7,
                groups_claim = $8, rules = $9, trusts_factor = $10
            WHERE id = $1";
        let seal =
            |secret: &Secret| self.master.seal(&place(provider.id.0), secret.expose().as_bytes());
        let sealed = provider.client_secret.as_ref().map(seal).transpose()?;
        let stored = |rule: &SignOnRule| StoredRule {
            claim_value: rule.claim_value.clone(),
            role: rule.role.as_str().to_owned(),
            projects: rule.projects.clone(),
        };
        let rules: Vec<StoredRule> = provider.rules.iter().map(stored).collect();
        within!(tx, db => {
            sqlx::query(SAVE)
                .bind(provider.id.0)
                .bind(&provider.slug)
                .bind(&provider.name)
                .bind(&provider.issuer)
                .bind(&provider.client_id)
                .bind(sealed)
                .bind(json(&provider.scopes)?)
                .bind(&provider.groups_claim)
                .bind(json(&rules)?)
                .bind(provider.trusts_factor)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// The provider of a session that came by one.
    #[boxed]
    pub async fn provider_of_session(
        &self,
        token_hash: &[u8; 32],
    ) -> Result<Option<SignOnProviderId>> {
        const FIND: &str = "SELECT provider_id FROM sessions WHERE token_hash = $1";
        let found: Option<Option<i64>> = on!(&self.reader, db => {
            sqlx::query_scalar(FIND).bind(&token_hash[..]).fetch_optional(db).await?
        });
        Ok(found.flatten().map(SignOnProviderId))
    }
}

impl Store {
    /// How many sessions that began after `created` and were used after `seen` came by each provider of an
    /// organization; the one of this hash is left out.
    #[boxed]
    pub async fn sessions_by_providers(
        &self,
        org: OrgId,
        created: Timestamp,
        seen: Timestamp,
        but: Option<&[u8; 32]>,
    ) -> Result<HashMap<SignOnProviderId, i64>> {
        const COUNT: &str = "
            SELECT s.provider_id, count(*)
            FROM sign_on_providers p
            JOIN sessions s ON s.provider_id = p.id
            WHERE p.org_id = $1 AND s.created_at >= $2 AND s.last_seen_at >= $3
              AND NOT s.awaits_factor AND s.token_hash <> $4
            GROUP BY s.provider_id";
        // No token has the empty hash.
        let but = but.map_or(&[][..], |hash| &hash[..]);
        let rows: Vec<(i64, i64)> = on!(&self.reader, db => {
            let query = sqlx::query_as(COUNT).bind(org.0).bind(created.0).bind(seen.0).bind(but);
            query.fetch_all(db).await?
        });
        Ok(rows.into_iter().map(|(id, count)| (SignOnProviderId(id), count)).collect())
    }
}

impl Tx {
    /// Withdraws the second factors that the issuer of a provider has seen. Sessions of users with a factor of
    /// their own, which they were not asked for, await it.
    #[boxed]
    pub async fn withdraw_factors(&mut self, provider: SignOnProviderId) -> Result<()> {
        const WITHDRAW: &str = "
            UPDATE sessions
            SET has_factor = FALSE,
                awaits_factor = (SELECT u.mfa_enabled FROM users u WHERE u.id = sessions.user_id)
            WHERE provider_id = $1 AND has_factor";
        within!(self, db => {
            sqlx::query(WITHDRAW).bind(provider.0).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// How many providers an organization has.
    #[boxed]
    pub async fn count_sign_on_providers(&mut self, org: OrgId) -> Result<i64> {
        const COUNT: &str = "SELECT count(*) FROM sign_on_providers WHERE org_id = $1";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(org.0).fetch_one(&mut *db).await?
        }))
    }

    /// Removes a provider.
    #[boxed]
    pub async fn remove_sign_on_provider(&mut self, id: SignOnProviderId) -> Result<()> {
        within!(self, db => {
            sqlx::query("DELETE FROM sign_on_providers WHERE id = $1")
                .bind(id.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Ends the sessions that came by a provider, but for the one of this hash. Returns how many there were.
    #[boxed]
    pub async fn end_sessions_by(
        &mut self,
        provider: SignOnProviderId,
        but: Option<&[u8; 32]>,
    ) -> Result<u64> {
        const END: &str = "DELETE FROM sessions WHERE provider_id = $1 AND token_hash <> $2";
        // No token has the empty hash.
        let but = but.map_or(&[][..], |hash| &hash[..]);
        Ok(within!(self, db => {
            sqlx::query(END).bind(provider.0).bind(but).execute(&mut *db).await?.rows_affected()
        }))
    }

    /// Seals the secrets of all providers under another master key. Returns how many there are.
    #[boxed]
    pub(crate) async fn reseal_sign_on_secrets(
        &mut self,
        old: &SealingKey,
        new: &SealingKey,
    ) -> Result<usize> {
        const ALL: &str =
            "SELECT id, client_secret FROM sign_on_providers WHERE client_secret IS NOT NULL";
        const RESEAL: &str = "UPDATE sign_on_providers SET client_secret = $2 WHERE id = $1";
        let rows: Vec<(i64, Vec<u8>)> =
            within!(self, db => sqlx::query_as(ALL).fetch_all(&mut *db).await?);
        for (id, sealed) in &rows {
            let again = new.seal(&place(*id), &old.open(&place(*id), sealed)?)?;
            within!(self, db => {
                sqlx::query(RESEAL).bind(id).bind(again).execute(&mut *db).await?;
            });
        }
        Ok(rows.len())
    }
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Corrupt(error.to_string()))
}

fn place(provider: i64) -> String {
    format!("sign_on:{provider}")
}

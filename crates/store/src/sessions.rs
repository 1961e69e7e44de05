//! Sessions: begun, listed, ended.

use async_recursion::async_recursion as boxed;
use domain::ids::{SignOnProviderId, UserId};
use domain::time::Timestamp;

use crate::Store;
use crate::audit::clean;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};

/// A session that is about to begin.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// The hash of its token.
    pub token_hash: &'a [u8; 32],
    /// The user.
    pub user: UserId,
    /// Whether the second factor is still to come.
    pub awaits_factor: bool,
    /// The provider that it comes by; `None` if by a password.
    pub provider: Option<SignOnProviderId>,
    /// Whether a trusted issuer has seen a second factor.
    pub has_factor: bool,
    /// The address that it begins from.
    pub address: &'a str,
    /// The client that it begins with.
    pub user_agent: &'a str,
    /// When it begins.
    pub at: Timestamp,
}

/// A session that awaited its second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Its user.
    pub user: UserId,
    /// The provider that it came by; `None` if by a password.
    pub provider: Option<SignOnProviderId>,
}

/// A session in the list of its user's.
#[derive(Clone, Debug)]
pub struct ListedSession {
    /// The hash of its token.
    pub token_hash: [u8; 32],
    /// When it began.
    pub created_at: Timestamp,
    /// Its last request, to the minute.
    pub last_seen_at: Timestamp,
    /// The address that it began from; `None` of sessions that began before addresses were kept.
    pub address: Option<String>,
    /// The client that it began with, likewise.
    pub user_agent: Option<String>,
}

type Row = (Vec<u8>, i64, i64, Option<String>, Option<String>);

impl Store {
    /// The sessions of a user that are signed in, began after `created` and were used after `seen`: the
    /// latest `most`, by use.
    #[boxed]
    pub async fn sessions_of(
        &self,
        user: UserId,
        created: Timestamp,
        seen: Timestamp,
        most: i64,
    ) -> Result<Vec<ListedSession>> {
        const LIST: &str = "
            SELECT token_hash, created_at, last_seen_at, address, user_agent
            FROM sessions
            WHERE user_id = $1 AND NOT awaits_factor AND created_at >= $2 AND last_seen_at >= $3
            ORDER BY last_seen_at DESC, created_at DESC
            LIMIT $4";
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(LIST)
                .bind(user.0)
                .bind(created.0)
                .bind(seen.0)
                .bind(most)
                .fetch_all(db)
                .await?
        });
        rows.into_iter().map(read).collect()
    }
}

fn read(row: Row) -> Result<ListedSession> {
    let (hash, created_at, last_seen_at, address, user_agent) = row;
    let corrupt = |hash: Vec<u8>| Error::Corrupt(format!("a hash of {} bytes", hash.len()));
    Ok(ListedSession {
        token_hash: hash.try_into().map_err(corrupt)?,
        created_at: Timestamp(created_at),
        last_seen_at: Timestamp(last_seen_at),
        address,
        user_agent,
    })
}

/// The least and the most of the hashes of tokens that begin with these bytes.
pub(crate) fn hashes_of(prefix: [u8; 8]) -> (Vec<u8>, Vec<u8>) {
    let filled = |fill: u8| [prefix.as_slice(), &[fill; 24]].concat();
    (filled(0), filled(u8::MAX))
}

impl Tx {
    /// Begins a session.
    #[boxed]
    pub async fn add_session(&mut self, new: &NewSession<'_>) -> Result<()> {
        const ADD: &str = "
            INSERT INTO sessions
                (token_hash, user_id, created_at, last_seen_at, awaits_factor, address, user_agent,
                 provider_id, has_factor)
            VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8)";
        within!(self, db => {
            sqlx::query(ADD)
                .bind(&new.token_hash[..])
                .bind(new.user.0)
                .bind(new.at.0)
                .bind(new.awaits_factor)
                .bind(clean(new.address))
                .bind(clean(new.user_agent))
                .bind(new.provider.map(|provider| provider.0))
                .bind(new.has_factor)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Whether a user has a session of this hash, which awaits no second factor.
    #[boxed]
    pub async fn has_session(&mut self, user: UserId, token_hash: &[u8; 32]) -> Result<bool> {
        const FIND: &str = "
            SELECT user_id FROM sessions WHERE token_hash = $1 AND user_id = $2 AND NOT awaits_factor";
        let found: Option<i64> = within!(self, db => {
            sqlx::query_scalar(FIND)
                .bind(&token_hash[..])
                .bind(user.0)
                .fetch_optional(&mut *db)
                .await?
        });
        Ok(found.is_some())
    }

    /// Ends a session.
    #[boxed]
    pub async fn end_session(&mut self, token_hash: &[u8; 32]) -> Result<()> {
        within!(self, db => {
            sqlx::query("DELETE FROM sessions WHERE token_hash = $1")
                .bind(&token_hash[..])
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Ends a session that awaits its second factor. `None` if there is none, or not any more.
    #[boxed]
    pub async fn end_awaiting(&mut self, token_hash: &[u8; 32]) -> Result<Option<EndedSession>> {
        const END: &str = "
            DELETE FROM sessions WHERE token_hash = $1 AND awaits_factor RETURNING user_id, provider_id";
        let ended: Option<(i64, Option<i64>)> = within!(self, db => {
            sqlx::query_as(END).bind(&token_hash[..]).fetch_optional(&mut *db).await?
        });
        Ok(ended.map(|(user, provider)| EndedSession {
            user: UserId(user),
            provider: provider.map(SignOnProviderId),
        }))
    }

    /// Ends the session of a user whose hash begins with these bytes. `false` if there is none.
    #[boxed]
    pub async fn end_session_of(&mut self, user: UserId, prefix: [u8; 8]) -> Result<bool> {
        const END: &str = "
            DELETE FROM sessions WHERE user_id = $1 AND token_hash >= $2 AND token_hash <= $3
            AND NOT awaits_factor";
        let (least, most) = hashes_of(prefix);
        let ended = within!(self, db => {
            sqlx::query(END)
                .bind(user.0)
                .bind(least)
                .bind(most)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(ended > 0)
    }

    /// Ends all sessions of a user, but for the one of this hash. Returns how many there were.
    #[boxed]
    pub async fn end_sessions(&mut self, user: UserId, but: Option<&[u8; 32]>) -> Result<u64> {
        const END: &str = "DELETE FROM sessions WHERE user_id = $1 AND token_hash <> $2";
        // No token has the empty hash.
        let but = but.map_or(&[][..], |hash| &hash[..]);
        Ok(within!(self, db => {
            sqlx::query(END).bind(user.0).bind(but).execute(&mut *db).await?.rows_affected()
        }))
    }
}

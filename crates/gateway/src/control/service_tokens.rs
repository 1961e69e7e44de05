//! Service tokens: programs on the control plane, with a role and projects of their own.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::{OrgId, ProjectId, ServiceTokenId, UserId};
use domain::project::Role;
use domain::secret::Secret;
use domain::time::{DAY, MINUTE, SECOND, Timestamp};
use serde_json::{Map, Value, json};
use store::{Account, ServiceToken, Tx};
use subtle::ConstantTimeEq as _;

use crate::admission::admit::hash_secret;
use crate::audit::Event;
use crate::bounded_read::bounded;
use crate::control::people::{hold_people, read_role};
use crate::control::projects::{audited, clean_name};
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::member::Member;
use crate::state::perimeter_counts::PerimeterReason;

/// The most tokens of an organization that are not revoked.
const MOST: i64 = 200;
/// The most projects of a token.
const MOST_PROJECTS: usize = 100;
/// A token that is made without an expiry is good for this time, in microseconds.
const GOOD_FOR: i64 = 90 * DAY;
/// The shortest and the longest time of `expires_in`, in seconds.
const SHORTEST: i64 = 60;
const LONGEST: i64 = 10 * 366 * 24 * 3600;
/// A token that is made in a session is good for no longer, in microseconds: nothing but its end is sure to reach
/// one whose maker has left at their issuer alone.
const LONGEST_IN_SESSION: i64 = 366 * DAY;
/// Use is noted to the minute, not with every request.
const TOUCH_EVERY: i64 = MINUTE;

/// A service token that is about to be made.
#[derive(Clone, Debug)]
pub struct NewServiceToken {
    /// For people.
    pub name: String,
    /// `admin`, `member` or `viewer`.
    pub role: String,
    /// The projects that it sees, unless its role sees all.
    pub projects: Vec<ProjectId>,
    /// The end of its life.
    pub expiry: TokenExpiry,
}

/// The end of a token's life, as it is asked for.
#[derive(Clone, Debug)]
pub enum TokenExpiry {
    /// Nothing was asked for: 90 days.
    Default,
    /// It does not expire.
    Never,
    /// An ISO 8601 time.
    At(String),
    /// Seconds from now.
    In(i64),
}

impl Gateway {
    /// The member that a service token stands for.
    pub async fn service_token_member(&self, token: &str, origin: &Origin) -> Result<Member> {
        self.check_address(origin).await?;
        let now = self.clock.now();
        let known = self.known_token(token).await?;
        let refused = match &known {
            None => Some((Error::InvalidToken, PerimeterReason::InvalidToken)),
            Some(known) if self.has_expired(known) => {
                Some((Error::TokenExpired, PerimeterReason::ExpiredToken))
            }
            Some(_) => None,
        };
        if let Some((error, reason)) = refused {
            Box::pin(self.note_perimeter_block(origin, reason)).await;
            return Err(error);
        }
        let known = known.ok_or(Error::InvalidToken)?;
        if known.last_used_at.is_none_or(|at| now.since(at) > TOUCH_EVERY) {
            let noted = now.minus_micros(TOUCH_EVERY);
            self.store.touch_service_token(known.id, now, noted).await?;
        }
        Ok(Member {
            user: UserId(0),
            email: known.id.to_string(),
            token: Some(known.id),
            session: None,
            org: known.org,
            role: known.role,
            projects: if known.role.is_admin() { Vec::new() } else { known.projects },
            signed_in_at: known.created_at,
            origin: origin.clone(),
        })
    }

    /// The token with this secret, unless it is revoked.
    async fn known_token(&self, token: &str) -> Result<Option<ServiceToken>> {
        let Some((id, secret)) = token.split_once('.') else { return Ok(None) };
        let Ok(id) = id.parse::<ServiceTokenId>() else { return Ok(None) };
        let known = self.store.service_token(id).await?;
        // An unknown id takes as long as a wrong secret.
        let hash = hash_secret(self.registry.pepper(), secret);
        let expected = known.as_ref().map_or([0; 32], |known| known.secret_hash);
        let is_right: bool = hash.ct_eq(&expected).into();
        Ok(known.filter(|_| is_right))
    }

    /// The tokens of the organization that are not revoked, newest first (admin or owner).
    pub async fn list_service_tokens(&self, member: &Member) -> Result<Vec<ServiceToken>> {
        self.service_tokens_after(member, None, MOST).await
    }

    /// The first `most` tokens, newest first, behind the one that was made at a time and has an id.
    pub async fn service_tokens_after(
        &self,
        member: &Member,
        after: Option<(Timestamp, ServiceTokenId)>,
        most: i64,
    ) -> Result<Vec<ServiceToken>> {
        member.check_person()?;
        member.check_admin()?;
        bounded(self.store.service_tokens(member.org, after, most)).await
    }

    /// Whether the time of a token is over.
    pub fn has_expired(&self, token: &ServiceToken) -> bool {
        token.expires_at.is_some_and(|at| at <= self.clock.now())
    }

    /// Makes a token (admin or owner), which outlives the session: the owner of the account confirms it. Its secret
    /// is in the answer and nowhere else.
    pub async fn create_service_token(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
        new: NewServiceToken,
    ) -> Result<(ServiceToken, Secret)> {
        member.check_person()?;
        member.check_admin()?;
        let mut faults = Faults::default();
        let name = faults.note(clean_name(&new.name)).unwrap_or_default();
        let role = faults.note(token_role(&new.role)).unwrap_or(Role::Viewer);
        let mut projects = new.projects;
        projects.sort_unstable();
        projects.dedup();
        if projects.len() > MOST_PROJECTS {
            faults.add(format!("A token may have {MOST_PROJECTS} projects at most"));
        } else {
            faults.note(self.check_projects(member, &projects));
        }
        let now = self.clock.now();
        let expires_at = faults.note(expiry_in_session(&new.expiry, now));
        faults.none()?;
        self.confirm_password_owner(member, account, password).await?;
        let made = Made { org: member.org, name, role, projects, now };
        let (mut token, raw) = mint(self.registry.pepper(), made)?;
        (token.created_by, token.expires_at) = (member.person(), expires_at);
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        add(&mut tx, &token).await?;
        token.maker = Some(member.email.clone());
        let metadata = audited(&json!({}), &shown(&token));
        let event = Event::ServiceTokenCreated;
        self.note_act(&mut tx, member, event, target(token.id), metadata).await?;
        tx.commit().await?;
        Ok((token, raw))
    }

    /// Revokes a token for good (admin or owner). It counts from its next request on, on every node.
    pub async fn revoke_service_token(&self, member: &Member, id: ServiceTokenId) -> Result<()> {
        member.check_person()?;
        member.check_admin()?;
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        let name = tx.revoke_service_token(member.org, id, self.clock.now()).await?;
        let name = name.ok_or(Error::NotFound)?;
        let metadata = Map::from_iter([("name".to_owned(), Value::String(name))]);
        let event = Event::ServiceTokenRevoked;
        self.note_act(&mut tx, member, event, target(id), metadata).await?;
        Ok(tx.commit().await?)
    }
}

/// The beginnings of a token.
pub(crate) struct Made {
    pub(crate) org: OrgId,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) projects: Vec<ProjectId>,
    pub(crate) now: Timestamp,
}

/// A new token and its raw form: `st_<16 hex>.<43 base64url characters>`.
pub(crate) fn mint(pepper: &[u8; 32], made: Made) -> Result<(ServiceToken, Secret)> {
    let id = ServiceTokenId(u64::from_be_bytes(store::random::<8>()?));
    let secret = URL_SAFE_NO_PAD.encode(store::random::<32>()?);
    let raw = format!("{id}.{secret}");
    let Made { org, name, role, projects, now } = made;
    let token = ServiceToken {
        id,
        org,
        name,
        secret_hash: hash_secret(pepper, &secret),
        // All of it is ASCII.
        masked: format!("{}...{}", &raw[..6], &raw[raw.len() - 4..]),
        role,
        projects,
        created_by: None,
        maker: None,
        created_at: now,
        expires_at: None,
        last_used_at: None,
    };
    Ok((token, Secret::new(raw)))
}

/// Adds a token, if there is room for it.
pub(crate) async fn add(tx: &mut Tx, token: &ServiceToken) -> Result<()> {
    if tx.count_service_tokens(token.org).await? >= MOST {
        return Err(Error::invalid(format!(
            "There are {MOST} service tokens already: revoke one first"
        )));
    }
    Ok(tx.add_service_token(token).await?)
}

/// A role that a token may have: none stands above the people who make tokens.
pub(crate) fn token_role(word: &str) -> Result<Role> {
    read_role(word).ok().filter(|role| *role != Role::Owner).ok_or_else(|| {
        Error::invalid("The role of a service token must be one of admin, member, viewer")
    })
}

/// The time at which a token ends.
pub(crate) fn expiry(asked: &TokenExpiry, now: Timestamp) -> Result<Option<Timestamp>> {
    let at = match asked {
        TokenExpiry::Never => return Ok(None),
        TokenExpiry::Default => now.minus_micros(-GOOD_FOR),
        TokenExpiry::In(seconds) => {
            if !(SHORTEST..=LONGEST).contains(seconds) {
                return Err(Error::invalid(format!(
                    "expires_in must be a whole number of seconds from {SHORTEST} to {LONGEST}"
                )));
            }
            now.minus_micros(-seconds * SECOND)
        }
        TokenExpiry::At(text) => Timestamp::parse(text).filter(|at| *at > now).ok_or_else(|| {
            Error::invalid(
                "expires_at must be an ISO 8601 time to come, such as 2099-01-31T00:00:00Z, or null",
            )
        })?,
    };
    Ok(Some(at))
}

/// The time at which a token that is made in a session ends.
fn expiry_in_session(asked: &TokenExpiry, now: Timestamp) -> Result<Timestamp> {
    let at = expiry(asked, now)?;
    at.filter(|at| at.since(now) <= LONGEST_IN_SESSION).ok_or_else(|| {
        Error::invalid(
            "A service token ends within 366 days; one that lasts longer is made on the machine: sluice token create",
        )
    })
}

/// The fields that an audit row has.
pub(crate) fn shown(token: &ServiceToken) -> Value {
    json!({
        "name": token.name,
        "role": token.role.as_str(),
        "projects": token.projects,
        "expires_at": token.expires_at,
    })
}

pub(crate) fn target(id: ServiceTokenId) -> (&'static str, String) {
    ("service_token", id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_form_it_is_documented_to_have() {
        let made = Made {
            org: OrgId(1),
            name: "t".into(),
            role: Role::Viewer,
            projects: Vec::new(),
            now: Timestamp(0),
        };
        let (token, raw) = mint(&[7; 32], made).unwrap();
        let (id, secret) = raw.expose().split_once('.').unwrap();
        assert_eq!((id, id.len()), (&*token.id.to_string(), 19));
        assert_eq!(secret.len(), 43);
        assert!(token.masked.starts_with("st_") && raw.expose().ends_with(&token.masked[9..]));
    }

    #[test]
    fn a_token_ends_as_it_was_asked_for() {
        let now = Timestamp(1_000 * DAY);
        let at = |asked| expiry(&asked, now);
        assert_eq!(at(TokenExpiry::Never).unwrap(), None);
        assert_eq!(at(TokenExpiry::Default).unwrap(), Some(Timestamp(1_090 * DAY)));
        assert_eq!(at(TokenExpiry::In(60)).unwrap(), Some(now.minus_micros(-MINUTE)));
        for seconds in [i64::MIN, -1, 0, 59, LONGEST + 1, i64::MAX] {
            assert!(at(TokenExpiry::In(seconds)).is_err(), "{seconds}");
        }
        for text in ["", "soon", "1970-01-02T00:00:00Z"] {
            assert!(at(TokenExpiry::At(text.to_owned())).is_err(), "{text}");
        }
        let far = || TokenExpiry::At("2099-01-31T00:00:00Z".to_owned());
        assert!(at(far()).unwrap().is_some());
        let days = |days: i64| expiry_in_session(&TokenExpiry::In(days * 24 * 3600), now);
        assert_eq!(days(366).unwrap(), Timestamp(1_366 * DAY));
        assert!(days(367).is_err());
        for asked in [TokenExpiry::Never, far()] {
            assert!(expiry_in_session(&asked, now).is_err(), "{asked:?}");
        }
    }
}

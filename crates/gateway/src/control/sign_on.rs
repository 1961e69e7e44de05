//! Signing in by an issuer: the way there, and the way back.

use domain::ids::{OrgId, UserId};
use domain::secret::Secret;
use domain::time::{MINUTE, Timestamp};
use providers::{Flow, Identity, SignOnClient, SignOnError};
use serde_json::{Map, Value};
use store::{LinkPurpose, SignOnProvider};
use subtle::ConstantTimeEq as _;

use crate::audit::{Event, Noted};
use crate::control::link_token;
use crate::control::session_tokens::hash_token;
use crate::control::sessions::SignIn;
use crate::control::sign_on_cookies::{FlowCookie, HintCookie, open, seal};
use crate::error::{Error, Result, SignOnRefusal};
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::failure_rows::{FailureKind, RowPlace};
use crate::state::perimeter_counts::network;

/// The longest path that is gone to after a sign-on, in bytes.
const LONGEST_NEXT: usize = 1024;
/// The clock of an issuer may be behind by this, in microseconds.
const CLOCKS_DIFFER: i64 = MINUTE;
/// The longest code of an issuer, in bytes.
const LONGEST_CODE: usize = 4096;

/// The way to an issuer.
#[derive(Debug)]
pub struct SignOnStart {
    /// The address there.
    pub location: String,
    /// The cookie that the browser keeps until it comes back.
    pub cookie: Secret,
}

/// The parameters with which an issuer leads back.
#[derive(Clone, Debug, Default)]
pub struct SignOnAnswer {
    /// The state of the sign-on.
    pub state: Option<String>,
    /// The code to be exchanged for a token.
    pub code: Option<String>,
    /// The code of an error.
    pub error: Option<String>,
    /// The issuer, if it names itself.
    pub iss: Option<String>,
}

/// The outcome of a sign-on.
#[derive(Debug)]
pub enum SignedOn {
    /// A session has begun, or awaits its second factor.
    In {
        /// The session.
        signed_in: SignIn,
        /// The browser keeps this and sends it at the sign-out.
        hint: Secret,
    },
    /// There is an account with the address: its owner has to confirm that it is theirs. The browser keeps this
    /// until then.
    LinkFirst(Secret),
}

/// Why a sign-on failed: for the user, and in more detail for the audit.
pub(crate) struct Refused {
    pub(crate) refusal: SignOnRefusal,
    pub(crate) reason: &'static str,
    pub(crate) email: Option<String>,
}

impl Refused {
    pub(crate) fn new(refusal: SignOnRefusal, reason: &'static str) -> Self {
        Self { refusal, reason, email: None }
    }
}

impl From<SignOnError> for Refused {
    fn from(error: SignOnError) -> Self {
        Self::new(SignOnRefusal::Issuer, error.word())
    }
}

impl Gateway {
    /// The ways to sign in: the providers by slug and name, and whether there are passwords.
    pub async fn ways_to_sign_in(&self) -> Result<(Vec<(String, String)>, bool)> {
        match self.store.first_org().await? {
            Some(org) => self.ways_to_sign_in_of(org).await,
            None => Ok((Vec::new(), true)),
        }
    }

    /// The ways to sign in to an organization.
    pub(crate) async fn ways_to_sign_in_of(
        &self,
        org: OrgId,
    ) -> Result<(Vec<(String, String)>, bool)> {
        let providers = self.store.sign_on_providers(org).await?.into_iter();
        let providers = providers.map(|provider| (provider.slug, provider.name)).collect();
        Ok((providers, !self.is_password_login_disabled_in(org).await?))
    }

    /// Begins a sign-on, which leads to a path afterwards. `anew`: the user is to sign in at the issuer once
    /// more, whatever it remembers of them. `invitation` is the token of the link that the browser came by: only its
    /// hash is kept.
    pub async fn sign_on_start(
        &self,
        slug: &str,
        next: &str,
        anew: bool,
        invitation: Option<&str>,
        origin: &Origin,
    ) -> Result<SignOnStart> {
        self.check_address(origin).await?;
        let provider = self.provider_by_slug(slug).await?;
        let now = self.clock.now();
        let client = self.client_of(&provider)?;
        let begun = self.issuers.begin(&client, anew, now).await.map_err(|fault| {
            tracing::warn!(provider = slug, %fault, "a sign-on could not begin");
            Error::SignOn(SignOnRefusal::Issuer)
        })?;
        let purpose = LinkPurpose::Invitation;
        let invitation =
            invitation.filter(|token| link_token::is_ours(self.registry.pepper(), purpose, token));
        let cookie = FlowCookie {
            provider: provider.id,
            state: begun.flow.state.expose().to_owned(),
            nonce: begun.flow.nonce.expose().to_owned(),
            verifier: begun.flow.verifier.expose().to_owned(),
            anew_since: anew.then_some(now.0),
            next: if next.len() <= LONGEST_NEXT { next.to_owned() } else { "/".to_owned() },
            invitation: invitation.map(hash_token),
        };
        let cookie = seal(self.registry.pepper(), &cookie, now)?;
        Ok(SignOnStart { location: begun.location, cookie })
    }

    /// Ends a sign-on: the user is back from the issuer. Returns the path to go to as well.
    pub async fn sign_on_finish(
        &self,
        slug: &str,
        answer: SignOnAnswer,
        cookie: Option<&str>,
        origin: &Origin,
    ) -> Result<(SignedOn, String)> {
        self.check_address(origin).await?;
        let provider = self.provider_by_slug(slug).await?;
        let now = self.clock.now();
        let flow = cookie.and_then(|cookie| open(self.registry.pepper(), cookie, now));
        let asked = self.identity(&provider, flow.as_ref(), answer, origin, now).await?;
        let (refused, is_named) = match (asked, flow) {
            (Ok(identity), Some(flow)) => {
                match self.sign_in_as(&provider, &identity, &flow, origin).await? {
                    Ok(signed_on) => return Ok((signed_on, flow.next)),
                    Err(refused) => (refused, true),
                }
            }
            (Ok(_), None) => (Refused::new(SignOnRefusal::Stale, "cookie"), false),
            (Err(refused), _) => (refused, false),
        };
        tracing::info!(provider = slug, reason = refused.reason, "a sign-on was refused");
        let kind = if is_named { FailureKind::Named } else { FailureKind::Link };
        if let Some(place) = self.failure_rows.place(kind, now) {
            self.note_refused_sign_on(&provider, &refused, place, origin).await?;
        }
        Err(Error::SignOn(refused.refusal))
    }

    /// The identity of a user, if what came back belongs to the sign-on that this browser has begun.
    async fn identity(
        &self,
        provider: &SignOnProvider,
        flow: Option<&FlowCookie>,
        answer: SignOnAnswer,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<std::result::Result<Identity, Refused>> {
        let stale = |reason| Ok(Err(Refused::new(SignOnRefusal::Stale, reason)));
        let Some(flow) = flow.filter(|flow| flow.provider == provider.id) else {
            return stale("cookie");
        };
        let state = answer.state.unwrap_or_default();
        if !bool::from(state.as_bytes().ct_eq(flow.state.as_bytes())) {
            return stale("state");
        }
        if let Some(error) = answer.error {
            let is_own_choice = matches!(error.as_str(), "access_denied" | "login_required");
            return Ok(Err(if is_own_choice {
                Refused::new(SignOnRefusal::Cancelled, "access_denied")
            } else {
                Refused::new(SignOnRefusal::Issuer, "issuer_error")
            }));
        }
        let code = answer.code.filter(|code| !code.is_empty() && code.len() <= LONGEST_CODE);
        let Some(code) = code else { return stale("code") };
        let client = self.client_of(provider)?;
        // Nothing of the code is asked here: an issuer that cannot be reached is nobody's failure.
        let names_itself = match self.issuers.names_itself(&provider.issuer, now).await {
            Ok(names_itself) => names_itself,
            Err(fault) => return Ok(Err(fault.into())),
        };
        let is_own = answer.iss.map_or(!names_itself, |named| named == provider.issuer);
        if !is_own {
            return stale("iss");
        }
        let network = network(origin.address);
        let mut booked = self.login_throttle.book_sign_on(network, now).await?;
        let asked = self.ask_issuer(provider, &client, flow, &code, now);
        let found = booked.during(asked).await;
        if found.as_ref().is_err_and(|fault| fault.is_of_code()) {
            booked.stays();
        }
        let identity = match found {
            Ok(identity) => identity,
            Err(fault) => return Ok(Err(fault.into())),
        };
        if let Some(since) = flow.anew_since {
            let earliest = Timestamp(since).minus_micros(CLOCKS_DIFFER);
            if identity.authenticated_at().is_none_or(|at| at < earliest) {
                return Ok(Err(Refused::new(SignOnRefusal::Issuer, "not_anew")));
            }
        }
        Ok(Ok(identity))
    }

    /// Exchanges a code for the identity of whoever it was given to.
    async fn ask_issuer(
        &self,
        provider: &SignOnProvider,
        client: &SignOnClient,
        cookie: &FlowCookie,
        code: &str,
        now: Timestamp,
    ) -> std::result::Result<Identity, SignOnError> {
        let secret = |text: &String| Secret::new(text.clone());
        let flow = Flow {
            state: secret(&cookie.state),
            nonce: secret(&cookie.nonce),
            verifier: secret(&cookie.verifier),
        };
        // Without a rule nothing depends on them.
        let groups = (!provider.rules.is_empty()).then_some(provider.groups_claim.as_str());
        self.issuers.finish(client, &flow, code, groups, now).await
    }

    /// Seals the token of a sign-on for the browser of its user, which shows it at the sign-out.
    pub(crate) fn sign_out_hint(&self, user: UserId, identity: &Identity) -> Result<Secret> {
        let cookie = HintCookie { user, token: identity.token.expose().to_owned() };
        seal(self.registry.pepper(), &cookie, self.clock.now())
    }

    /// The address at which the user of a session signs out of its issuer too, if it has come by one that has
    /// such an address. One of the hints may be what the browser has kept for it.
    pub(crate) async fn end_session_url(
        &self,
        provider: &SignOnProvider,
        user: UserId,
        hints: &[String],
    ) -> Option<String> {
        let client = self.client_of(provider).ok()?;
        let back = format!("{}/sign-in", self.public_url()?);
        let (pepper, now) = (self.registry.pepper(), self.clock.now());
        let mut opened = hints.iter().filter_map(|hint| open::<HintCookie>(pepper, hint, now));
        let token = opened.find(|hint| hint.user == user).map(|hint| Secret::new(hint.token));
        let asked = self.issuers.end_session(&client, &back, token.as_ref(), now).await;
        asked.ok().flatten()
    }

    async fn provider_by_slug(&self, slug: &str) -> Result<SignOnProvider> {
        let org = self.store.first_org().await?.ok_or(Error::NotFound)?;
        let providers = self.store.sign_on_providers(org).await?;
        providers.into_iter().find(|provider| provider.slug == slug).ok_or(Error::NotFound)
    }

    /// The gateway as a client of an issuer.
    fn client_of(&self, provider: &SignOnProvider) -> Result<SignOnClient> {
        let public = self.public_url().ok_or_else(no_public_url)?;
        Ok(SignOnClient {
            issuer: provider.issuer.clone(),
            id: provider.client_id.clone(),
            secret: provider.client_secret.clone(),
            scopes: provider.scopes.clone(),
            redirect_url: format!("{public}/api/v1/sign-on/{}/callback", provider.slug),
        })
    }

    /// The address of this gateway for browsers, without a slash at its end; `None` if it is not configured.
    pub fn public_url(&self) -> Option<&str> {
        self.config.public_url.as_deref().map(|url| url.trim_end_matches('/'))
    }

    async fn note_refused_sign_on(
        &self,
        provider: &SignOnProvider,
        refused: &Refused,
        place: RowPlace<'_>,
        origin: &Origin,
    ) -> Result<()> {
        let mut metadata = Map::from_iter([
            ("provider".to_owned(), Value::from(provider.slug.as_str())),
            ("reason".to_owned(), refused.reason.into()),
        ]);
        if let Some(email) = &refused.email {
            metadata.insert("email".to_owned(), email.as_str().into());
        }
        place.tell(&mut metadata);
        let (org, event) = (provider.org, Event::LoginFailed);
        let mut tx = self.store.begin().await?;
        let noted = Noted { org, event, actor: None, target: None, metadata };
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        place.written();
        Ok(())
    }
}

/// The address of the gateway is unknown: a request's own could be anybody's.
pub(crate) fn no_public_url() -> Error {
    Error::invalid("Single sign-on needs public_url, the address of this gateway for browsers")
}

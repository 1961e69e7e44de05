//! Signing in by a passkey, which is both factors.

use domain::ids::UserId;
use domain::project::Role;
use passkeys::Answer;
use serde_json::{Map, Value};
use store::{Account, Actor};

use crate::audit::{Event, Noted};
use crate::control::passkey_names::passkey_id;
use crate::control::passkeys::{PasskeyAnswer, PasskeyOffer};
use crate::control::sealed_state::Opened;
use crate::control::second_factor::method;
use crate::control::session_tokens::hash_token;
use crate::control::sessions::{CameBy, NETWORK_KNOWN, SignedIn, Standing};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::failure_rows::{FailureKind, RowPlace};
use crate::state::login_throttle::Trying;
use crate::state::perimeter_counts::network;

/// The purpose of a state by which somebody signs in.
const SIGN_IN: &str = "passkey:sign-in";

/// A passkey with its user, as it is stored.
struct Found {
    account: Account,
    stored: String,
}

/// Why nobody is signed in; a word for the audit.
enum Refusal {
    UnknownPasskey,
    Challenge,
    Verification,
    Counter,
    SignOnRequired,
}

impl Gateway {
    /// Begins to sign in by a passkey. Nothing is stored for it.
    pub async fn passkey_challenge(
        &self,
        origin: &Origin,
        host: Option<&str>,
    ) -> Result<PasskeyOffer> {
        self.check_address(origin).await?;
        let begun = self.passkey_site(host)?.challenge();
        let begun = begun.map_err(|error| Error::Internal(error.to_string()))?;
        self.sealed_offer(SIGN_IN, begun)
    }

    /// Signs in by a passkey. `pending` is the session that awaits a second factor, if there is one: it ends.
    pub async fn sign_in_by_passkey(
        &self,
        answer: PasskeyAnswer<'_>,
        pending: Option<&str>,
        origin: &Origin,
    ) -> Result<SignedIn> {
        self.check_address(origin).await?;
        let site = self.passkey_site(answer.host)?;
        let credential = Answer::read(answer.credential);
        let credential = credential.map_err(|error| Error::Malformed(error.to_string()))?;
        let found = self.find_passkey(&credential).await?;
        let (now, network) = (self.clock.now(), network(origin.address));
        let user = found.as_ref().map(|found| found.account.user);
        // Looked up also without a passkey, so that it takes as long.
        let (since, nobody) = (now.minus_micros(NETWORK_KNOWN), UserId(0));
        let is_known = self.store.knows_network(user.unwrap_or(nobody), network, since).await?;
        let unknown = passkey_id(credential.credential_id());
        let who = user.map(|user| (user, is_known)).ok_or(unknown.as_str());
        let mut booked = self.login_throttle.book_passkey(Trying { who, network }, now).await?;
        let Some(found) = found else {
            booked.stays();
            return self.refuse_passkey(None, Refusal::UnknownPasskey, origin).await;
        };
        let Some(state) = self.opened_state(SIGN_IN, answer.state)? else {
            booked.stays();
            return self.refuse_passkey(Some(&found), Refusal::Challenge, origin).await;
        };
        match site.check(&state.state, &credential, &found.stored) {
            Ok(changed) => {
                let id = credential.credential_id();
                let begun = self.begin_by_passkey(&found, id, changed, &state, pending, origin);
                match begun.await? {
                    Ok(signed_in) => {
                        booked.forgive().await;
                        Ok(signed_in)
                    }
                    Err(refusal) => {
                        // One that only does not suffice was the right answer, and is used up: nobody has guessed.
                        if !matches!(refusal, Refusal::SignOnRequired) {
                            booked.stays();
                        }
                        self.refuse_passkey(Some(&found), refusal, origin).await
                    }
                }
            }
            Err(error) => {
                booked.stays();
                tracing::info!(%error, user = %found.account.user, "a passkey was refused");
                let is_counter = matches!(error, passkeys::Error::CounterWentBack);
                let refusal = if is_counter { Refusal::Counter } else { Refusal::Verification };
                self.refuse_passkey(Some(&found), refusal, origin).await
            }
        }
    }

    /// The passkey that an answer names, unless it names another user than the one who has it.
    async fn find_passkey(&self, answer: &Answer) -> Result<Option<Found>> {
        let Some((stored, email)) = self.store.passkey(answer.credential_id()).await? else {
            return Ok(None);
        };
        let Some(account) = self.store.account(&email).await? else { return Ok(None) };
        let is_theirs = answer.user_handle() == Some(self.user_handle(account.user));
        Ok(is_theirs.then_some(Found { account, stored }))
    }

    /// Begins the session, unless the answer was used before, the passkey was used or removed meanwhile, or it
    /// does not suffice.
    async fn begin_by_passkey(
        &self,
        found: &Found,
        credential_id: &[u8],
        changed: Option<String>,
        state: &Opened,
        pending: Option<&str>,
        origin: &Origin,
    ) -> Result<std::result::Result<SignedIn, Refusal>> {
        let Found { account, stored } = found;
        let (user, now) = (account.user, self.clock.now());
        let mut tx = self.store.begin().await?;
        if pending.is_some() {
            // The session's provider is neither changed nor removed before this ends.
            tx.organization(account.org).await?.ok_or(Error::NotFound)?;
        }
        let is_new = self.spend(&mut tx, account, state).await?;
        // A password that is set meanwhile ends all sessions, and one that would begin now.
        if !tx.confirm_password(account, None).await? {
            return Err(Error::Unauthorized);
        }
        let new = changed.as_ref().unwrap_or(stored);
        if !is_new || !tx.use_passkey(user, credential_id, stored, new, now).await? {
            return Ok(Err(Refusal::Challenge));
        }
        let ended = match pending {
            Some(pending) => tx.end_awaiting(&hash_token(pending)).await?,
            None => None,
        };
        // The second half of a sign-on by a provider is a session of that provider's.
        let provider = ended.filter(|ended| ended.user == user).and_then(|ended| ended.provider);
        // A user who comes by a provider alone comes by nothing else where passwords are disabled: it knows when they
        // have left. Owners have to get in when it is lost.
        if provider.is_none()
            && account.role != Role::Owner
            && tx.is_password_login_disabled(account.org).await?
            && tx.comes_by_provider(account.org, user).await?
        {
            // The answer is used up: a copy of it is one that fails.
            tx.commit().await?;
            return Ok(Err(Refusal::SignOnRequired));
        }
        let came = CameBy { provider, ..CameBy::default() };
        let token = self.begin_session_by(&mut tx, user, Standing::Full, came, origin).await?;
        let mut verified = method("passkey");
        verified.insert("passkey".to_owned(), passkey_id(credential_id).into());
        let mut login = method("passkey");
        login.insert("email".to_owned(), account.email.as_str().into());
        for (event, metadata) in [(Event::MfaVerified, verified), (Event::LoginSuccess, login)] {
            self.note(&mut tx, origin, noted(account, event, metadata)).await?;
        }
        tx.commit().await?;
        Ok(Ok(SignedIn { token, account: account.clone() }))
    }

    /// Records an attempt that failed, without a change to what is booked for it.
    async fn refuse_passkey<T>(
        &self,
        found: Option<&Found>,
        refusal: Refusal,
        origin: &Origin,
    ) -> Result<T> {
        let (event, reason) = match refusal {
            Refusal::UnknownPasskey => (Event::LoginFailed, "unknown_passkey"),
            Refusal::Challenge => (Event::LoginFailed, "challenge"),
            Refusal::SignOnRequired => (Event::LoginFailed, "sign_on_required"),
            Refusal::Verification => (Event::LoginFailed, "verification"),
            // Somebody may have a copy of it.
            Refusal::Counter => (Event::MfaFailed, "counter"),
        };
        let now = self.clock.now();
        let place = match refusal {
            // Strangers have as many networks as they like.
            Refusal::UnknownPasskey => self.failure_rows.place(FailureKind::Passkey, now),
            // It is no failed attempt, so nothing else bounds how often it is written.
            Refusal::SignOnRequired => self.failure_rows.place(FailureKind::Named, now),
            // Attempts of an account are booked.
            Refusal::Challenge | Refusal::Verification | Refusal::Counter => {
                Some(RowPlace::always())
            }
        };
        let Some(place) = place else { return Err(Error::Unauthorized) };
        let mut metadata = method("passkey");
        metadata.insert("reason".to_owned(), reason.into());
        place.tell(&mut metadata);
        let noted = match found {
            Some(found) => noted(&found.account, event, metadata),
            None => {
                let Some(org) = self.store.first_org().await? else {
                    return Err(Error::Unauthorized);
                };
                Noted { org, event, actor: None, target: None, metadata }
            }
        };
        let mut tx = self.store.begin().await?;
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        place.written();
        Err(Error::Unauthorized)
    }
}

fn noted(account: &Account, event: Event, metadata: Map<String, Value>) -> Noted<'_> {
    let actor = Some(Actor::User(account.user, &account.email));
    Noted { org: account.org, event, actor, target: None, metadata }
}

//! Passkeys (Web Authentication): what a browser is asked for, and the judgement of its answers, by webauthn-rs.
//!
//! The state of a ceremony leaves this crate as a text, which whoever keeps it has to protect; so does a
//! registered passkey. This crate knows neither their users nor the place where they are kept.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use webauthn_rs::prelude::{
    DiscoverableAuthentication, Passkey, PasskeyRegistration, PublicKeyCredential,
    RegisterPublicKeyCredential, Url, Uuid, Webauthn, WebauthnBuilder, WebauthnError,
};

/// The name of this gateway in the dialogs of browsers.
const NAME: &str = "Sluice";
/// The longest id of a credential, in bytes (Web Authentication, section 5.8.3).
const LONGEST_ID: usize = 1_023;

/// Why a ceremony does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of the gateway can have no passkeys: it is none, or has no host name.
    #[error("{0} can have no passkeys: they need an address with a host name")]
    Address(String),
    /// The answer of a browser is none.
    #[error("the answer is no credential: {0}")]
    Malformed(String),
    /// A state or a passkey is not as it was given out.
    #[error("not as it was given out: {0}")]
    Corrupt(String),
    /// The passkey has signed fewer times than before: somebody may have a copy of it.
    #[error("the counter of the passkey went back")]
    CounterWentBack,
    /// The answer does not fit what was asked for.
    #[error("{0}")]
    Refused(WebauthnError),
}

/// The result of a step of a ceremony.
pub type Result<T> = std::result::Result<T, Error>;

/// A gateway at its address, for which passkeys are made.
#[derive(Debug)]
pub struct Site(Webauthn);

/// A ceremony that has begun.
#[derive(Clone, Debug)]
pub struct Ceremony {
    /// The options for a public key of `navigator.credentials`, as JSON.
    pub options: Value,
    /// The state by which the answer is judged. A changed one could make passkeys pass.
    pub state: String,
}

/// The person that a passkey is made for.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// The id that the passkey gives back at sign-in: it must not name the person.
    pub handle: [u8; 16],
    /// Their address.
    pub email: &'a str,
    /// Their name.
    pub name: &'a str,
}

/// A passkey that was just made.
#[derive(Clone, Debug)]
pub struct NewPasskey {
    /// The id of its credential.
    pub id: Vec<u8>,
    /// Its public key and its counter, to be kept.
    pub stored: String,
}

/// The answer of a browser to a challenge, which is not judged yet.
#[derive(Debug)]
pub struct Answer(PublicKeyCredential);

impl Site {
    /// The gateway at a public URL: browsers reach it at its origin alone.
    pub fn at(public_url: &str) -> Result<Self> {
        Self::new(public_url, false)
    }

    /// The gateway on the machine of its only user, at any port.
    pub fn local() -> Result<Self> {
        Self::new("http://localhost", true)
    }

    fn new(url: &str, any_port: bool) -> Result<Self> {
        let none = || Error::Address(url.to_owned());
        let origin = Url::parse(url).map_err(|_| none())?;
        let builder = WebauthnBuilder::new(origin.domain().ok_or_else(none)?, &origin);
        let builder = builder.map_err(|_| none())?.rp_name(NAME).allow_any_port(any_port);
        builder.build().map(Self).map_err(|_| none())
    }

    /// Begins to make a passkey, on a device that has none of the known ones.
    pub fn offer(&self, user: User<'_>, known: &[Vec<u8>]) -> Result<Ceremony> {
        // The device is asked to leave out known ones, and the state need not name them: an id is stored once.
        let handle = Uuid::from_bytes(user.handle);
        let begun = self.0.start_passkey_registration(handle, user.email, user.name, None);
        let (options, state) = begun.map_err(Error::Refused)?;
        let mut asked = as_json(&options)?["publicKey"].take();
        let known =
            known.iter().map(|id| json!({"type": "public-key", "id": URL_SAFE_NO_PAD.encode(id)}));
        asked["excludeCredentials"] = Value::Array(known.collect());
        // The sign-in asks for no name first: the passkey has to be found by its site.
        asked["authenticatorSelection"]["residentKey"] = "required".into();
        asked["authenticatorSelection"]["requireResidentKey"] = true.into();
        Ok(Ceremony { options: asked, state: as_json(&state)?.to_string() })
    }

    /// Judges a passkey that a browser has made.
    pub fn register(&self, state: &str, answer: Value) -> Result<NewPasskey> {
        let state: PasskeyRegistration = read(state)?;
        let answer: RegisterPublicKeyCredential = read_answer(answer)?;
        let passkey = self.0.finish_passkey_registration(&answer, &state).map_err(refused)?;
        let id = passkey.cred_id().as_slice().to_vec();
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(Error::Malformed(format!("an id of {} bytes", id.len())));
        }
        Ok(NewPasskey { id, stored: as_json(&passkey)?.to_string() })
    }

    /// Begins to sign in by whatever passkey the browser has for this site.
    pub fn challenge(&self) -> Result<Ceremony> {
        let begun = self.0.start_discoverable_authentication();
        let (options, state) = begun.map_err(Error::Refused)?;
        // Without its mediation: it is asked for by a button, and not offered while somebody types.
        let options = as_json(&options)?["publicKey"].take();
        Ok(Ceremony { options, state: as_json(&state)?.to_string() })
    }

    /// Judges the answer to a challenge by the passkey that it names. Returns the passkey if it has changed.
    pub fn check(&self, state: &str, answer: &Answer, stored: &str) -> Result<Option<String>> {
        let state: DiscoverableAuthentication = read(state)?;
        let mut passkey: Passkey = read(stored)?;
        let finished = self.0.finish_discoverable_authentication_v2(&answer.0, state, &passkey);
        let is_changed = passkey.update_credential(&finished.map_err(refused)?).unwrap_or(false);
        is_changed.then(|| as_json(&passkey).map(|passkey| passkey.to_string())).transpose()
    }
}

impl Answer {
    /// Reads the JSON of a browser's credential.
    pub fn read(answer: Value) -> Result<Self> {
        read_answer(answer).map(Self)
    }

    /// The id of the credential that it names.
    pub fn credential_id(&self) -> &[u8] {
        self.0.get_credential_id()
    }

    /// The handle of the person that its passkey was made for; `None` if it has none of ours.
    pub fn user_handle(&self) -> Option<[u8; 16]> {
        self.0.get_user_unique_id().and_then(|handle| handle.try_into().ok())
    }
}

fn refused(error: WebauthnError) -> Error {
    match error {
        WebauthnError::CredentialPossibleCompromise => Error::CounterWentBack,
        error => Error::Refused(error),
    }
}

fn as_json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Error::Corrupt(error.to_string()))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Corrupt(error.to_string()))
}

fn read_answer<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).map_err(|error| Error::Malformed(error.to_string()))
}

//! One issuer: its metadata and keys, and a sign-on there.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::secret::Secret;
use domain::time::{MINUTE, SECOND, Timestamp};
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::lock::Mutex;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClaimName, CoreClaimType,
    CoreClient, CoreClientAuthMethod, CoreErrorResponseType, CoreGrantType, CoreIdToken,
    CoreIdTokenVerifier, CoreJsonWebKey, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm, CoreJwsSigningAlgorithm, CoreResponseMode, CoreResponseType,
    CoreSubjectIdentifierType, CoreTokenResponse,
};
use openidconnect::{
    AccessTokenHash, AdditionalProviderMetadata, AuthType, AuthorizationCode, ClientId,
    ClientSecret, CsrfToken, DiscoveryError, EndSessionUrl, EndpointMaybeSet, EndpointNotSet,
    EndpointSet, IssuerUrl, LogoutRequest, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge,
    PkceCodeVerifier, PostLogoutRedirectUrl, ProviderMetadata, RedirectUrl, RequestTokenError,
    Scope, TokenResponse as _,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::{Begun, Client, Flow};
use crate::error::SignOnError;
use crate::http::LibraryHttp;
use crate::identity::{Identity, values};

/// Clocks may differ by this, in microseconds.
const LEEWAY: i64 = MINUTE;
/// Keys are fetched for a token that none of them fits, at most once in this time, in microseconds.
const KEYS_FETCHED_EVERY: i64 = MINUTE;
/// The random bytes of a state and a nonce.
const RANDOM_BYTES: u32 = 32;

/// The algorithms that a token may be signed by: none with a shared secret, and none without a signature.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 5] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The metadata that the library does not read.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Further {
    end_session_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for Further {}

type Metadata = ProviderMetadata<
    Further,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// The client of the library, with the endpoints that discovery gives.
type LibraryClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// An issuer that was discovered.
pub(crate) struct Issuer {
    metadata: Metadata,
    keys: Mutex<Keys>,
}

/// The keys of an issuer.
struct Keys {
    set: Arc<CoreJsonWebKeySet>,
    /// When they were fetched last for a token that none of them fitted.
    fetched_at: Option<Timestamp>,
}

impl Issuer {
    /// Reads the metadata and the keys of an issuer.
    pub(crate) fn discover<'a>(
        http: &'a LibraryHttp,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<Self, SignOnError>> {
        async move {
            let url = IssuerUrl::new(issuer.to_owned()).map_err(|_| SignOnError::Metadata)?;
            let metadata = Metadata::discover_async(url, http).await.map_err(undiscovered)?;
            let further = metadata.additional_metadata();
            let for_browsers = [
                Some(metadata.authorization_endpoint().as_str()),
                further.end_session_endpoint.as_deref(),
            ];
            if !for_browsers.into_iter().flatten().all(|address| http.0.may_lead_to(address)) {
                return Err(SignOnError::Forbidden);
            }
            if metadata.token_endpoint().is_none() {
                return Err(SignOnError::Metadata);
            }
            let set = Arc::new(metadata.jwks().clone());
            Ok(Self { metadata, keys: Mutex::new(Keys { set, fetched_at: None }) })
        }
        .boxed()
    }

    /// Whether it names itself beside every code.
    pub(crate) fn names_itself(&self) -> bool {
        self.metadata.additional_metadata().authorization_response_iss_parameter_supported
    }

    /// Makes the address that begins a sign-on. `anew` asks the issuer to have its user sign in once more,
    /// whatever it remembers of them.
    pub(crate) fn begin(&self, client: &Client, anew: bool) -> Result<Begun, SignOnError> {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let library_client = self.library_client(client)?;
        let request = library_client.authorize_url(
            CoreAuthenticationFlow::AuthorizationCode,
            || CsrfToken::new_random_len(RANDOM_BYTES),
            || Nonce::new_random_len(RANDOM_BYTES),
        );
        let request = if anew {
            request.add_prompt(CoreAuthPrompt::Login).set_max_age(Duration::ZERO)
        } else {
            request
        };
        let scopes = client.scopes.iter().filter(|scope| *scope != "openid");
        let (url, state, nonce) = request
            .add_scopes(scopes.map(|scope| Scope::new(scope.clone())))
            .set_pkce_challenge(challenge)
            .url();
        let flow = Flow {
            state: Secret::new(state.into_secret()),
            nonce: Secret::new(nonce.secret().clone()),
            verifier: Secret::new(verifier.into_secret()),
        };
        Ok(Begun { location: url.into(), flow })
    }

    /// Exchanges a code for a token and verifies it. Claims that it lacks are asked for.
    pub(crate) fn finish<'a>(
        &'a self,
        http: &'a LibraryHttp,
        client: &'a Client,
        flow: &'a Flow,
        code: &'a str,
        groups: Option<&'a str>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Identity, SignOnError>> {
        async move {
            let answer = self.exchange(http, client, flow, code).await?;
            let token = answer.id_token().ok_or(SignOnError::Malformed)?;
            let mut identity = self.verified(http, client, flow, token, &answer, now).await?;
            // Many issuers keep the token small.
            if !identity.has("email") || groups.is_some_and(|groups| !identity.has(groups)) {
                let more = self.user_info(http, &identity, answer.access_token().secret()).await?;
                identity.add(more);
            }
            Ok(identity)
        }
        .boxed()
    }

    async fn exchange(
        &self,
        http: &LibraryHttp,
        client: &Client,
        flow: &Flow,
        code: &str,
    ) -> Result<CoreTokenResponse, SignOnError> {
        let library_client = self.library_client(client)?;
        let request = library_client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|_| SignOnError::Metadata)?
            .set_pkce_verifier(PkceCodeVerifier::new(flow.verifier.expose().to_owned()));
        request.request_async(http).await.map_err(|error| match error {
            RequestTokenError::Request(fault) => fault,
            // A client that is set up wrongly and the issuer's own failures are nobody's guess at a code. All else
            // may be: what issuers answer to junk differs, and some call it an invalid request.
            RequestTokenError::ServerResponse(answer) => match answer.error() {
                CoreErrorResponseType::InvalidClient
                | CoreErrorResponseType::InvalidScope
                | CoreErrorResponseType::UnauthorizedClient
                | CoreErrorResponseType::UnsupportedGrantType => SignOnError::Status,
                CoreErrorResponseType::Extension(word)
                    if matches!(&**word, "server_error" | "temporarily_unavailable") =>
                {
                    SignOnError::Status
                }
                _ => SignOnError::Code,
            },
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => SignOnError::Malformed,
        })
    }

    /// The identity in a token, once that is verified.
    async fn verified(
        &self,
        http: &LibraryHttp,
        client: &Client,
        flow: &Flow,
        token: &CoreIdToken,
        answer: &CoreTokenResponse,
        now: Timestamp,
    ) -> Result<Identity, SignOnError> {
        let keys = Arc::clone(&self.keys.lock().await.set);
        match self.verify(&keys, client, flow, token, answer, now) {
            Err(SignOnError::TokenKey) => {
                // Keys are replaced now and then.
                let keys = self.newer_keys(http, &keys, now).await?;
                self.verify(&keys, client, flow, token, answer, now)
            }
            verified => verified,
        }
    }

    fn verify(
        &self,
        keys: &CoreJsonWebKeySet,
        client: &Client,
        flow: &Flow,
        token: &CoreIdToken,
        answer: &CoreTokenResponse,
        now: Timestamp,
    ) -> Result<Identity, SignOnError> {
        let issuer = self.metadata.issuer().clone();
        // As if the client had no secret, so that none is ever a key of a signature.
        let verifier = CoreIdTokenVerifier::new_public_client(
            ClientId::new(client.id.clone()),
            issuer,
            keys.clone(),
        );
        let latest = system_time(Timestamp(now.0.saturating_add(LEEWAY)));
        let earliest = system_time(now.minus_micros(LEEWAY));
        let verifier = verifier
            .set_allowed_algs(ALGORITHMS)
            .set_time_fn(move || earliest.into())
            .set_issue_time_verifier_fn(move |at| {
                if SystemTime::from(at) <= latest { Ok(()) } else { Err(String::new()) }
            });
        let nonce = Nonce::new(flow.nonce.expose().to_owned());
        let claims = token.claims(&verifier, &nonce)?;
        if claims.authorized_party().is_some_and(|party| party.as_str() != client.id) {
            return Err(SignOnError::TokenAudience);
        }
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = token.signing_alg().map_err(|_| SignOnError::TokenAlgorithm)?;
            let key = token.signing_key(&verifier).map_err(|_| SignOnError::TokenKey)?;
            let hash = AccessTokenHash::from_token(answer.access_token(), algorithm, key);
            if hash.ok().as_ref() != Some(expected) {
                return Err(SignOnError::TokenSignature);
            }
        }
        let subject = claims.subject().as_str().to_owned();
        let token = token.to_string();
        let payload = payload(&token).ok_or(SignOnError::Malformed)?;
        Identity::new(client.issuer.clone(), subject, token, payload).ok_or(SignOnError::Malformed)
    }

    /// The keys, fetched anew if those that did not fit are the last ones that are known.
    async fn newer_keys(
        &self,
        http: &LibraryHttp,
        unfit: &Arc<CoreJsonWebKeySet>,
        now: Timestamp,
    ) -> Result<Arc<CoreJsonWebKeySet>, SignOnError> {
        let mut keys = self.keys.lock().await;
        let is_known = |at: Timestamp| (0..KEYS_FETCHED_EVERY).contains(&now.since(at));
        if !Arc::ptr_eq(&keys.set, unfit) || keys.fetched_at.is_some_and(is_known) {
            return Ok(Arc::clone(&keys.set));
        }
        keys.fetched_at = Some(now);
        let fetched = CoreJsonWebKeySet::fetch_async(self.metadata.jwks_uri(), http).await;
        keys.set = Arc::new(fetched.map_err(undiscovered)?);
        Ok(Arc::clone(&keys.set))
    }

    /// The issuer's claims about the user beside the token; none if it has no endpoint for them.
    async fn user_info(
        &self,
        http: &LibraryHttp,
        identity: &Identity,
        access_token: &str,
    ) -> Result<Map<String, Value>, SignOnError> {
        let Some(endpoint) = self.metadata.userinfo_endpoint() else { return Ok(Map::new()) };
        let bearer = HeaderValue::from_str(&format!("Bearer {access_token}"));
        let mut bearer = bearer.map_err(|_| SignOnError::Malformed)?;
        bearer.set_sensitive(true);
        let request = Request::builder()
            .method(Method::GET)
            .uri(endpoint.as_str())
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, bearer)
            .body(Vec::new())
            .map_err(|_| SignOnError::UserInfo)?;
        let response = http.0.send(request).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
        if !response.status().is_success() || !is_json {
            return Err(SignOnError::UserInfo);
        }
        let claims: Map<String, Value> =
            serde_json::from_slice(response.body()).map_err(|_| SignOnError::UserInfo)?;
        // It must be about the user of the token (OpenID Connect Core, section 5.3.2).
        if claims.get("sub").and_then(Value::as_str) != Some(&identity.subject) {
            return Err(SignOnError::UserInfo);
        }
        Ok(claims)
    }

    /// The address at which a user signs out, and comes back from. `hint` is the token that they signed in with,
    /// which is no other issuer's to see.
    pub(crate) fn end_session(
        &self,
        client: &Client,
        back: &str,
        hint: Option<&Secret>,
    ) -> Option<String> {
        let endpoint = self.metadata.additional_metadata().end_session_endpoint.clone()?;
        let back = PostLogoutRedirectUrl::new(back.to_owned()).ok()?;
        let request = LogoutRequest::from(EndSessionUrl::new(endpoint).ok()?)
            .set_client_id(ClientId::new(client.id.clone()))
            .set_post_logout_redirect_uri(back);
        let hint = hint.map(Secret::expose).filter(|hint| is_for(hint, client));
        let token = hint.and_then(|hint| CoreIdToken::from_str(hint).ok());
        let request = match token {
            Some(token) => request.set_id_token_hint(&token),
            None => request,
        };
        Some(request.http_get_url().into())
    }

    fn library_client(&self, client: &Client) -> Result<LibraryClient, SignOnError> {
        let secret = client.secret.as_ref();
        let redirect = RedirectUrl::new(client.redirect_url.clone());
        let auth_type =
            if self.takes_secret_in_body() { AuthType::RequestBody } else { AuthType::BasicAuth };
        Ok(CoreClient::from_provider_metadata(
            self.metadata.clone(),
            ClientId::new(client.id.clone()),
            secret.map(|secret| ClientSecret::new(secret.expose().to_owned())),
        )
        .set_redirect_uri(redirect.map_err(|_| SignOnError::Metadata)?)
        .set_auth_type(auth_type))
    }

    /// Whether the issuer takes the client's secret in the body of a request, and not in a header.
    fn takes_secret_in_body(&self) -> bool {
        let methods = self.metadata.token_endpoint_auth_methods_supported();
        methods.is_some_and(|methods| {
            methods.contains(&CoreClientAuthMethod::ClientSecretPost)
                && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
        })
    }
}

fn undiscovered(error: DiscoveryError<SignOnError>) -> SignOnError {
    match error {
        DiscoveryError::Request(fault) => fault,
        DiscoveryError::Response(..) => SignOnError::Status,
        DiscoveryError::Validation(_) => SignOnError::OtherIssuer,
        _ => SignOnError::Metadata,
    }
}

/// Whether a token that was verified is of the issuer of a client, and for it.
fn is_for(token: &str, client: &Client) -> bool {
    payload(token).is_some_and(|claims| {
        values(&claims, "aud").contains(&client.id.as_str())
            && claims.get("iss").and_then(Value::as_str) == Some(&client.issuer)
    })
}

/// The payload of a signed token.
fn payload(token: &str) -> Option<Map<String, Value>> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

fn system_time(at: Timestamp) -> SystemTime {
    let seconds = u64::try_from(at.0 / SECOND).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_for_the_client_and_the_issuer_that_it_names() {
        let client = Client {
            issuer: "https://issuer.example".to_owned(),
            id: "client".to_owned(),
            secret: None,
            redirect_url: String::new(),
            scopes: Vec::new(),
        };
        let is_for = |iss: &str, aud: Value| {
            let claims = URL_SAFE_NO_PAD.encode(json!({"iss": iss, "aud": aud}).to_string());
            is_for(&format!("head.{claims}.signature"), &client)
        };
        assert!(is_for("https://issuer.example", json!("client")));
        assert!(is_for("https://issuer.example", json!(["client"])));
        assert!(!is_for("https://other.example", json!("client")));
        assert!(!is_for("https://issuer.example", json!("other")));
        assert!(!is_for("https://issuer.example", json!(["other"])));
        assert!(!is_for("https://issuer.example", json!(null)));
        assert!(!super::is_for("no token", &client));
    }
}

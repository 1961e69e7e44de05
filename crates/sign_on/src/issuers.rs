//! The issuers that were discovered, remembered for an hour.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as PlainMutex, PoisonError};
use std::time::{Duration, Instant};

use domain::secret::Secret;
use domain::time::{HOUR, Timestamp};
use futures_util::lock::Mutex;

use crate::client::{Begun, Client, Flow};
use crate::error::SignOnError;
use crate::http::{Http, LibraryHttp};
use crate::identity::Identity;
use crate::issuer::Issuer;

/// An issuer is discovered anew after this time, in microseconds.
const REMEMBERED: i64 = HOUR;
/// An issuer that could not be discovered is left alone for this time, from when that was known: whoever is not
/// signed in can ask for it, and one that hangs is asked by one request after the other otherwise.
const LEFT_ALONE: Duration = Duration::from_secs(10);
/// The most requests at once that wait for the discovery of one issuer.
const MOST_WAITING: usize = 32;
/// The most codes that are exchanged at once at one issuer. Codes that are made up take no place of a discovery, so
/// that sign-ons go on to begin.
const MOST_EXCHANGED: usize = 256;
/// The most issuers that are remembered.
const MOST_ISSUERS: usize = 64;

/// The outcome of the last discovery of an issuer.
enum Known {
    /// It was not asked yet.
    Nothing,
    /// It was discovered for a request of this time.
    Found(Timestamp, Arc<Issuer>),
    /// It could not be discovered, as was known at this moment.
    Failed(Instant, SignOnError),
}

/// The place of an issuer.
struct Place {
    known: Mutex<Known>,
    /// The requests that wait for its discovery.
    waiting: Arc<AtomicUsize>,
    /// The codes that are being exchanged.
    exchanged: Arc<AtomicUsize>,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            known: Mutex::new(Known::Nothing),
            waiting: Arc::default(),
            exchanged: Arc::default(),
        }
    }
}

/// One of the requests that are counted.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// Refuses one more than there may be.
    fn within(most: usize, count: &Arc<AtomicUsize>) -> Result<Self, SignOnError> {
        let counted = Self(Arc::clone(count));
        if counted.0.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(counted);
        }
        Err(SignOnError::Busy)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The issuers that were discovered. Cheap to clone.
#[derive(Clone)]
pub struct Issuers {
    http: LibraryHttp,
    known: Arc<PlainMutex<HashMap<String, Arc<Place>>>>,
}

impl std::fmt::Debug for Issuers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuers").finish_non_exhaustive()
    }
}

impl Issuers {
    /// Issuers over this HTTP.
    pub fn new(http: Arc<dyn Http>) -> Self {
        Self { http: LibraryHttp(http), known: Arc::default() }
    }

    /// Checks that an issuer can be used, whatever is remembered of it.
    pub async fn check(&self, issuer: &str, now: Timestamp) -> Result<(), SignOnError> {
        let place = self.place(issuer);
        let mut known = place.known.lock().await;
        self.discover(issuer, &mut known, now).await.map(drop)
    }

    /// Begins a sign-on. `anew` asks the issuer to have its user sign in once more, whatever it remembers of
    /// them; [`Identity::authenticated_at`] shows whether it did.
    pub async fn begin(
        &self,
        client: &Client,
        anew: bool,
        now: Timestamp,
    ) -> Result<Begun, SignOnError> {
        self.find(&client.issuer, now).await?.begin(client, anew)
    }

    /// Whether the issuer names itself beside every code (RFC 9207), so that one that comes without is
    /// another's.
    pub async fn names_itself(&self, issuer: &str, now: Timestamp) -> Result<bool, SignOnError> {
        Ok(self.find(issuer, now).await?.names_itself())
    }

    /// Exchanges a code for a token, and verifies it. `groups` is the claim with the groups of the user, if
    /// those matter.
    pub async fn finish(
        &self,
        client: &Client,
        flow: &Flow,
        code: &str,
        groups: Option<&str>,
        now: Timestamp,
    ) -> Result<Identity, SignOnError> {
        let issuer = self.find(&client.issuer, now).await?;
        let _counted = Counted::within(MOST_EXCHANGED, &self.place(&client.issuer).exchanged)?;
        issuer.finish(&self.http, client, flow, code, groups, now).await
    }

    /// The address at which a user signs out of the issuer too, if it has one, and leads back to an address of
    /// ours. `hint` is the token that they signed in with. Nothing is asked of the issuer if it is known.
    pub async fn end_session(
        &self,
        client: &Client,
        back: &str,
        hint: Option<&Secret>,
        now: Timestamp,
    ) -> Result<Option<String>, SignOnError> {
        Ok(self.find(&client.issuer, now).await?.end_session(client, back, hint))
    }

    /// An issuer that is remembered, or is discovered now, by one request at a time.
    async fn find(&self, issuer: &str, now: Timestamp) -> Result<Arc<Issuer>, SignOnError> {
        let place = self.place(issuer);
        let _counted = Counted::within(MOST_WAITING, &place.waiting)?;
        let mut known = place.known.lock().await;
        match &*known {
            // A clock that went back must not make it last longer.
            Known::Found(at, found) if (0..REMEMBERED).contains(&now.since(*at)) => {
                return Ok(Arc::clone(found));
            }
            Known::Failed(at, fault) if at.elapsed() < LEFT_ALONE => return Err(*fault),
            Known::Nothing | Known::Found(..) | Known::Failed(..) => {}
        }
        self.discover(issuer, &mut known, now).await
    }

    async fn discover(
        &self,
        issuer: &str,
        known: &mut Known,
        now: Timestamp,
    ) -> Result<Arc<Issuer>, SignOnError> {
        match Issuer::discover(&self.http, issuer).await {
            Ok(found) => {
                let found = Arc::new(found);
                *known = Known::Found(now, Arc::clone(&found));
                Ok(found)
            }
            Err(fault) => {
                *known = Known::Failed(Instant::now(), fault);
                Err(fault)
            }
        }
    }

    fn place(&self, issuer: &str) -> Arc<Place> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(issuer) && known.len() >= MOST_ISSUERS {
            known.clear();
        }
        Arc::clone(known.entry(issuer.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as PlainMutex;
    use std::task::{Context, Poll, Waker};

    use futures_util::future::BoxFuture;
    use http::{Request, Response};

    use super::*;

    const ISSUER: &str = "https://issuer.example";

    /// An issuer that hangs until the test lets its request fail.
    #[derive(Default)]
    struct Hanging {
        asked: AtomicUsize,
        requests: PlainMutex<Vec<futures_util::lock::OwnedMutexGuard<()>>>,
    }

    impl Http for Hanging {
        fn send(
            &self,
            _: Request<Vec<u8>>,
        ) -> BoxFuture<'_, Result<Response<Vec<u8>>, SignOnError>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let gate = Arc::new(Mutex::new(()));
            let held = gate.clone().try_lock_owned().unwrap();
            self.requests.lock().unwrap().push(held);
            Box::pin(async move {
                drop(gate.lock().await);
                Err(SignOnError::Unreachable)
            })
        }

        fn may_lead_to(&self, _: &str) -> bool {
            true
        }
    }

    /// An issuer that is discovered at once, and hangs over every code.
    struct SlowExchange;

    impl Http for SlowExchange {
        fn send(
            &self,
            request: Request<Vec<u8>>,
        ) -> BoxFuture<'_, Result<Response<Vec<u8>>, SignOnError>> {
            if request.method() == http::Method::POST {
                return Box::pin(std::future::pending());
            }
            let body = if request.uri().path() == "/keys" {
                r#"{"keys": []}"#.to_owned()
            } else {
                format!(
                    r#"{{"issuer": "{ISSUER}", "authorization_endpoint": "{ISSUER}/authorize",
                        "token_endpoint": "{ISSUER}/token", "jwks_uri": "{ISSUER}/keys",
                        "response_types_supported": ["code"], "subject_types_supported": ["public"],
                        "id_token_signing_alg_values_supported": ["ES256"]}}"#
                )
            };
            let answer = Response::builder().header("content-type", "application/json");
            let answer = answer.body(body.into_bytes()).unwrap();
            Box::pin(std::future::ready(Ok(answer)))
        }

        fn may_lead_to(&self, _: &str) -> bool {
            true
        }
    }

    #[test]
    fn codes_that_hang_keep_no_sign_on_from_beginning() {
        let issuers = Issuers::new(Arc::new(SlowExchange));
        let mut context = Context::from_waker(Waker::noop());
        let secret = |text: &str| Secret::new(text.to_owned());
        let exchange = || {
            let issuers = issuers.clone();
            Box::pin(async move {
                let client = Client {
                    issuer: ISSUER.to_owned(),
                    id: "sluice".to_owned(),
                    secret: None,
                    scopes: vec!["openid".to_owned()],
                    redirect_url: "https://sluice.example/callback".to_owned(),
                };
                let (state, nonce) = (secret("state"), secret("nonce"));
                let flow = Flow { state, nonce, verifier: secret(&"v".repeat(43)) };
                issuers.finish(&client, &flow, "junk", None, Timestamp(0)).await
            })
        };
        let mut hanging: Vec<_> = (0..MOST_EXCHANGED).map(|_| exchange()).collect();
        for one in &mut hanging {
            let answer = one.as_mut().poll(&mut context);
            assert!(answer.is_pending(), "{answer:?}");
        }
        let mut more = exchange();
        let answer = more.as_mut().poll(&mut context);
        assert!(matches!(answer, Poll::Ready(Err(SignOnError::Busy))), "{answer:?}");
        let mut begins = Box::pin(issuers.names_itself(ISSUER, Timestamp(0)));
        let answer = begins.as_mut().poll(&mut context);
        assert!(matches!(answer, Poll::Ready(Ok(false))), "{answer:?}");
        // A place is free again once an exchange is over, or nobody waits for it any more.
        hanging.pop();
        assert!(exchange().as_mut().poll(&mut context).is_pending());
    }

    #[test]
    fn a_flood_asks_an_issuer_that_hangs_once() {
        let http = Arc::new(Hanging::default());
        let issuers = Issuers::new(http.clone());
        let mut context = Context::from_waker(Waker::noop());
        // Each is of a later time than the one before, as the requests of a flood are.
        let ask = |n: i64| {
            let issuers = issuers.clone();
            let at = Timestamp(n * 20 * domain::time::SECOND);
            Box::pin(async move { issuers.names_itself(ISSUER, at).await })
        };
        let mut waiting: Vec<_> = (0..100).map(ask).collect();
        let mut refused = 0;
        waiting.retain_mut(|one| match one.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                assert_eq!(answer.unwrap_err(), SignOnError::Busy);
                refused += 1;
                false
            }
        });
        assert_eq!((waiting.len(), refused), (MOST_WAITING, 100 - MOST_WAITING));
        assert_eq!(http.asked.load(Ordering::Relaxed), 1);
        // The one request ends: its answer is that of all who wait, and of who comes then.
        http.requests.lock().unwrap().clear();
        for one in waiting.iter_mut().chain([&mut ask(200)]) {
            let answer = one.as_mut().poll(&mut context);
            assert!(matches!(answer, Poll::Ready(Err(SignOnError::Unreachable))));
        }
        assert_eq!(http.asked.load(Ordering::Relaxed), 1);
    }
}

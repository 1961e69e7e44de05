//! Second factors on a clock of their own.

use std::time::Duration;

use domain::project::Role;
use domain::secret::Secret;
use domain::time::{Clock, Timestamp};
use gateway::{Account, Error, FACTOR_AWAITED, Gateway, Member, Origin, SignIn, Standing};
use totp_rs::{Builder, Totp};

use crate::support::Database;

const OWNER: &str = "owner@localhost";
const PASSWORD: &str = "owner-password-1";

fn origin() -> Origin {
    from(1)
}

fn from(last: u8) -> Origin {
    Origin { address: [203, 0, 113, last].into(), user_agent: "a test".to_owned() }
}

/// A gateway whose owner has an authenticator, on a clock at the begin of a step.
struct Enrolled {
    _database: Database,
    gateway: Gateway,
    clock: Clock,
    authenticator: Totp,
    recovery_codes: Vec<Secret>,
    /// The session that has set it up.
    session: String,
}

impl Enrolled {
    async fn new() -> Self {
        let database = Database::new().await;
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let clock = Clock::fixed(noon);
        let gateway = database.serve_on(clock.clone()).await;
        let SignIn::Complete(first) = gateway.sign_in(OWNER, PASSWORD, &origin()).await.unwrap()
        else {
            unreachable!("there is no second factor yet")
        };
        let session = first.token.expose().to_owned();
        let (member, account) = gateway.session(&session, &origin(), Standing::Full).await.unwrap();
        let password = Secret::new(PASSWORD.to_owned());
        let new = gateway.offer_authenticator(&member, &account, password).await.unwrap();
        let secret = totp_rs::Secret::try_from_base32(new.secret.expose()).unwrap();
        let authenticator = Builder::new().with_secret(secret).build().unwrap();
        let code = code_at(&authenticator, &clock, 0);
        let codes = gateway.confirm_authenticator(&member, &account, &code).await.unwrap();
        Self { _database: database, gateway, clock, authenticator, recovery_codes: codes, session }
    }

    /// The code of now, or of so many steps after it.
    fn code(&self, steps: i64) -> String {
        code_at(&self.authenticator, &self.clock, steps)
    }

    fn wait(&self, seconds: u64) {
        self.clock.set(self.clock.now().plus(Duration::from_secs(seconds)));
    }

    /// The cookie's value after the password.
    async fn awaiting(&self, origin: &Origin) -> gateway::Result<String> {
        match self.gateway.sign_in(OWNER, PASSWORD, origin).await? {
            SignIn::AwaitsFactor(token) => Ok(token.expose().to_owned()),
            SignIn::Complete(_) => unreachable!("signed in without the second factor"),
        }
    }

    async fn claim(
        &self,
        token: &str,
        origin: &Origin,
        least: Standing,
    ) -> gateway::Result<(Member, Account)> {
        self.gateway.session(token, origin, least).await
    }

    /// The second step of a sign-in.
    async fn verify(&self, token: &str, code: &str, origin: &Origin) -> gateway::Result<String> {
        let (member, account) = self.claim(token, origin, Standing::AwaitsFactor).await?;
        let signed_in = self.gateway.verify_factor(token, &member, account, code).await?;
        Ok(signed_in.token.expose().to_owned())
    }

    /// Both steps of a sign-in.
    async fn sign_in(&self, code: &str) -> gateway::Result<String> {
        self.verify(&self.awaiting(&origin()).await?, code, &origin()).await
    }
}

fn code_at(authenticator: &Totp, clock: &Clock, steps: i64) -> String {
    authenticator.generate((clock.now().unix_seconds() + 30 * steps) as u64).to_string()
}

#[tokio::test]
async fn a_code_is_good_once_and_for_a_step_around_its_own() {
    let owner = Enrolled::new().await;
    let unauthorized = |tried: gateway::Result<String>| {
        assert!(matches!(tried, Err(Error::Unauthorized)), "{tried:?}");
    };
    unauthorized(owner.sign_in(&owner.code(0)).await);
    owner.sign_in(&owner.code(1)).await.unwrap();
    unauthorized(owner.sign_in(&owner.code(1)).await);
    // A code of before the last one is as good as used.
    unauthorized(owner.sign_in(&owner.code(0)).await);
    owner.wait(120);
    unauthorized(owner.sign_in(&owner.code(-2)).await);
    unauthorized(owner.sign_in(&owner.code(2)).await);
    owner.sign_in(&owner.code(-1)).await.unwrap();
    let spaced = owner.code(0);
    owner.sign_in(&format!("{} {}", &spaced[..3], &spaced[3..])).await.unwrap();
    owner.gateway.close().await;
}

#[tokio::test]
async fn of_two_requests_with_one_code_one_gets_through() {
    let (owner, home) = (Enrolled::new().await, origin());
    owner.wait(60);
    let (one, two) = (owner.awaiting(&home).await.unwrap(), owner.awaiting(&home).await);
    let (two, code) = (two.unwrap(), owner.code(0));
    let (first, second) =
        tokio::join!(owner.verify(&one, &code, &home), owner.verify(&two, &code, &home));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let recovery = owner.recovery_codes[0].expose();
    let (one, two) = (owner.awaiting(&home).await.unwrap(), owner.awaiting(&home).await);
    let two = two.unwrap();
    let (first, second) =
        tokio::join!(owner.verify(&one, recovery, &home), owner.verify(&two, recovery, &home));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    owner.gateway.close().await;
}

#[tokio::test]
async fn one_cookie_gives_one_session_even_with_two_codes() {
    let owner = Enrolled::new().await;
    let token = owner.awaiting(&origin()).await.unwrap();
    let fresh = owner.verify(&token, owner.recovery_codes[0].expose(), &origin()).await.unwrap();
    assert_ne!(fresh, token);
    let again = owner.verify(&token, owner.recovery_codes[1].expose(), &origin()).await;
    assert!(matches!(again, Err(Error::InvalidToken)), "{again:?}");
    // A session that is signed in awaits nothing; the code is not used up.
    let signed_in = owner.verify(&fresh, owner.recovery_codes[1].expose(), &origin()).await;
    assert!(matches!(signed_in, Err(Error::Unauthorized)), "{signed_in:?}");
    owner.sign_in(owner.recovery_codes[1].expose()).await.unwrap();
    owner.gateway.close().await;
}

#[tokio::test]
async fn what_awaits_its_factor_is_good_for_nothing_else_and_ends_soon() {
    let owner = Enrolled::new().await;
    let token = owner.awaiting(&origin()).await.unwrap();
    for least in [Standing::Enrols, Standing::Full] {
        let claimed = owner.claim(&token, &origin(), least).await;
        assert!(matches!(claimed, Err(Error::Unauthorized)), "{claimed:?}");
    }
    let seconds = FACTOR_AWAITED.unsigned_abs() / 1_000_000;
    owner.wait(seconds);
    owner.claim(&token, &origin(), Standing::AwaitsFactor).await.unwrap();
    owner.wait(1);
    let late = owner.verify(&token, &owner.code(0), &origin()).await;
    assert!(matches!(late, Err(Error::TokenExpired)), "{late:?}");
    owner.claim(&owner.session, &origin(), Standing::Full).await.unwrap();
    owner.gateway.close().await;
}

#[tokio::test]
async fn six_tries_for_all_cookies_of_an_account() {
    let owner = Enrolled::new().await;
    owner.wait(60);
    // From strange addresses with the right password: every try has a cookie of its own.
    for last in 10..16 {
        let token = owner.awaiting(&from(last)).await.unwrap();
        let tried = owner.verify(&token, "000000", &from(last)).await;
        assert!(matches!(tried, Err(Error::Unauthorized)), "{last}: {tried:?}");
    }
    let token = owner.awaiting(&from(20)).await;
    assert!(matches!(token, Err(Error::LoginThrottled { .. })), "{token:?}");
    // The owner's own address has tries of its own, six with passwords and codes together.
    let token = owner.awaiting(&origin()).await.unwrap();
    for _ in 0..3 {
        let tried = owner.verify(&token, "000000", &origin()).await;
        assert!(matches!(tried, Err(Error::Unauthorized)), "{tried:?}");
        let tried = owner.gateway.sign_in(OWNER, "wrong-password-1", &origin()).await;
        assert!(matches!(tried, Err(Error::Unauthorized)), "{tried:?}");
    }
    let tried = owner.verify(&token, &owner.code(0), &origin()).await;
    assert!(matches!(tried, Err(Error::LoginThrottled { .. })), "{tried:?}");
    // So it is for a session that is signed in.
    let (member, account) = owner.claim(&owner.session, &origin(), Standing::Full).await.unwrap();
    let password = Secret::new(PASSWORD.to_owned());
    let tried = owner.gateway.remove_own_factors(&member, &account, password, &owner.code(0)).await;
    assert!(matches!(tried, Err(Error::LoginThrottled { .. })), "{tried:?}");
    owner.wait(15 * 60);
    owner.sign_in(&owner.code(0)).await.unwrap();
    owner.gateway.close().await;
}

#[tokio::test]
async fn a_wrong_password_uses_up_no_code() {
    let owner = Enrolled::new().await;
    let (member, account) = owner.claim(&owner.session, &origin(), Standing::Full).await.unwrap();
    let remove = async |password: &str, code: &str| {
        let password = Secret::new(password.to_owned());
        owner.gateway.remove_own_factors(&member, &account, password, code).await
    };
    let code = owner.recovery_codes[0].expose();
    let tried = remove("wrong-password-1", code).await;
    assert!(matches!(tried, Err(Error::Invalid(_))), "{tried:?}");
    remove(PASSWORD, code).await.unwrap();
    let signed_in = owner.gateway.sign_in(OWNER, PASSWORD, &origin()).await.unwrap();
    assert!(matches!(signed_in, SignIn::Complete(_)));
    owner.gateway.close().await;
}

#[tokio::test]
async fn no_password_signs_in_whoever_has_none() {
    let database = Database::new().await;
    let store = database.visit().await;
    let org = store.first_org().await.unwrap().unwrap();
    let mut tx = store.begin().await.unwrap();
    let now = Clock::system().now();
    tx.add_user(org, "sso@example.org", "", Role::Member, now).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    let gateway = database.serve().await;
    // The last is what unknown accounts are compared with.
    for password in ["", " ", "nobody has this password"] {
        for email in ["sso@example.org", "nobody@example.org"] {
            let tried = gateway.sign_in(email, password, &origin()).await;
            assert!(matches!(tried, Err(Error::Unauthorized)), "{email} {password}: {tried:?}");
        }
    }
    gateway.close().await;
}

#[tokio::test]
async fn without_a_password_a_sign_in_counts_for_ten_minutes() {
    let database = Database::new().await;
    let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let clock = Clock::fixed(noon);
    let gateway = database.serve_on(clock.clone()).await;
    let store = database.visit().await;
    let org = store.first_org().await.unwrap().unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.add_user(org, "sso@example.org", "", Role::Member, noon).await.unwrap();
    tx.commit().await.unwrap();
    let account = store.account("sso@example.org").await.unwrap().unwrap();
    store.close().await;
    let member = Member {
        user: account.user,
        email: account.email.clone(),
        token: None,
        session: None,
        org: account.org,
        role: account.role,
        projects: Vec::new(),
        signed_in_at: noon,
        origin: origin(),
    };
    let none = || Secret::new(String::new());
    clock.set(noon.plus(Duration::from_secs(599)));
    gateway.offer_authenticator(&member, &account, none()).await.unwrap();
    clock.set(noon.plus(Duration::from_mins(10)));
    // No text that is sent as a password is a guess at one, however often it is sent.
    for _ in 0..8 {
        let late = gateway.offer_authenticator(&member, &account, none()).await;
        assert!(late.unwrap_err().to_string().contains("sign in again"));
        let late = gateway.remove_own_factors(&member, &account, none(), "000000").await;
        assert!(late.unwrap_err().to_string().contains("sign in again"));
        let new = Secret::new("a-long-password-1".to_owned());
        let late = gateway.change_own_password(&member, &account, none(), new).await;
        assert!(late.unwrap_err().to_string().contains("sign in again"));
    }
}

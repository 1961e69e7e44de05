//! Second factors and the sessions that await one.

use domain::ids::{OrgId, ProjectId, SignOnProviderId, UserId};
use domain::project::Role;
use domain::secret::Secret;
use domain::sign_on::SignOnRule;
use domain::time::{HOUR, MINUTE};
use store::{Claim, NewSession, SealingKey, SignOnProvider, Store, StoredPasskey};

use crate::support::{NOW, databases, project, session};

/// Two members of an organization with a project.
async fn users(store: &Store) -> [UserId; 2] {
    project(store).await;
    let org = store.first_org().await.unwrap().unwrap();
    let mut tx = store.begin().await.unwrap();
    let user = tx.add_user(org, "a@b.test", "hash", Role::Member, NOW).await.unwrap();
    let other = tx.add_user(org, "b@b.test", "hash", Role::Member, NOW).await.unwrap();
    tx.commit().await.unwrap();
    [user, other]
}

#[tokio::test]
async fn each_code_is_used_up_once() {
    for database in databases().await {
        let store = database.open().await;
        let [user, other] = users(&store).await;
        let mut tx = store.begin().await.unwrap();
        for secret in ["FIRST", "SECOND"] {
            let secret = Secret::new(secret.to_owned());
            assert!(store.offer_authenticator(&mut tx, user, &secret).await.unwrap());
        }
        tx.commit().await.unwrap();
        assert!(store.authenticator(other).await.unwrap().is_none());
        let offered = store.authenticator(user).await.unwrap().unwrap();
        assert_eq!((offered.secret.expose(), offered.last_step), ("SECOND", 0));
        assert!(!store.account("a@b.test").await.unwrap().unwrap().mfa_enabled);

        let mut tx = store.begin().await.unwrap();
        assert!(!tx.use_step(user, &offered, 5).await.unwrap(), "it is not active yet");
        assert!(tx.activate_authenticator(user, &offered, 5).await.unwrap());
        assert!(!tx.activate_authenticator(user, &offered, 6).await.unwrap(), "{}", database.kind);
        for (step, is_new) in [(5, false), (4, false), (6, true), (6, false), (8, true), (7, false)]
        {
            assert_eq!(tx.use_step(user, &offered, step).await.unwrap(), is_new, "{step}");
        }
        let third = Secret::new("THIRD".to_owned());
        assert!(!store.offer_authenticator(&mut tx, user, &third).await.unwrap());
        tx.set_recovery_codes(user, &[[1; 32], [2; 32]]).await.unwrap();
        tx.set_recovery_codes(user, &[[3; 32], [4; 32]]).await.unwrap();
        assert!(!tx.use_recovery_code(user, &[1; 32]).await.unwrap(), "it was replaced");
        assert!(!tx.use_recovery_code(other, &[3; 32]).await.unwrap(), "it is another's");
        assert!(tx.use_recovery_code(user, &[3; 32]).await.unwrap());
        assert!(!tx.use_recovery_code(user, &[3; 32]).await.unwrap());
        assert_eq!(tx.recovery_codes_left(user).await.unwrap(), 1);
        tx.commit().await.unwrap();
        assert!(store.account("a@b.test").await.unwrap().unwrap().mfa_enabled);

        let mut tx = store.begin().await.unwrap();
        assert!(tx.remove_second_factors(user).await.unwrap().had_any);
        assert!(!tx.remove_second_factors(user).await.unwrap().had_any);
        assert!(!tx.use_recovery_code(user, &[4; 32]).await.unwrap());
        assert!(!tx.use_step(user, &offered, 9).await.unwrap());
        tx.commit().await.unwrap();
        assert!(store.authenticator(user).await.unwrap().is_none());
        store.close().await;
    }
}

#[tokio::test]
async fn a_passkey_that_is_being_added_is_removed_with_the_others() {
    const WAITING: &str = "
        SELECT CAST(pid AS TEXT) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for database in databases().await {
        let store = database.open().await;
        let [user, _] = users(&store).await;
        let account = store.account("a@b.test").await.unwrap().unwrap();
        let new = StoredPasskey {
            credential_id: vec![1; 16],
            name: "Laptop".to_owned(),
            credential: "{}".to_owned(),
            created_at: NOW,
            last_used_at: None,
        };
        let mut adding = store.begin().await.unwrap();
        assert!(adding.confirm_password(&account, None).await.unwrap());
        assert!(adding.add_passkey(user, &new).await.unwrap());
        let removing = async {
            let mut tx = store.begin().await.unwrap();
            let removed = tx.remove_second_factors(user).await.unwrap();
            tx.commit().await.unwrap();
            removed.passkeys
        };
        let added = async {
            // SQLite has one writer: the other transaction has not begun.
            while database.location.is_postgres() && database.texts(WAITING).await.is_empty() {
                tokio::task::yield_now().await;
            }
            adding.commit().await.unwrap();
        };
        let (removed, ()) = tokio::join!(removing, added);
        let names: Vec<_> = removed.iter().map(|passkey| &*passkey.name).collect();
        assert_eq!(names, ["Laptop"], "{}", database.kind);
        assert!(store.passkeys(user).await.unwrap().is_empty());
        store.close().await;
    }
}

fn provider(secret: Secret) -> SignOnProvider {
    SignOnProvider {
        id: SignOnProviderId(0),
        org: OrgId(1),
        slug: "work".to_owned(),
        name: "Work".to_owned(),
        issuer: "https://login.example".to_owned(),
        client_id: "sluice".to_owned(),
        client_secret: Some(secret),
        scopes: vec!["openid".to_owned()],
        groups_claim: "groups".to_owned(),
        rules: vec![SignOnRule {
            claim_value: "eng".to_owned(),
            role: Role::Member,
            projects: vec![ProjectId(1)],
        }],
        trusts_factor: false,
        created_at: NOW,
    }
}

#[tokio::test]
async fn another_master_key_seals_the_secrets_anew() {
    for database in databases().await {
        let store = database.open().await;
        let [user, _] = users(&store).await;
        let mut tx = store.begin().await.unwrap();
        let secret = Secret::new("SECRET".to_owned());
        store.offer_authenticator(&mut tx, user, &secret).await.unwrap();
        let provider = provider(secret);
        store.add_sign_on_provider(&mut tx, &provider).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let new = SealingKey::master(&[8; 32]).unwrap();
        // The project's data key, the two secrets, the pepper.
        assert_eq!(store.rotate_master_key(&mut tx, &new).await.unwrap(), 4);
        tx.commit().await.unwrap();
        assert!(store.authenticator(user).await.is_err(), "the old key opens nothing");
        assert!(store.sign_on_providers(OrgId(1)).await.is_err());
        store.close().await;
        let store = database.try_open([8; 32], Claim::Serve).await.unwrap();
        let opened = store.authenticator(user).await.unwrap().unwrap();
        assert_eq!(opened.secret.expose(), "SECRET", "{}", database.kind);
        let found = store.sign_on_providers(OrgId(1)).await.unwrap().remove(0);
        assert_eq!(found.client_secret.unwrap().expose(), "SECRET", "{}", database.kind);
        assert_eq!((found.rules, found.scopes), (provider.rules, provider.scopes));
        store.close().await;
    }
}

#[tokio::test]
async fn sessions_are_listed_and_ended_for_their_user_alone() {
    for database in databases().await {
        let store = database.open().await;
        let [user, other] = users(&store).await;
        let mut tx = store.begin().await.unwrap();
        let hashes: [[u8; 32]; 4] = [[0; 32], [1; 32], [255; 32], [9; 32]];
        for (minutes, hash) in (0..).zip(&hashes) {
            let at = NOW.minus_micros(-minutes * MINUTE);
            tx.add_session(&NewSession { at, ..session(hash, user) }).await.unwrap();
        }
        tx.add_session(&session(&[7; 32], other)).await.unwrap();
        let awaiting = NewSession { awaits_factor: true, ..session(&[8; 32], user) };
        tx.add_session(&awaiting).await.unwrap();
        tx.commit().await.unwrap();
        assert!(store.session(&[8; 32]).await.unwrap().unwrap().awaits_factor);

        let old = NOW.minus_micros(HOUR);
        let listed = store.sessions_of(user, old, old, 3).await.unwrap();
        let found: Vec<_> = listed.iter().map(|session| session.token_hash[0]).collect();
        assert_eq!(found, [9, 255, 1], "the latest first: {}", database.kind);
        assert_eq!(listed[0].address.as_deref(), Some("::1"));
        assert_eq!(listed[0].user_agent.as_deref(), Some("curl"));
        let later = NOW.minus_micros(-2 * MINUTE);
        assert_eq!(store.sessions_of(user, later, old, 9).await.unwrap().len(), 2);
        assert_eq!(store.sessions_of(user, old, later, 9).await.unwrap().len(), 2);

        let mut tx = store.begin().await.unwrap();
        assert!(!tx.end_session_of(user, [7; 8]).await.unwrap(), "it is another's");
        assert!(!tx.end_session_of(user, [8; 8]).await.unwrap(), "it awaits its second factor");
        assert!(!tx.end_session_of(user, [2; 8]).await.unwrap());
        assert!(tx.end_session_of(user, [255; 8]).await.unwrap());
        assert!(tx.end_awaiting(&[1; 32]).await.unwrap().is_none(), "it awaits nothing");
        assert!(tx.end_awaiting(&[8; 32]).await.unwrap().is_some());
        assert!(tx.end_awaiting(&[8; 32]).await.unwrap().is_none());
        tx.end_sessions(user, Some(&[1; 32])).await.unwrap();
        tx.add_session(&awaiting).await.unwrap();
        tx.commit().await.unwrap();
        let left = store.sessions_of(user, old, old, 9).await.unwrap();
        assert_eq!(left.iter().map(|left| left.token_hash[0]).collect::<Vec<_>>(), [1]);

        store.purge_sessions(old, old, NOW).await.unwrap();
        assert!(store.session(&[8; 32]).await.unwrap().is_some());
        store.purge_sessions(old, old, later).await.unwrap();
        assert!(store.session(&[8; 32]).await.unwrap().is_none(), "it has waited too long");
        assert!(store.session(&[7; 32]).await.unwrap().is_some());
        let mut tx = store.begin().await.unwrap();
        tx.end_sessions(user, None).await.unwrap();
        tx.commit().await.unwrap();
        assert!(store.sessions_of(user, old, old, 9).await.unwrap().is_empty());
        store.close().await;
    }
}

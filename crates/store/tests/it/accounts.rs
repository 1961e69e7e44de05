//! Users and sessions.

use std::net::IpAddr;

use domain::ids::UserId;
use domain::project::Role;
use domain::time::HOUR;
use store::{Account, Error};

use crate::support::{NOW, databases, project, session};

#[tokio::test]
async fn a_session_lives_until_it_is_ended_purged_or_the_password_changes() {
    for database in databases().await {
        let store = database.open().await;
        assert!(store.is_empty().await.unwrap());
        let (project, _) = project(&store).await;
        let org = store.first_org().await.unwrap().unwrap();
        let mut tx = store.begin().await.unwrap();
        let user = tx.add_user(org, "a@b.test", "hash", Role::Member, NOW).await.unwrap();
        tx.add_project_member(project, user).await.unwrap();
        for token in [1, 2] {
            tx.add_session(&session(&[token; 32], user)).await.unwrap();
        }
        tx.commit().await.unwrap();
        let session = store.session(&[1; 32]).await.unwrap().unwrap();
        assert_eq!((session.account.role, session.account.user), (Role::Member, user));
        assert_eq!(store.member_projects(user).await.unwrap(), [project]);
        store.touch_session(&[1; 32], NOW.minus_micros(-HOUR)).await.unwrap();
        store.purge_sessions(NOW, NOW.minus_micros(-HOUR / 2), NOW).await.unwrap();
        assert!(store.session(&[2; 32]).await.unwrap().is_none(), "{}", database.kind);
        assert!(store.session(&[1; 32]).await.unwrap().is_some());
        let mut tx = store.begin().await.unwrap();
        let account = session.account;
        assert!(tx.confirm_password(&account, Some("dearer")).await.unwrap());
        assert!(!tx.confirm_password(&account, Some("too late")).await.unwrap());
        let dearer = Account { password_hash: "dearer".to_owned(), ..account };
        assert!(tx.confirm_password(&dearer, None).await.unwrap());
        let with_factor = Account { mfa_enabled: true, ..dearer };
        assert!(!tx.confirm_password(&with_factor, None).await.unwrap(), "it has none any more");
        tx.commit().await.unwrap();
        assert_eq!(store.account("a@b.test").await.unwrap().unwrap().password_hash, "dearer");
        assert!(store.session(&[1; 32]).await.unwrap().is_some());
        let networks: [IpAddr; 2] = ["198.51.100.1".parse().unwrap(), "::1".parse().unwrap()];
        let mut tx = store.begin().await.unwrap();
        tx.remember_network(user, networks[0], NOW.minus_micros(HOUR), 10).await.unwrap();
        tx.remember_network(user, networks[1], NOW, 10).await.unwrap();
        tx.commit().await.unwrap();
        store.purge_networks(NOW).await.unwrap();
        let knows = async |network| {
            store.knows_network(user, network, NOW.minus_micros(2 * HOUR)).await.unwrap()
        };
        assert_eq!((knows(networks[0]).await, knows(networks[1]).await), (false, true));
        let mut tx = store.begin().await.unwrap();
        tx.set_password(user, "other").await.unwrap();
        tx.commit().await.unwrap();
        assert!(knows(networks[1]).await, "a reset must not lock the owner out with strangers");
        assert!(store.session(&[1; 32]).await.unwrap().is_none());
        assert_eq!(store.account("a@b.test").await.unwrap().unwrap().password_hash, "other");
        let mut tx = store.begin().await.unwrap();
        let twice = tx.add_user(org, "a@b.test", "hash", Role::Viewer, NOW).await;
        assert!(matches!(twice, Err(Error::Taken)), "{}: {twice:?}", database.kind);
        drop(tx);
        store.close().await;
    }
}

#[tokio::test]
async fn the_latest_networks_of_an_account_are_known() {
    for database in databases().await {
        let store = database.open().await;
        project(&store).await;
        let org = store.first_org().await.unwrap().unwrap();
        let mut tx = store.begin().await.unwrap();
        let one = tx.add_user(org, "a@b.test", "hash", Role::Member, NOW).await.unwrap();
        let two = tx.add_user(org, "b@b.test", "hash", Role::Member, NOW).await.unwrap();
        let network = |last: u8| IpAddr::from([203, 0, 113, last]);
        let at = |hours: u8| NOW.minus_micros(-HOUR * i64::from(hours));
        for last in 0..4 {
            tx.remember_network(one, network(last), at(last), 3).await.unwrap();
        }
        tx.remember_network(two, network(0), at(0), 3).await.unwrap();
        // The clock went back: a network that comes now stays all the same.
        tx.remember_network(one, network(9), NOW.minus_micros(HOUR), 3).await.unwrap();
        tx.commit().await.unwrap();
        let mut known = Vec::new();
        for last in 0..10 {
            if store.knows_network(one, network(last), NOW.minus_micros(HOUR)).await.unwrap() {
                known.push(last);
            }
        }
        assert_eq!(known, [2, 3, 9], "{}", database.kind);
        assert!(store.knows_network(two, network(0), NOW).await.unwrap());
        assert!(!store.knows_network(two, network(0), at(1)).await.unwrap(), "long ago");
        assert!(!store.knows_network(two, network(2), NOW).await.unwrap());
        // Nobody has this number.
        assert!(!store.knows_network(UserId(0), network(0), NOW).await.unwrap());
        store.close().await;
    }
}

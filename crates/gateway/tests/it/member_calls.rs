//! Calls that signed-in members make with keys.

use domain::ids::ProjectId;
use domain::project::Role;
use domain::time::Clock;
use gateway::{Error, Member, NewKey, Spends};

use crate::support::{Database, FIRST, owner};

#[tokio::test]
async fn members_of_others_do_not_pass_the_gate_with_a_key() {
    let database = Database::new().await;
    let gateway = database.serve().await;
    let store = database.visit().await;
    let owner = owner(&store).await;
    let new = NewKey {
        name: "mine".to_owned(),
        project: FIRST,
        hourly_limit: None,
        expires_at: None,
        allowed_models: None,
        allowed_endpoints: None,
    };
    let (made, _) = gateway.create_key(&owner, new).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let elsewhere = tx.add_org("Elsewhere", Clock::system().now()).await.unwrap();
    tx.commit().await.unwrap();
    let gate = async |member: &Member| {
        gateway.gate_member(member, made.key.id, Spends::Yes).await.map(drop)
    };
    assert!(gate(&owner).await.is_ok());
    // Even with the number of the user who made the key.
    for role in [Role::Owner, Role::Admin, Role::Member] {
        let projects = vec![FIRST];
        let stranger = Member { org: elsewhere, role, projects, ..owner.clone() };
        assert!(matches!(gate(&stranger).await, Err(Error::NotFound)), "{role:?}");
    }
    let mine = Member { role: Role::Member, projects: vec![FIRST], ..owner.clone() };
    assert!(gate(&mine).await.is_ok());
    for (member, is_seen) in [
        (Member { role: Role::Viewer, ..mine.clone() }, true),
        (Member { projects: vec![ProjectId(2)], ..mine.clone() }, false),
        (Member { projects: Vec::new(), ..mine.clone() }, false),
    ] {
        match gate(&member).await {
            Err(Error::Forbidden) => assert!(is_seen, "{member:?}"),
            Err(Error::NotFound) => assert!(!is_seen, "{member:?}"),
            other => panic!("{member:?}: {other:?}"),
        }
    }
    store.close().await;
    gateway.close().await;
}

//! One-time links on a clock of their own.

use std::time::Duration;

use domain::secret::Secret;
use domain::time::{Clock, Timestamp};
use gateway::{
    Error, Gateway, Handover, Link, LinkPurpose, Member, NewInvitation, Origin, SignIn, Standing,
};

use crate::support::Database;

const GONE: &str = "The link is invalid, has expired or was used already: ask for a new one";

fn origin() -> Origin {
    Origin { address: [203, 0, 113, 1].into(), user_agent: "a test".to_owned() }
}

fn password() -> Secret {
    Secret::new("a-long-password-1".to_owned())
}

fn shown(handover: Handover) -> Link {
    let Handover::Shown(link) = handover else { unreachable!("there is no mail server") };
    link
}

async fn owner(gateway: &Gateway) -> Member {
    let signed_in = gateway.sign_in("owner@localhost", "owner-password-1", &origin()).await;
    let SignIn::Complete(signed_in) = signed_in.unwrap() else {
        unreachable!("there is no factor")
    };
    let session = gateway.session(signed_in.token.expose(), &origin(), Standing::Full).await;
    session.unwrap().0
}

#[tokio::test]
async fn links_are_good_for_as_long_as_their_purpose_needs() {
    let database = Database::new().await;
    let clock = Clock::fixed(Timestamp::parse("2026-11-15T12:00:00Z").unwrap());
    let gateway = database.serve_on(clock.clone()).await;
    let owner = owner(&gateway).await;
    let invite = async |email: &str| {
        let (email, role) = (email.to_owned(), "viewer".to_owned());
        let new = NewInvitation { email, role, projects: Vec::new() };
        let (invitation, link) = gateway.invite(&owner, new).await.unwrap();
        (invitation, shown(link).token)
    };
    let advance = |by: Duration| clock.set(clock.now().plus(by));
    let accept = async |token: &Secret| {
        let accepted =
            gateway.accept_invitation(token.expose(), "Name", password(), &origin()).await;
        accepted.map(|signed_in| signed_in.account)
    };
    let (invitation, early) = invite("early@example.org").await;
    let (_, late) = invite("late@example.org").await;
    let hours = Duration::from_hours(72);
    let second = Duration::from_secs(1);
    assert_eq!(invitation.expires_at, clock.now().plus(hours));
    advance(hours.saturating_sub(second));
    let user = accept(&early).await.unwrap().user;
    advance(second);
    let refused = accept(&late).await.unwrap_err();
    assert_eq!(refused.to_string(), GONE);
    assert!(gateway.list_invitations(&owner).await.unwrap().is_empty());

    let reset = async |token: &Secret| {
        gateway.reset_password_by_link(token.expose(), password(), &origin()).await
    };
    let token = shown(gateway.offer_password_link(&owner, user).await.unwrap()).token;
    advance(Duration::from_hours(1).saturating_sub(second));
    assert_eq!(
        gateway.link_address(LinkPurpose::Password, token.expose(), &origin()).await.unwrap(),
        "early@example.org"
    );
    advance(second);
    assert!(matches!(reset(&token).await, Err(Error::LinkInvalid)));
    let token = shown(gateway.offer_password_link(&owner, user).await.unwrap()).token;
    reset(&token).await.unwrap();
}

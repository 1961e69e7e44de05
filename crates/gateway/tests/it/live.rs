//! Streams of live views on a clock of their own.

use std::time::Duration;

use domain::project::Role;
use domain::time::{Clock, Timestamp};
use gateway::{
    Error, Gateway, LiveEvent, LiveStream, LiveView, LiveViews, Member, Origin, Period, SignIn,
    Span, Standing,
};

use crate::support::{Database, FIRST};

fn origin() -> Origin {
    Origin { address: [203, 0, 113, 1].into(), user_agent: "a test".to_owned() }
}

/// A gateway whose owner is signed in.
struct Watching {
    database: Database,
    gateway: Gateway,
    clock: Clock,
    token: String,
    member: Member,
}

impl Watching {
    async fn new() -> Self {
        let database = Database::new().await;
        let clock = Clock::fixed(Timestamp::parse("2026-11-15T12:00:00Z").unwrap());
        let gateway = database.serve_on(clock.clone()).await;
        let signed_in = gateway.sign_in("owner@localhost", "owner-password-1", &origin()).await;
        let SignIn::Complete(session) = signed_in.unwrap() else {
            unreachable!("there is no second factor")
        };
        let token = session.token.expose().to_owned();
        let (member, _) = gateway.session(&token, &origin(), Standing::Full).await.unwrap();
        Self { database, gateway, clock, token, member }
    }

    fn open(&self) -> LiveStream {
        self.open_view(LiveView::Traces)
    }

    fn open_view(&self, view: LiveView) -> LiveStream {
        let views = LiveViews::new(self.gateway.clone());
        views.open(&self.member, &self.token, FIRST, view).unwrap()
    }

    fn wait(&self, seconds: u64) {
        self.clock.set(self.clock.now().plus(Duration::from_secs(seconds)));
    }
}

#[tokio::test]
async fn a_stream_ends_soon_after_its_session() {
    let owner = Watching::new().await;
    let mut stream = owner.open();
    owner.wait(31);
    assert!(matches!(stream.next().await, Some(LiveEvent::Quiet)), "the session stands");
    owner.gateway.sign_out(&owner.token, &owner.member, &[]).await.unwrap();
    owner.wait(16);
    assert!(matches!(stream.next().await, Some(LiveEvent::Quiet)), "it is not looked up yet");
    owner.wait(14);
    assert!(stream.next().await.is_none());
    drop(stream);
    owner.gateway.close().await;
}

#[tokio::test]
async fn a_stream_ends_once_its_member_has_another_role() {
    let owner = Watching::new().await;
    let mut stream = owner.open();
    let store = owner.database.visit().await;
    let mut tx = store.begin().await.unwrap();
    // An admin sees the project as well.
    tx.set_role(owner.member.org, owner.member.user, Role::Admin).await.unwrap();
    tx.commit().await.unwrap();
    owner.wait(31);
    assert!(stream.next().await.is_none());
    drop(stream);
    owner.gateway.close().await;
}

#[tokio::test]
async fn a_stream_ends_after_ten_minutes() {
    let owner = Watching::new().await;
    let mut stream = owner.open();
    owner.wait(599);
    assert!(matches!(stream.next().await, Some(LiveEvent::Quiet)));
    owner.wait(1);
    assert!(stream.next().await.is_none());
    drop(stream);
    owner.gateway.close().await;
}

/// A page whose period ends today is open over midnight.
#[tokio::test]
async fn an_overview_of_days_ends_soon_after_the_last_of_them() {
    let owner = Watching::new().await;
    owner.wait(12 * 3_600 - 10);
    owner.gateway.session(&owner.token, &origin(), Standing::Full).await.unwrap();
    let days = Period::read(None, Some("2026-11-01"), Some("2026-11-15"), owner.clock.now());
    let span = Span::of(&days.unwrap());
    let mut stream = owner.open_view(LiveView::Overview(span, [].into()));
    loop {
        match stream.next().await {
            Some(LiveEvent::Overview(overview)) if overview.usages.is_some() => break,
            Some(LiveEvent::Overview(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    owner.wait(10 + 119);
    let next = stream.next().await;
    let goes_on = matches!(next, Some(LiveEvent::Overview(_) | LiveEvent::Quiet));
    assert!(goes_on, "a late call may come: {next:?}");
    owner.wait(1);
    let Some(LiveEvent::Over(overview)) = stream.next().await else { panic!("it is over") };
    assert_eq!(overview.figures.now.usage.requests, 0);
    assert!(stream.next().await.is_none());
    drop(stream);
    owner.gateway.close().await;
}

#[tokio::test]
async fn a_page_that_is_merely_open_does_not_prolong_its_session() {
    let owner = Watching::new().await;
    for _ in 0..12 {
        owner.wait(3_600);
        owner.gateway.idle_session(&owner.token, &origin(), Standing::Full).await.unwrap();
    }
    owner.wait(1);
    let late = owner.gateway.idle_session(&owner.token, &origin(), Standing::Full).await;
    assert!(matches!(late, Err(Error::TokenExpired)), "{late:?}");
    owner.gateway.close().await;
}

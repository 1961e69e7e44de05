//! Signing in while nothing can be written.

use domain::time::Clock;
use futures_util::future::join_all;
use serde_json::json;
use store::{Claim, Location, Options, SealingKey, Store, Tx};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Server, Setup};
use crate::session::passkeys;
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::{enrol, verify, with_cookie};

const PUBLIC: &str = "https://ai.example:8443";
const MASTER: [u8; 32] = [0x11; 32];

/// A server on a file of SQLite, which believes loopback about addresses of clients.
async fn start() -> Server {
    let setup = Setup::new(&Backend::Sqlite).env("SLUICE_MASTER_KEY", &"11".repeat(32));
    let setup = setup.env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32");
    setup.env("SLUICE_PUBLIC_URL", PUBLIC).start().await
}

/// Another writer of the file: nobody else writes until it ends.
async fn other_writer(server: &Server) -> Tx {
    let options = Options {
        location: Location::Sqlite(server.data().join("sluice.db")),
        master: SealingKey::master(&MASTER).unwrap(),
        claim: Claim::Visit,
        clock: Clock::system(),
    };
    Store::open(options).await.unwrap().begin().await.unwrap()
}

fn at(caller: &Caller, address: u8) -> Caller {
    caller.with("x-forwarded-for", &format!("203.0.113.{address}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_answers_that_a_busy_database_refuses_are_no_failures() {
    let server = start().await;
    server.owner().await;
    let member = enrol(user(&server, "member", &["1"]).await, USER_PASSWORD).await;
    let admin = user(&server, "admin", &[]).await;
    let device = passkeys::added(&admin, USER_PASSWORD, PUBLIC, "key").await;
    let login = server.login("member@example.org", USER_PASSWORD).await;
    let pending = at(&with_cookie(&server, &login), 2);
    let password = async || {
        let body = json!({"email": OWNER, "password": PASSWORD});
        at(&server.any, 1).post("/api/v1/session", &body).await.status
    };
    let code = async || verify(&pending, &member.code()).await.status;
    let device = tokio::sync::Mutex::new(device);
    let passkey = async || {
        let visitor = at(&server.any, 3);
        let (offer, credential) = passkeys::answered(&visitor, &mut *device.lock().await).await;
        passkeys::answer(&offer, &credential).await.status
    };
    let other = other_writer(&server).await;
    let (passwords, codes, passkeys) = tokio::join!(
        join_all((0..6).map(|_| password())),
        join_all((0..6).map(|_| code())),
        join_all((0..6).map(|_| passkey())),
    );
    other.commit().await.unwrap();
    assert_eq!([passwords, codes, passkeys], [[503; 6], [503; 6], [503; 6]]);
    assert_eq!([password().await, code().await, passkey().await], [200; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_whose_rows_a_busy_database_refuses_are_told_by_the_next() {
    let server = start().await;
    let owner = server.owner().await;
    let attempt = async |address| {
        let body = json!({"email": "nobody@example.org", "password": "wrong-password-1"});
        at(&server.any, address).post("/api/v1/session", &body).await.status
    };
    let other = other_writer(&server).await;
    let refused = join_all((1..4).map(attempt)).await;
    other.commit().await.unwrap();
    assert_eq!(refused, [503; 3]);
    assert_eq!(attempt(4).await, 401);
    let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
    let [row] = &failed.as_array().unwrap()[..] else { panic!("one row: {failed}") };
    assert_eq!(row["metadata"], json!({"email": "nobody@example.org", "others": 3}));
}

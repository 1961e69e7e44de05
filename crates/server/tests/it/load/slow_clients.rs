//! Thousands of clients that take their time, and one that does not.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::{Backend, Server, until};

/// How many; `SLUICE_SLOW_CLIENTS` sets another number, to see what happens.
const CLIENTS: usize = 2_000;
/// Between two bytes of a slow client.
const PAUSE: Duration = Duration::from_secs(1);
/// The request of each kind of slow client, sent byte by byte.
const SAID: [&str; 4] = [
    // Nothing.
    "",
    // A head that never ends.
    "GET /up HTTP/1.1\r\nhost: sluice\r\nx-slow: slow, slow, slow, slow, slow, slow, slow, slow, slow",
    // The possible beginning of HTTP/2.
    "PRI * HTTP/2.0\r\n",
    // HTTP/2 without a request, all at once.
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0",
];

/// Says its piece, slowly, and gives how long it was until it was cut off.
async fn slow(mut stream: TcpStream, said: &'static str, at_once: bool) -> Duration {
    let began = Instant::now();
    let (mut read, mut write) = stream.split();
    let say = async {
        for piece in said.as_bytes().chunks(if at_once { said.len() } else { 1 }) {
            if write.write_all(piece).await.is_err() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        std::future::pending::<()>().await;
    };
    let mut answer = [0; 1024];
    let hear = async { while read.read(&mut answer).await.is_ok_and(|size| size > 0) {} };
    tokio::select! {
        () = say => {}
        () = hear => {}
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_are_cut_off_and_hold_up_nobody() {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let wanted = std::env::var("SLUICE_SLOW_CLIENTS").map(|text| text.parse::<usize>().unwrap());
    let clients = wanted.unwrap_or(CLIENTS).min(files as usize / 2);
    let server = Server::start(&Backend::Sqlite).await;
    server.lift_limits().await;
    let key = server.key();
    let trace = key.trace().await;
    key.execute(&trace, "Warm up.").await.ok(200);
    let before = server.memory();
    let mut crowd = JoinSet::new();
    for n in 0..clients {
        let kind = n % SAID.len();
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        crowd.spawn(slow(stream, SAID[kind], kind == 3));
    }
    let (mut most, mut slowest, mut served, mut cut) = (0, Duration::ZERO, 0, Vec::new());
    until("all slow clients are cut off", async || {
        let began = Instant::now();
        key.execute(&trace, "Served all the same.").await.ok(200);
        slowest = slowest.max(began.elapsed());
        served += 1;
        most = most.max(server.memory());
        while let Some(done) = crowd.try_join_next() {
            cut.push(done.unwrap());
        }
        crowd.is_empty().then_some(())
    })
    .await;
    let each = most.saturating_sub(before) * 1024 / clients as u64;
    println!(
        "{clients} slow clients, cut off after {:?} to {:?}; {served} requests served, the slowest in {slowest:?}; \
         {before} kB before, {most} kB at most, {each} bytes for each",
        cut.iter().min().unwrap(),
        cut.iter().max().unwrap(),
    );
    assert!(each < 64 * 1024, "{each} bytes for each slow client");
    assert!(served > 10, "{served}");
}

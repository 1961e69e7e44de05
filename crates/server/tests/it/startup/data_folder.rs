//! The first start on a new data folder, and the state that a crash leaves one in.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::harness::{Backend, Caller, KEY, Server, Setup, until};
use crate::startup::process::{complaint, printed};

/// Gateways that are started at once.
const STARTERS: usize = 4;
/// How often, unless `SLUICE_TEST_STARTS` has another number.
const TRIES: usize = 3;

/// A server on SQLite that is not started yet.
fn fresh() -> Server {
    Setup::new(&Backend::Sqlite).prepare()
}

/// Every file of a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.map(|path| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
    });
    named.collect()
}

/// Ports that are free at the same time.
fn ports(count: usize) -> Vec<u16> {
    let held: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Leaves something sealed, and gives the trace that holds it.
async fn seal(server: &Server) -> String {
    let trace = server.key().trace().await;
    server.key().execute(&trace, "Say hello to the team.").await.ok(200);
    trace
}

async fn assert_readable(server: &Server, trace: &str) {
    let detail = server.key().detail(trace).await;
    let output = detail["steps"][0]["output"].as_str().unwrap_or_default();
    assert!(!output.is_empty(), "{detail}");
    server.owner().await.get("/api/v1/projects").await.ok(200);
}

/// One try. Exactly one starter serves, and the folder serves what it has sealed.
async fn race(server: &mut Server) {
    let mut starters: Vec<(u16, Child)> = Vec::new();
    for port in ports(STARTERS) {
        let mut command = server.command(&["serve"]);
        command.env("SLUICE_LISTEN", format!("127.0.0.1:{port}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        starters.push((port, command.spawn().unwrap()));
    }
    let mut refused = 0;
    until("all starters but one have ended", async || {
        starters.retain_mut(|(_, child)| match child.try_wait().unwrap() {
            None => true,
            Some(status) => {
                let mut said = String::new();
                let stderr = child.stderr.as_mut().unwrap();
                std::io::Read::read_to_string(stderr, &mut said).unwrap();
                assert!(!status.success() && said.contains("another Sluice serves"), "{said}");
                refused += 1;
                false
            }
        });
        (refused >= STARTERS - 1).then_some(())
    })
    .await;
    let [(port, winner)] = starters.as_mut_slice() else { panic!("{refused} were refused") };
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let any = Caller::new(client, format!("http://127.0.0.1:{port}"));
    until("the winner serves", async || {
        let status = winner.try_wait().unwrap();
        assert!(status.is_none(), "the winner has ended: {status:?}");
        Caller::try_send(any.request("GET", "/up")).await.ok()
    })
    .await;
    let key = any.with("authorization", &format!("Bearer {KEY}"));
    let trace = key.trace().await;
    key.execute(&trace, "Say hello to the team.").await.ok(200);
    let pid = winner.id().to_string();
    let signal = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(signal.success() && winner.wait().unwrap().success());
    server.up().await;
    assert_readable(server, &trace).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_four_first_starts_at_once_one_serves() {
    let tries = std::env::var("SLUICE_TEST_STARTS").ok().and_then(|tries| tries.parse().ok());
    for _ in 0..tries.unwrap_or(TRIES) {
        let mut server = fresh();
        race(&mut server).await;
        let left = files(&server.data());
        let left: Vec<_> = left.keys().map(String::as_str).collect();
        assert_eq!(left, ["master.key", "sluice.db", "sluice.lock"], "nothing else is left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_beside_a_first_start_do_no_harm() {
    let mut server = fresh();
    let commands: [&[&str]; 5] = [
        &["migrate"],
        &["user", "create", "a@example.org"],
        &["doctor"],
        &["key", "create"],
        &["rotate-master-key"],
    ];
    let spawned: Vec<Child> = commands
        .iter()
        .map(|args| {
            let mut command = server.command(args);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for (child, args) in spawned.into_iter().zip(commands) {
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let said = String::from_utf8(ended.await.unwrap().stderr).unwrap();
        let is_well = !said.contains("panicked") && !said.contains("master key does not fit");
        assert!(is_well, "{args:?}: {said}");
    }
    server.up().await;
    let trace = seal(&server).await;
    server.restart().await;
    assert_readable(&server, &trace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_database_is_made_leaves_a_folder_that_starts() {
    let mut server = fresh();
    let key = "a2".repeat(32);
    std::fs::write(server.data().join("master.key"), &key).unwrap();
    std::fs::write(server.data().join("master.key.tmp"), "half a k").unwrap();
    std::fs::write(server.data().join("sluice.db"), "").unwrap();
    server.up().await;
    let trace = seal(&server).await;
    server.restart().await;
    assert_readable(&server, &trace).await;
    assert_eq!(std::fs::read_to_string(server.data().join("master.key")).unwrap(), key);
    // Nothing is sealed in an empty file, nor under an empty key.
    let mut server = fresh();
    std::fs::write(server.data().join("sluice.db"), "").unwrap();
    std::fs::write(server.data().join("master.key"), "").unwrap();
    server.up().await;
    let trace = seal(&server).await;
    server.restart().await;
    assert_readable(&server, &trace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_may_be_interrupted_anywhere() {
    let mut server = fresh();
    server.up().await;
    let trace = seal(&server).await;
    server.stop().await;
    let (key, next) = (server.data().join("master.key"), server.data().join("master.next"));
    let old = std::fs::read(&key).unwrap();

    // Before the database had the new key.
    std::fs::write(&next, "b3".repeat(32)).unwrap();
    let looked = server.cli(&["doctor"], &[]).await;
    assert!(looked.status.success() && next.exists(), "it looks, and changes nothing: {looked:?}");
    server.up().await;
    assert_readable(&server, &trace).await;
    server.stop().await;
    assert!(!next.exists() && std::fs::read(&key).unwrap() == old);

    // After it; the next start, and the next command, find the key that fits.
    for command in [&["serve"][..], &["migrate"], &["rotate-master-key"]] {
        let before = std::fs::read(&key).unwrap();
        printed(&server.cli(&["rotate-master-key"], &[]).await);
        let new = std::fs::read(&key).unwrap();
        assert!(new != before && !next.exists());
        std::fs::rename(&key, &next).unwrap();
        std::fs::write(&key, &before).unwrap();
        let looked = server.cli(&["doctor"], &[]).await;
        assert!(looked.status.success() && next.exists(), "{looked:?}");
        if command != ["serve"] {
            let output = server.cli(command, &[]).await;
            printed(&output);
            let warned = String::from_utf8(output.stderr).unwrap();
            assert!(warned.contains("rotation of the master key was interrupted"), "{warned}");
            assert!(!next.exists());
        }
        server.up().await;
        assert_readable(&server, &trace).await;
        server.stop().await;
        assert!(!next.exists() && std::fs::read(&key).unwrap() != before);
    }

    // The current key is gone: the other one still opens the database.
    std::fs::rename(&key, &next).unwrap();
    server.up().await;
    assert_readable(&server, &trace).await;
    server.stop().await;

    // No database shows which key fits: both stay, and no other is made.
    let (database, away) = (server.data().join("sluice.db"), server.data().join("away"));
    std::fs::rename(&database, &away).unwrap();
    let kept = std::fs::read(&key).unwrap();
    std::fs::write(&next, "b3".repeat(32)).unwrap();
    let said = complaint(&server.cli(&["serve"], &[]).await);
    assert!(said.contains("put the database back"), "{said}");
    assert!(next.exists() && std::fs::read(&key).unwrap() == kept && !database.exists());
    std::fs::rename(&key, &next).unwrap();
    let said = complaint(&server.cli(&["serve"], &[]).await);
    assert!(said.contains("put the database back"), "{said}");
    assert!(!key.exists() && std::fs::read(&next).unwrap() == kept);
    std::fs::rename(&away, &database).unwrap();
    server.up().await;
    assert_readable(&server, &trace).await;
    server.stop().await;
    assert!(!next.exists());

    // Neither fits: nothing is guessed, and nothing is thrown away.
    std::fs::rename(&key, server.data().join("kept")).unwrap();
    for path in [&key, &next] {
        std::fs::write(path, "c4".repeat(32)).unwrap();
    }
    let said = complaint(&server.cli(&["serve"], &[]).await);
    assert!(said.contains("master key does not fit"), "{said}");
    assert!(key.exists() && next.exists());
}

/// Copies the database of a gateway as a hurried operator does, to a folder of its own.
fn copy(from: &Server, to: &Server, with_log: bool) {
    let mut names = vec!["sluice.db", "master.key"];
    if with_log {
        names.push("sluice.db-wal");
    }
    for name in names {
        std::fs::copy(from.data().join(name), to.data().join(name)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_misses_the_log_of_a_database_that_was_not_closed() {
    let mut server = fresh();
    server.up().await;
    // A gateway that runs may write to its log meanwhile.
    let doctor = async |server: &Server, runs: bool| {
        let before = files(&server.data());
        let output = server.cli(&["doctor"], &[]).await;
        let after = files(&server.data());
        // The index of the log is no data: whoever reads the log makes it anew.
        let names = |files: &BTreeMap<String, Vec<u8>>| -> Vec<String> {
            files.keys().filter(|name| !name.ends_with("-shm")).cloned().collect()
        };
        assert_eq!(names(&before), names(&after), "the doctor leaves no file");
        let kept = ["sluice.db", "master.key", "sluice.db-wal"];
        for name in &kept[..if runs { 2 } else { 3 }] {
            assert_eq!(before.get(*name), after.get(*name), "the doctor changes no {name}");
        }
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let well = |(success, said): (bool, String)| {
        assert!(success && said.contains("quick_check"), "{said}");
        assert!(said.contains("Everything is well"), "{said}");
    };
    let trace = seal(&server).await;
    // Beside a running gateway, after its crash, and after a copy that is whole.
    well(doctor(&server, true).await);
    let (running, running_whole) = (fresh(), fresh());
    copy(&server, &running, false);
    copy(&server, &running_whole, true);
    server.kill().await;
    well(doctor(&server, false).await);
    well(doctor(&server, false).await);
    well(doctor(&running_whole, false).await);
    let mut killed = fresh();
    copy(&server, &killed, false);
    for copied in [&running, &killed] {
        let (success, said) = doctor(copied, false).await;
        assert!(!success && said.contains("TODO The database was not closed cleanly"), "{said}");
        assert!(said.contains("sluice.db-wal"), "{said}");
    }
    // A start logs it as well, and goes on.
    killed.up().await;
    killed.stop().await;
    assert!(killed.log().contains("write-ahead log was missing"), "{}", killed.log());
    well(doctor(&killed, false).await);

    // The killed gateway itself loses nothing, whatever is run first.
    server.up().await;
    server.kill().await;
    printed(&server.cli(&["key", "create"], &[]).await);
    well(doctor(&server, false).await);
    server.up().await;
    assert_readable(&server, &trace).await;
    assert!(!server.log().contains("write-ahead log was missing"), "{}", server.log());
    server.stop().await;
    let stopped = fresh();
    copy(&server, &stopped, false);
    well(doctor(&stopped, false).await);
    // A start that is refused takes the log in, and loses nothing either.
    server.up().await;
    server.kill().await;
    complaint(&server.cli(&["serve"], &[("SLUICE_MASTER_KEY", &"d5".repeat(32))]).await);
    well(doctor(&server, false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_damaged_pages() {
    let mut server = fresh();
    server.up().await;
    seal(&server).await;
    server.stop().await;
    let path = server.data().join("sluice.db");
    let whole = std::fs::read(&path).unwrap();
    // From the second page on: the schema is on the first.
    let mut bytes = whole.clone();
    for page in bytes.chunks_mut(8192).skip(2) {
        page[..64].fill(0xa5);
    }
    std::fs::write(&path, &bytes).unwrap();
    let looked = server.cli(&["doctor"], &[]).await;
    let said = String::from_utf8(looked.stdout).unwrap();
    assert!(!looked.status.success() && said.contains("is damaged"), "{said}");
    // No database at all.
    std::fs::write(&path, vec![b'x'; whole.len()]).unwrap();
    let looked = server.cli(&["doctor"], &[]).await;
    let said = String::from_utf8(looked.stdout).unwrap();
    assert!(!looked.status.success() && said.contains("is damaged"), "{said}");
    std::fs::write(&path, &whole).unwrap();
    printed(&server.cli(&["doctor"], &[]).await);
}

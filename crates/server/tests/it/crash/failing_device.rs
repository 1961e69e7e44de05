//! A disk that is full, or fails: nothing is acknowledged meanwhile, nothing is lost, and no restart
//! is needed afterwards.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, Server, Setup, until};

/// Kind of call, error, file.
const FAULTS: [(&str, &str); 4] = [
    ("a full disk", "write 28 sluice.db-wal"),
    ("a write that fails", "write 5 sluice.db-wal"),
    ("a sync that fails", "sync 5 sluice.db-wal"),
    ("a sync that finds the disk full", "sync 28 sluice.db-wal"),
];
const CLIENTS: usize = 8;

/// The library that makes the device fail. None without a C compiler.
fn shim(folder: &Path) -> Option<PathBuf> {
    let (source, library) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/crash/fault.c"), folder.join("fault.so"));
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .output();
    let Ok(cc) = cc else {
        eprintln!("skipped: there is no C compiler");
        return None;
    };
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    Some(library)
}

/// A load that goes on whatever happens.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    /// Step ids that were acknowledged.
    told: Mutex<HashSet<i64>>,
    /// How often each client was refused.
    refused: [AtomicUsize; CLIENTS],
}

impl Load {
    async fn client(self: Arc<Self>, number: usize, key: Caller, trace: String) {
        while !self.stop.load(Ordering::SeqCst) {
            let reply = key.execute(&trace, "Say hello to the team.").await;
            if reply.status == 200 {
                let step = reply.json()["step_id"].as_i64().unwrap();
                assert!(self.told.lock().unwrap().insert(step), "step {step} was told twice");
            } else {
                unavailable(&reply);
                self.refused[number].fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn told(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// Waits until every client was refused once more.
    async fn is_refused(&self) {
        let refused = || self.refused.each_ref().map(|count| count.load(Ordering::SeqCst));
        let before = refused();
        let all = || before.iter().zip(refused()).all(|(before, now)| now > *before);
        until("every client is refused", async || all().then_some(())).await;
    }
}

#[track_caller]
fn unavailable(reply: &crate::harness::Reply) {
    reply.says(503, "The gateway cannot read or store this right now");
    assert_eq!(reply.header("retry-after"), "1");
}

/// A write of the data plane and one of the control plane.
async fn writes_are_refused(key: &Caller, owner: &Caller) {
    unavailable(&key.post("/api/v1/traces", &json!({})).await);
    let name = json!({"project": {"name": "Unwritten"}});
    unavailable(&owner.patch("/api/v1/projects/1", &name).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_fails_loses_nothing_that_was_acknowledged() {
    let setup = Setup::new(&Backend::Sqlite);
    let Some(library) = shim(&setup.folder()) else { return };
    let control = setup.folder().join("fault");
    let setup = setup.env("LD_PRELOAD", library.to_str().unwrap());
    let mut server = setup.env("FAULT_FILE", control.to_str().unwrap()).start().await;
    server.lift_limits().await;
    let (key, owner) = (server.key(), server.owner().await);
    let trace = key.trace().await;
    let load = Arc::new(Load::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| tokio::spawn(load.clone().client(n, key.clone(), trace.clone())))
        .collect();
    for (what, fault) in FAULTS {
        let enough = load.told() + 3 * CLIENTS;
        until("the load is served", async || (load.told() >= enough).then_some(())).await;
        arm(&control, fault);
        unavailable(&key.execute(&trace, "Hello.").await);
        writes_are_refused(&key, &owner).await;
        assert_eq!(server.any.get("/ready").await.status, 503, "{what}");
        server.any.get("/up").await.ok(200);
        key.detail(&trace).await;
        load.is_refused().await;
        let told = load.told();
        load.is_refused().await;
        assert_eq!(load.told(), told, "{what}: something was acknowledged");
        std::fs::remove_file(&control).unwrap();
        until("it is served again", async || {
            (key.execute(&trace, "Hello again.").await.status == 200).then_some(())
        })
        .await;
        key.trace().await;
        server.any.get("/ready").await.ok(200);
    }
    load.stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    server.kill().await;
    server.up().await;
    judge(&server, &trace, &load).await;
    // Committed data is in the log of the database; moving it from there can wait.
    arm(&control, "write 5 sluice.db");
    server.stop().await;
    std::fs::remove_file(&control).unwrap();
    server.up().await;
    judge(&server, &trace, &load).await;
}

/// Makes the device fail from now on.
fn arm(control: &Path, fault: &str) {
    let fresh = control.with_extension("new");
    std::fs::write(&fresh, fault).unwrap();
    std::fs::rename(&fresh, control).unwrap();
}

/// Everything that was acknowledged is there, once, and money and steps agree.
async fn judge(server: &Server, trace: &str, load: &Load) {
    let detail = server.key().detail(trace).await;
    let steps = detail["steps"].as_array().unwrap();
    let known: HashSet<i64> = steps.iter().map(|step| step["id"].as_i64().unwrap()).collect();
    assert_eq!(known.len(), steps.len(), "a step is there twice");
    let told = load.told.lock().unwrap().clone();
    let lost: Vec<_> = told.difference(&known).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let accounted = |step: &Value| {
        let given_up = step["error"] == "The call was given up before it was made";
        step["status"] == "completed"
            || step["cost_estimated"] == true
            || given_up && step["cost"] == 0.0
    };
    assert!(steps.iter().all(accounted), "{detail}");
    let cost: f64 = steps.iter().map(|step| step["cost"].as_f64().unwrap()).sum();
    let project = server.owner().await.get("/api/v1/projects/1").await.ok(200);
    assert_eq!(project["name"], "Default");
    let spend = project["total_monthly_spend"].as_f64().unwrap();
    assert!((spend - cost).abs() < 1e-6, "spend {spend}, steps {cost}");
}

/// A device on which nothing has room, for what is logged and printed.
fn without_room(setup: Setup) -> Setup {
    for output in ["stderr", "stdout"] {
        std::os::unix::fs::symlink("/dev/full", setup.folder().join(output)).unwrap();
    }
    setup.env("SLUICE_LOG", "info")
}

#[tokio::test]
async fn a_log_without_room_ends_no_request() {
    let mut server = without_room(Setup::new(&Backend::Sqlite)).start().await;
    server.lift_limits().await;
    let (key, owner) = (server.key(), server.owner().await);
    let trace = key.trace().await;
    for _ in 0..5 {
        key.execute(&trace, "Hello.").await.ok(200);
        owner.get("/api/v1/projects/1").await.ok(200);
        assert_eq!(server.any.get("/api/v1/projects/1").await.status, 401);
    }
    server.restart().await;
    key.execute(&trace, "Hello.").await.ok(200);
    server.stop().await;
}

/// Sets the largest file that the server may write, in bytes.
fn limit_files(server: &Server, most: &str) {
    let set = Command::new("prlimit")
        .args(["--pid", &server.pid().to_string(), &format!("--fsize={most}:unlimited")])
        .status();
    assert!(set.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_while_no_file_can_grow() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        eprintln!("skipped: there is no prlimit");
        return;
    }
    let mut server = without_room(Setup::new(&Backend::Sqlite)).start().await;
    server.lift_limits().await;
    let (key, owner) = (server.key(), server.owner().await);
    let trace = key.trace().await;
    let load = Arc::new(Load::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| tokio::spawn(load.clone().client(n, key.clone(), trace.clone())))
        .collect();
    for _ in 0..2 {
        let enough = load.told() + 3 * CLIENTS;
        until("the load is served", async || (load.told() >= enough).then_some(())).await;
        limit_files(&server, "1");
        load.is_refused().await;
        writes_are_refused(&key, &owner).await;
        server.any.get("/up").await.ok(200);
        limit_files(&server, "unlimited");
        until("it is served again", async || {
            (key.execute(&trace, "Hello again.").await.status == 200).then_some(())
        })
        .await;
    }
    load.stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    // It stops in its time, although it cannot write.
    limit_files(&server, "1");
    unavailable(&key.execute(&trace, "Hello.").await);
    server.stop().await;
    server.up().await;
    judge(&server, &trace, &load).await;
}

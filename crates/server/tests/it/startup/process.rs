//! The process: how it starts, refuses to start, is managed beside, and stops.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, OWNER, PASSWORD, Server, Setup, run, until};

crate::on_every_backend!(
    a_second_gateway_on_the_same_data,
    a_port_in_use,
    a_wrong_master_key,
    a_data_folder_that_cannot_be_written,
    what_the_commands_say,
    a_key_from_the_command_line,
    a_password_is_reset,
    what_the_command_line_writes_is_audited,
    the_master_key_is_rotated,
    a_stop_finishes_what_is_in_flight,
    prompts_in_query_strings_are_not_logged,
    first_credentials_are_printed_once,
);

/// The output of a command that failed as it should.
#[track_caller]
pub fn complaint(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it went well: {output:?}");
    assert!(said.lines().count() <= 3 && !said.contains("panicked"), "{said}");
    said
}

/// The output of a command that succeeded.
#[track_caller]
pub fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

async fn a_second_gateway_on_the_same_data(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let second = server.cli(&["serve"], &[("SLUICE_LISTEN", "127.0.0.1:0")]).await;
    let said = complaint(&second);
    assert!(said.contains("another Sluice serves this"), "{said}");
    server.key().trace().await;
    // The lock goes with its holder, however that ends.
    server.kill().await;
    server.up().await;
    server.key().trace().await;
}

async fn a_port_in_use(backend: Backend) {
    let server = Server::start(&backend).await;
    let other = Setup::new(&backend).prepare();
    let mut command = other.command(&["serve"]);
    command.env("SLUICE_LISTEN", format!("127.0.0.1:{}", server.port));
    let said = complaint(&run(command).await);
    assert!(said.contains(&server.port.to_string()) && said.contains("SLUICE_LISTEN"), "{said}");
}

async fn a_wrong_master_key(backend: Backend) {
    let mut server = Server::start(&backend).await;
    server.stop().await;
    let wrong = [("SLUICE_MASTER_KEY", "f".repeat(64))];
    let wrong: Vec<_> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for command in ["serve", "doctor"] {
        let refused = server.cli(&[command], &wrong).await;
        let all = [refused.stdout.clone(), refused.stderr.clone()].concat();
        let said = String::from_utf8_lossy(&all).into_owned();
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("master key"), "{said}");
        assert!(!said.contains("ffff"), "{said}");
    }
    let short = server.cli(&["serve"], &[("SLUICE_MASTER_KEY", "short")]).await;
    assert!(complaint(&short).contains("32 bytes"));
    if server.on_sqlite() {
        let file = server.data().join("master.key");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let kept = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let said = complaint(&server.cli(&["serve"], &[]).await);
        assert!(said.contains("master.key"), "{said}");
        assert!(!file.exists(), "a new key would not open the old data");
        std::fs::write(&file, kept).unwrap();
    }
    server.up().await;
    server.key().trace().await;
}

async fn a_data_folder_that_cannot_be_written(backend: Backend) {
    if matches!(backend, Backend::Postgres(_)) {
        return;
    }
    let server = Setup::new(&backend).prepare();
    // A file where the folder should be: not even root can write into that.
    let file = server.data().join("file");
    std::fs::write(&file, "").unwrap();
    let folder = file.join("data").display().to_string();
    let said = complaint(&server.cli(&["serve"], &[("SLUICE_DATA_DIR", &folder)]).await);
    assert!(said.contains(&folder) && said.contains("SLUICE_DATA_DIR"), "{said}");
    let locked = server.data().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(locked.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write anywhere");
        return;
    }
    let folder = locked.display().to_string();
    let said = complaint(&server.cli(&["serve"], &[("SLUICE_DATA_DIR", &folder)]).await);
    assert!(said.contains(&folder), "{said}");
}

async fn what_the_commands_say(backend: Backend) {
    let server = Server::start(&backend).await;
    let version = printed(&server.cli(&["--version"], &[]).await);
    assert_eq!(version.trim(), format!("sluice {}", env!("CARGO_PKG_VERSION")));
    let openapi = printed(&server.cli(&["openapi"], &[]).await);
    let openapi: Value = serde_json::from_str(&openapi).unwrap();
    assert!(openapi["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/api/v1/traces/{id}/complete", "/api/v1/executions", "/api/v1/audit-events"] {
        assert!(openapi["paths"][path].is_object(), "{path}");
    }
    assert_eq!(server.any.get("/api/v1/openapi.json").await.ok(200), openapi);
    let elsewhere = server.data().join("elsewhere");
    let other = [("SLUICE_DATA_DIR", elsewhere.to_str().unwrap())];
    let doctor = server.cli(&["doctor"], &other).await;
    if server.on_sqlite() {
        let said = String::from_utf8_lossy(&doctor.stdout);
        assert!(said.contains("There is no database at") && !doctor.status.success(), "{said}");
    }
    assert!(!elsewhere.exists(), "it looks, and makes nothing");
    let doctor = printed(&server.cli(&["doctor"], &[]).await);
    assert!(doctor.contains("sandbox") && doctor.contains("Everything is well"), "{doctor}");
    let mock = Mock::always(Answer::text("")).await;
    let nobody = json!({"is_public": false, "base_url": "http://127.0.0.1:1/v1"});
    mock.register_with(&server.owner().await, "dead-model", nobody).await;
    let doctor = server.cli(&["doctor"], &[]).await;
    assert!(!doctor.status.success());
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        said.lines().any(|line| line.contains("TODO") && line.contains("dead-model")),
        "{said}"
    );
    for args in [
        &["user", "create", "nonsense"][..],
        &["user", "create", "a@example.org", "--role", "king"],
        &["user", "create", OWNER],
        &["user", "reset-password", "nobody@example.org"],
        &["key", "create", "--project", "999"],
        &["key", "create", "--hourly-limit=-1"],
    ] {
        let refused = server.cli(args, &[("SLUICE_USER_PASSWORD", "long-enough-1")]).await;
        assert!(complaint(&refused).starts_with("sluice: "), "{args:?}: {refused:?}");
    }
    for what in [&["user", "create", "b@example.org"][..], &["key", "create"]] {
        let args = [what, &["--project", "999"]].concat();
        let refused = server.cli(&args, &[]).await;
        assert_eq!(complaint(&refused), "sluice: there is no project 999\n", "{args:?}");
    }
    let weak = server.cli(&["user", "create", "a@b.org"], &[("SLUICE_USER_PASSWORD", "x")]).await;
    assert!(complaint(&weak).contains("8 to 1024"), "{weak:?}");
    assert_eq!(server.any.get("/up").await.ok(200)["status"], "ok");
    server.any.get("/ready").await.ok(200);
    assert_eq!(server.any.get("/docs/").await.status, 200);
    let page = server.any.get("/docs/swagger-initializer.js").await;
    assert!(page.text.contains(r#""validatorUrl": "none""#), "{}", page.text);
}

async fn a_key_from_the_command_line(backend: Backend) {
    let server = Server::start(&backend).await;
    let args = ["key", "create", "--name", "From a script", "--hourly-limit", "2.5"];
    let raw = printed(&server.cli(&args, &[]).await);
    let began = Instant::now();
    let key = server.with_key(raw.trim());
    until("the key is known", async || {
        (key.get("/api/v1/traces").await.status == 200).then_some(())
    })
    .await;
    // Within a second or two; a busy machine may stall for some more.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let keys = server.owner().await.get("/api/v1/keys").await.ok(200);
    let made = keys.as_array().unwrap().iter().find(|key| key["name"] == "From a script").unwrap();
    assert_eq!(made["hourly_limit"], 2.5);
}

async fn a_password_is_reset(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let output = printed(&server.cli(&["user", "reset-password", OWNER], &[]).await);
    let password = output.lines().find_map(|line| line.strip_prefix("Password: ")).unwrap();
    server.login(OWNER, PASSWORD).await.is(401, &json!({"error": "Unauthorized"}));
    server.session(OWNER, password).await.get("/api/v1/projects").await.ok(200);
    assert_eq!(owner.get("/api/v1/projects").await.status, 401, "old sessions have ended");
}

async fn what_the_command_line_writes_is_audited(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let word = [("SLUICE_USER_PASSWORD", "long-enough-1")];
    let args = ["user", "create", "Mo@example.org", "--role", "member", "--project", "1"];
    printed(&server.cli(&args, &word).await);
    printed(&server.cli(&["user", "reset-password", "mo@example.org"], &word).await);
    let raw = printed(&server.cli(&["key", "create", "--name", "Script"], &[]).await);
    server.stop().await;
    let new = "a1".repeat(32);
    let env = [("SLUICE_NEW_MASTER_KEY", new.as_str())];
    printed(&server.cli(&["rotate-master-key"], if server.on_sqlite() { &[] } else { &env }).await);
    if !server.on_sqlite() {
        server = server.with_env("SLUICE_MASTER_KEY", &new);
    }
    server.up().await;
    let reply = server.owner().await.get("/api/v1/audit-events").await;
    for secret in ["long-enough-1", raw.trim(), &new] {
        assert!(!reply.text.contains(secret), "{}", reply.text);
    }
    let events = reply.ok(200);
    let [rotated, key, reset, user] = &events.as_array().unwrap()[1..] else { panic!("{events}") };
    for (event, kind, target) in [
        (user, "user_created", "user"),
        (reset, "password_reset", "user"),
        (key, "key_created", "key"),
        (rotated, "master_key_rotated", "organization"),
    ] {
        assert_eq!((&event["event"], &event["target_type"]), (&json!(kind), &json!(target)));
        assert_eq!(event["actor"], "cli", "{event}");
    }
    let made = &user["metadata"]["changes"];
    assert_eq!(made["email"]["new"], "mo@example.org");
    assert_eq!(made["role"]["new"], "member");
    assert_eq!(key["target_id"], raw.split('.').next().unwrap());
}

async fn with_content(server: &Server) -> (String, Value) {
    let key = server.key();
    let trace = key.trace().await;
    key.execute(&trace, "Keep this sentence.").await.ok(200);
    let detail = key.detail(&trace).await;
    (trace, detail)
}

async fn the_master_key_is_rotated(backend: Backend) {
    let setup = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let mut server = setup.start().await;
    let (trace, detail) = with_content(&server).await;
    let mock = Mock::always(Answer::text("Still here.")).await;
    let secret = json!({"api_key": "sk-kept", "is_public": false});
    mock.register_with(&server.owner().await, "keyed", secret).await;
    let new = "a1".repeat(32);
    let given = [("SLUICE_NEW_MASTER_KEY", new.as_str())];
    let env: &[(&str, &str)] = if server.on_sqlite() { &[] } else { &given };
    let running = server.cli(&["rotate-master-key"], env).await;
    assert!(complaint(&running).contains("another Sluice"), "{running:?}");
    let old = std::fs::read(server.data().join("master.key")).unwrap_or_default();
    server.stop().await;
    let rotated = printed(&server.cli(&["rotate-master-key"], env).await);
    assert!(rotated.contains("sealed"), "{rotated}");
    if server.on_sqlite() {
        let file = server.data().join("master.key");
        assert_ne!(std::fs::read(&file).unwrap(), old);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    } else {
        let said = complaint(&server.cli(&["serve"], &[]).await);
        assert!(said.contains("master key"), "the old key is no good any more: {said}");
        server = server.with_env("SLUICE_MASTER_KEY", &new);
    }
    server.up().await;
    let key = server.key();
    assert_eq!(key.detail(&trace).await, detail, "old content can be read");
    let ask = json!({"trace_id": trace, "model": "keyed", "input": "Hello."});
    key.post("/api/v1/runs", &ask).await.ok(200);
    assert_eq!(mock.requests()[0].headers["authorization"], "Bearer sk-kept");
}

async fn slow(server: &Server) -> Mock {
    let mock =
        Mock::start(Duration::from_millis(1_500), Some((10, 5)), |_| Answer::text("At last."))
            .await;
    mock.register(&server.owner().await, "slow").await;
    mock
}

async fn a_stop_finishes_what_is_in_flight(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let mock = slow(&server).await;
    let key = server.key();
    let trace = key.trace().await;
    // An idle connection delays nothing.
    let idle = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let body = json!({"trace_id": trace, "model": "slow", "input": "Hello."});
    let call = {
        let key: Caller = key.clone();
        tokio::spawn(async move { key.post("/api/v1/runs", &body).await })
    };
    until("the call is in flight", async || (mock.begun() == 1).then_some(())).await;
    server.terminate();
    let status = server.ended().await;
    assert_eq!(status.code(), Some(0), "{}", server.log());
    let done = call.await.unwrap().ok(200);
    assert_eq!(done["output"], "At last.");
    server.up().await;
    let detail = key.detail(&trace).await;
    assert_eq!(detail["steps"][0]["id"], done["step_id"]);
    assert_eq!(detail["steps"][0]["status"], "completed");
    drop(idle);
    let began = Instant::now();
    server.restart().await;
    assert!(began.elapsed() < Duration::from_secs(15), "an idle gateway stops at once");
}

async fn prompts_in_query_strings_are_not_logged(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_LOG", "debug").start().await;
    let key = server.key();
    let trace = key.trace().await;
    let path = format!("/api/v1/executions/stream?trace_id={trace}&input=canary%20in%20a%20query");
    key.get(&path).await.chunks();
    key.get("/api/v1/executions/stream?input=canary").await;
    key.get("/api/v1/nope?input=canary").await;
    server.any.get(&path).await;
    key.execute(&trace, "a canary in a body").await.ok(200);
    let log = server.log();
    assert!(log.contains("/api/v1/executions/stream"), "requests are logged: {log}");
    assert!(!log.contains("canary"), "{log}");
    assert!(!log.contains(crate::harness::KEY.split('.').nth(1).unwrap()));
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("logs are JSON where nobody watches");
        assert!(line["level"].is_string());
    }
}

async fn first_credentials_are_printed_once(backend: Backend) {
    let mut server = Setup::new(&backend).without("SLUICE_BOOTSTRAP_KEY").prepare();
    server.up().await;
    let first = server.printed();
    let raw = first.split_whitespace().find(|word| word.starts_with("ak_")).unwrap().to_owned();
    let key = server.with_key(&raw);
    let trace = key.trace().await;
    key.execute(&trace, "Hello.").await.ok(200);
    assert!(!server.log().contains(&raw));
    server.restart().await;
    assert_eq!(server.printed().matches(&raw).count(), first.matches(&raw).count());
    key.detail(&trace).await;
}

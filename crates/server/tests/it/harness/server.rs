//! The binary under test: started, asked, stopped, killed.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Caller, Reply};
use super::store::{Backend, Store, sql};

/// The first key of every server under test.
pub const KEY: &str = "ak_00000000000000aa.0123456789abcdefghijABCDEFGHIJ0123456789_-x";
/// The first owner.
pub const OWNER: &str = "owner@localhost";
/// The first owner's password.
pub const PASSWORD: &str = "owner-password-1";
const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// Nothing that a test waits for takes longer, on however slow a machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// How a server is to be started.
pub struct Setup {
    store: Store,
    env: Vec<(String, String)>,
}

impl Setup {
    pub fn new(backend: &Backend) -> Self {
        Self::of(Store::new(backend))
    }

    fn of(store: Store) -> Self {
        std::fs::create_dir(store.dir.path().join("data")).unwrap();
        let mut setup = Self { store, env: Vec::new() };
        let data = setup.store.dir.path().join("data").display().to_string();
        let url = setup.store.url().map(str::to_owned);
        setup = setup
            .env("SLUICE_DATA_DIR", &data)
            .env("SLUICE_BOOTSTRAP_KEY", KEY)
            .env("SLUICE_OWNER_PASSWORD", PASSWORD)
            .env("SLUICE_METRICS_LISTEN", "off")
            .env("SLUICE_LOG", "warn");
        match url {
            None => setup,
            Some(url) => {
                setup.env("SLUICE_DATABASE_URL", &url).env("SLUICE_MASTER_KEY", MASTER_KEY)
            }
        }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// The outer folder: the data folder is `data` in it.
    pub fn folder(&self) -> PathBuf {
        self.store.dir.path().to_owned()
    }

    /// Starts a server on a free port and waits until it answers.
    pub async fn start(self) -> Server {
        let mut server = self.prepare();
        server.up().await;
        server
    }

    /// A server that is not started yet.
    pub fn prepare(self) -> Server {
        let port = free_port();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let base = format!("http://127.0.0.1:{port}");
        let env = self.env("SLUICE_LISTEN", &format!("127.0.0.1:{port}"));
        Server { setup: env, child: None, port, any: Caller::new(client, base) }
    }
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server. It dies with this value.
pub struct Server {
    setup: Setup,
    child: Option<Child>,
    pub port: u16,
    /// Somebody without a credential.
    pub any: Caller,
}

impl Server {
    /// A fresh server with a sandbox model and one key.
    pub async fn start(backend: &Backend) -> Self {
        Setup::new(backend).start().await
    }

    /// The same, with the limits off and calls to 127.0.0.1 allowed: for tests that call much.
    pub async fn unlimited(backend: &Backend) -> Self {
        let server = Setup::new(backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1").start().await;
        server.lift_limits().await;
        server
    }

    /// The setup of another node on this server's database, with this server's environment.
    pub fn beside(&self) -> Setup {
        let mut setup = Setup::of(Store::beside(&self.setup.store));
        let own = ["SLUICE_DATA_DIR", "SLUICE_LISTEN"];
        for (name, value) in self.setup.env.iter().filter(|(name, _)| !own.contains(&name.as_str()))
        {
            setup = setup.env(name, value);
        }
        setup
    }

    /// Starts the process and waits until it answers.
    pub async fn up(&mut self) {
        self.spawn();
        let began = Instant::now();
        loop {
            if Caller::try_send(self.any.request("GET", "/up")).await.is_ok() {
                return;
            }
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            assert!(began.elapsed() < PATIENCE, "the server does not answer:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The same server with another environment from its next start on.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        assert!(self.child.is_none(), "the server runs");
        self.setup.env.retain(|(known, _)| known != name);
        self.setup.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn spawn(&mut self) {
        assert!(self.child.is_none(), "the server runs already");
        let mut command = self.command(&[]);
        command.stdin(Stdio::null()).stdout(self.open("stdout")).stderr(self.open("stderr"));
        self.child = Some(command.spawn().unwrap());
    }

    fn open(&self, name: &str) -> File {
        let path = self.setup.folder().join(name);
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    /// The binary with this server's environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let foreign = std::env::vars_os().map(|(name, _)| name);
        for name in foreign.filter(|name| name.to_string_lossy().starts_with("SLUICE_")) {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.setup.folder());
        command.envs(self.setup.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command beside the server and returns its output.
    pub async fn cli(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = self.command(args);
        command.envs(env.iter().copied());
        run(command).await
    }

    pub fn data(&self) -> PathBuf {
        self.setup.folder().join("data")
    }

    pub fn on_sqlite(&self) -> bool {
        self.setup.store.url().is_none()
    }

    /// The URL of the database, on PostgreSQL.
    pub fn database_url(&self) -> &str {
        self.setup.store.url().unwrap()
    }

    /// Runs a statement on the database, on PostgreSQL, and gives what it returns.
    pub fn sql(&self, statement: &str) -> String {
        sql(self.database_url(), statement)
    }

    /// Everything that was logged since the first start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.setup.folder().join("stderr")).unwrap_or_default()
    }

    /// Everything that was printed since the first start.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(self.setup.folder().join("stdout")).unwrap_or_default()
    }

    /// Everything that is stored.
    pub fn stored(&self) -> Vec<u8> {
        self.setup.store.bytes()
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The memory that the process holds, in kB.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Has the process do nothing until [`Server::resume`].
    pub async fn pause(&self) {
        self.signal("-STOP");
        let threads = format!("/proc/{}/task", self.pid());
        let has_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
            // The state is what follows the name, which is in brackets.
            stat.is_ok_and(|stat| {
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
            })
        };
        until("all its threads have stopped", async || {
            std::fs::read_dir(&threads).unwrap().all(has_stopped).then_some(())
        })
        .await;
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// Asks the process to stop.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Waits until the process has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        until("the server ends", async || child.try_wait().unwrap()).await
    }

    /// Stops the process gracefully.
    pub async fn stop(&mut self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "{status}:\n{}", self.log());
    }

    /// Stops the process and starts it again, on the same data and port.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.up().await;
    }

    /// Ends the process without a warning.
    pub async fn kill(&mut self) {
        self.signal("-KILL");
        self.ended().await;
    }

    /// A caller with a raw key.
    pub fn with_key(&self, raw: &str) -> Caller {
        self.any.with("authorization", &format!("Bearer {raw}"))
    }

    /// A caller with the first key.
    pub fn key(&self) -> Caller {
        self.with_key(KEY)
    }

    pub async fn login(&self, email: &str, password: &str) -> Reply {
        let body = json!({"email": email, "password": password});
        self.any.post("/api/v1/session", &body).await
    }

    /// A signed-in user.
    pub async fn session(&self, email: &str, password: &str) -> Caller {
        let reply = self.login(email, password).await;
        reply.ok(200);
        let cookie = reply.header("set-cookie").split(';').next().unwrap();
        self.any.with("cookie", cookie)
    }

    /// The owner, signed in.
    pub async fn owner(&self) -> Caller {
        self.session(OWNER, PASSWORD).await
    }

    /// Switches off loop detection and request rate of the first project.
    pub async fn lift_limits(&self) {
        let limits = json!({"requests_per_hour": null, "loop_requests": null});
        settings(&self.owner().await, 1, json!({"limits": limits})).await;
    }
}

/// Merges settings into a project's.
pub async fn settings(owner: &Caller, project: i64, settings: Value) -> Value {
    let body = json!({"project": {"settings": settings}});
    owner.patch(&format!("/api/v1/projects/{project}"), &body).await.ok(200)
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

/// Runs a command to its end; one that hangs is killed.
pub async fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id().to_string();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    match tokio::time::timeout(PATIENCE, output).await {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            panic!("{command:?} does not end");
        }
    }
}

/// Reads an answer until it has these words, and hangs up.
pub async fn hang_up_after(mut response: reqwest::Response, words: &str) {
    let mut read = String::new();
    while !read.contains(words) {
        let bytes = response.chunk().await.unwrap().unwrap();
        read.push_str(std::str::from_utf8(&bytes).unwrap());
    }
}

/// The first step of a trace, once it is recorded.
pub async fn first_step(key: &Caller, trace: &str) -> Value {
    until("the call is recorded", async || {
        key.detail(trace).await["steps"].as_array().and_then(|steps| steps.first().cloned())
    })
    .await
}

/// Asks again and again until there is an answer.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! Servers that a test starts and ends.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use counters::{Bounds, Counters, Request, Settings, Spend, Target, Unusable};
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::secret::Secret;
use domain::time::{Clock, SECOND};
use redis::Value;
use tempfile::TempDir;

/// Nothing that a test waits for takes longer, on however slow a machine.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The project of most tests, its key, and what bounds the key's calls.
pub const PROJECT: ProjectId = ProjectId(7);
pub const KEY: KeyId = KeyId(0xaa);
pub const BOUNDS: Bounds = Bounds {
    project: PROJECT,
    key: KEY,
    reset_at: None,
    cap: Some(Usd(10)),
    budget: Some(Usd(100)),
};

/// A request that counts in all windows.
pub const REQUEST: Request = Request {
    loops: Some((50, 10 * SECOND)),
    per_hour: Some(1_000),
    is_counted: true,
    spend: Spend::Checked,
};

/// The text of an answer.
pub fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

/// Whether there is a Redis to start; it must be there where all is to be tested.
pub fn is_there() -> bool {
    let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    let all = std::env::var_os("SLUICE_TEST_ALL").is_some();
    assert!(found || !all, "SLUICE_TEST_ALL is set, and there is no redis-server");
    if !found {
        eprintln!("skipped: there is no redis-server");
    }
    found
}

/// A server of its own, which ends with this value.
pub struct Server {
    child: Child,
    pub port: u16,
    folder: TempDir,
    arguments: Vec<String>,
}

impl Server {
    /// Starts one with these settings. A port that is taken meanwhile fails it, and another one is tried.
    pub async fn start(arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&each| each.to_owned()).collect();
        for _ in 0..5 {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            let child = spawn(folder.path(), port, &arguments);
            let mut server = Self { child, port, folder, arguments: arguments.clone() };
            if server.answers().await {
                return server;
            }
        }
        panic!("no redis-server starts");
    }

    /// A Sentinel that watches a master by the name `main`, and decides alone.
    pub async fn sentinel(master: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (port, file) = (free_port(), folder.path().join("sentinel.conf"));
        let text = format!(
            "bind 127.0.0.1\nport {port}\nsentinel monitor main 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 2000\n"
        );
        std::fs::write(&file, text).unwrap();
        let child = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { child, port, folder, arguments: Vec::new() };
        assert!(server.answers().await, "the Sentinel does not start");
        server
    }

    async fn answers(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < TEST_TIMEOUT && self.child.try_wait().unwrap().is_none() {
            if self.try_ask(&["PING"]).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    /// Sends its process a signal, as `kill` names it.
    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").arg(name).arg(self.child.id().to_string()).status();
        assert!(done.unwrap().success());
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after [`Server::kill`], on the same port, with what it has on disk.
    pub async fn restart(&mut self) {
        self.child = spawn(self.folder.path(), self.port, &self.arguments);
        assert!(self.answers().await, "it does not start again");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command.
    pub async fn ask(&self, command: &[&str]) -> Value {
        self.try_ask(command).await.unwrap()
    }

    pub async fn try_ask(&self, command: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut asked = redis::cmd(command[0]);
        for part in &command[1..] {
            asked.arg(*part);
        }
        asked.query_async(&mut connection).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(folder: &Path, port: u16, arguments: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"])
        .arg(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The Redis of a test.
pub struct Redis {
    pub servers: Vec<Server>,
    pub url: String,
}

impl Redis {
    pub async fn alone() -> Self {
        let server = Server::start(&["--appendonly", "no"]).await;
        let url = server.url();
        Self { servers: vec![server], url }
    }

    /// A cluster of three masters.
    pub async fn cluster() -> Self {
        let mut servers = Vec::new();
        for _ in 0..3 {
            let bus = free_port().to_string();
            servers
                .push(Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]).await);
        }
        for (server, slots) in
            servers.iter().zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")])
        {
            server.ask(&["CLUSTER", "ADDSLOTSRANGE", slots.0, slots.1]).await;
        }
        for other in &servers[1..] {
            let bus = &other.arguments[3];
            let meet = ["CLUSTER", "MEET", "127.0.0.1", &other.port.to_string(), bus];
            servers[0].ask(&meet).await;
        }
        let began = Instant::now();
        for server in &servers {
            loop {
                let info = server.ask(&["CLUSTER", "INFO"]).await;
                let info = format!("{info:?}");
                if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
                    break;
                }
                assert!(began.elapsed() < TEST_TIMEOUT, "the cluster does not come up: {info}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let hosts: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        Self { url: format!("redis+cluster://{}", hosts.join(",")), servers }
    }

    /// How many servers have keys of a pattern.
    pub async fn masters_with(&self, keys: &str) -> usize {
        let mut count = 0;
        for server in &self.servers {
            match server.ask(&["KEYS", keys]).await {
                Value::Array(found) => count += usize::from(!found.is_empty()),
                other => panic!("{other:?}"),
            }
        }
        count
    }

    pub async fn flush(&self) {
        for server in &self.servers {
            server.ask(&["FLUSHALL"]).await;
        }
    }
}

pub fn settings(url: &str, node: i64, clock: &Clock) -> Settings {
    Settings {
        target: Target::parse(&Secret::new(url.to_owned())).unwrap(),
        installation: "test".to_owned(),
        node: NodeId(node),
        clock: clock.clone(),
    }
}

/// A node whose counters do nothing of their own.
pub async fn quiet(url: &str, node: i64, clock: &Clock) -> Counters {
    Counters::quiet(settings(url, node, clock)).await.unwrap()
}

pub async fn open(url: &str, node: i64) -> Result<Counters, Unusable> {
    Counters::open(settings(url, node, &Clock::system())).await
}

/// Has a node ask whether Redis is well until it is, and add its reservations again after a loss: on a busy machine an
/// answer may come too late.
pub async fn beat(node: &Counters, project: ProjectId) {
    until("beats are answered", async || {
        node.beat().await;
        node.is_reached(project) && node.reaches_failures()
    })
    .await;
}

/// Asks again and again until it is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < TEST_TIMEOUT, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

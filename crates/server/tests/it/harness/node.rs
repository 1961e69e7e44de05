//! Further gateways over the database of a server under test.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::server::{Server, free_port, until};
use super::{Caller, KEY};

/// A gateway over the database of another one. It dies with this value.
pub struct Node {
    child: Child,
    log: PathBuf,
    /// Somebody without a credential.
    pub any: Caller,
}

impl Node {
    /// Starts one beside a server, with some variables that differ, and waits until it answers.
    pub async fn start(server: &Server, env: &[(&str, &str)]) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let log = server.data().join(format!("log-{}", address.replace(':', "-")));
        let mut command = server.command(&[]);
        command.env("SLUICE_LISTEN", &address).envs(env.iter().copied()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let any = Caller::new(client, format!("http://{address}"));
        let mut node = Self { child, log, any };
        until("the node answers", async || {
            let ended = node.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}\n{}", node.log());
            Caller::try_send(node.any.request("GET", "/up")).await.ok()
        })
        .await;
        node
    }

    /// A caller with the first key.
    pub fn key(&self) -> Caller {
        self.any.with("authorization", &format!("Bearer {KEY}"))
    }

    /// The status of `/ready`.
    pub async fn ready(&self) -> u16 {
        self.any.get("/ready").await.status
    }

    /// Everything that it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends the process without a warning.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the node's log ---\n{}", self.log());
        }
    }
}

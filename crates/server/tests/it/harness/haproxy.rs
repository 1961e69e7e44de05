//! An HAProxy that a test starts and ends.

use std::fs::File;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{is_installed, until};

/// An HAProxy of its own. It dies with this value.
pub struct HaProxy {
    child: Child,
    folder: TempDir,
}

impl HaProxy {
    /// Whether there is one to start.
    pub fn is_there() -> bool {
        is_installed("haproxy", "-v")
    }

    /// Starts one with a configuration, and waits until it listens on these ports.
    pub async fn start(configuration: &str, ports: &[u16]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new("haproxy");
        // One process, in the foreground.
        command.arg("-db").arg("-f").arg(&file).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(folder.path().join("log")).unwrap());
        let child = command.spawn().unwrap();
        let mut proxy = Self { child, folder };
        for port in ports {
            until("HAProxy listens", async || {
                let ended = proxy.child.try_wait().unwrap();
                assert!(ended.is_none(), "HAProxy ended: {ended:?}\n{}", proxy.log());
                TcpStream::connect(("127.0.0.1", *port)).ok()
            })
            .await;
        }
        proxy
    }

    /// Everything that it has printed.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- HAProxy's log ---\n{}", self.log());
        }
    }
}

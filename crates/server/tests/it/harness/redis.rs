//! A Redis that a test starts and ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{free_port, is_installed, until};

/// A Redis of its own. It dies with this value.
pub struct Redis {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    /// Starts one, where it is installed.
    pub async fn start() -> Option<Self> {
        if !is_installed("redis-server", "--version") {
            return None;
        }
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Self { child, port, _folder: folder };
        until("Redis answers", async || redis.try_ask("PING").ok()).await;
        Some(redis)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command, and gives the first line of the answer.
    pub fn ask(&self, command: &str) -> String {
        self.try_ask(command).unwrap()
    }

    fn try_ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let (mut said, mut byte) = (String::new(), [0]);
        while !said.ends_with("\r\n") {
            stream.read_exact(&mut byte)?;
            said.push(byte[0].into());
        }
        Ok(said.trim_end().to_owned())
    }

    /// Sends a command, and gives all texts and numbers of the answer.
    pub fn read(&self, command: &str) -> Vec<String> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let (mut found, mut left) = (Vec::new(), 1);
        while left > 0 {
            left -= 1;
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let (kind, rest) = line.trim_end().split_at(1);
            match (kind, rest) {
                ("*", _) => left += rest.parse::<i64>().unwrap().max(0),
                // There is nothing.
                ("$", "-1") => {}
                ("$", _) => {
                    let length: usize = rest.parse().unwrap();
                    let mut text = vec![0; length + 2];
                    stream.read_exact(&mut text).unwrap();
                    text.truncate(length);
                    found.push(String::from_utf8(text).unwrap());
                }
                ("-", _) => panic!("{command}: {rest}"),
                _ => found.push(rest.to_owned()),
            }
        }
        found
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Has it answer nothing until [`Redis::resume`].
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

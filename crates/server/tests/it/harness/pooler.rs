//! PgBouncer in transaction mode, in front of the PostgreSQL of a test.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::is_installed;
use super::server::free_port;

/// A pooler. It ends with this value.
pub struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    /// Starts one in front of the server of a URL; `None` where PgBouncer is not installed.
    pub fn start(url: &str) -> Option<Self> {
        if !is_installed("pgbouncer", "--version") {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("sluice-pooler-").tempdir().unwrap();
        let port = free_port();
        let (host, server_port, user) = parts(url);
        // It does not run as root, and has to read what root has written.
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let account = if is_root { "user = nobody\n" } else { "" };
        let users = folder.path().join("users.txt");
        // Few connections, so that transactions change theirs all the time. None of the settings that make up for
        // what a client does wrong.
        let settings = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 500\nserver_lifetime = 5\n\
             ignore_startup_parameters =\n{account}",
            users.display()
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        std::fs::write(&users, format!("\"{user}\" \"\"\n")).unwrap();
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).unwrap();
        let mut command = Command::new("pgbouncer");
        command.arg("-q").arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut pooler = Self { child, port, _folder: folder };
        pooler.wait();
        Some(pooler)
    }

    fn wait(&mut self) {
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(self.child.try_wait().unwrap().is_none(), "pgbouncer has ended");
            assert!(began.elapsed() < Duration::from_mins(1), "pgbouncer does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A URL of the server through the pooler.
    pub fn url(&self, direct: &str) -> String {
        let (_, _, user) = parts(direct);
        let (_, database) = direct.rsplit_once('/').unwrap();
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The host, port and user of a database URL.
pub fn parts(url: &str) -> (String, u16, String) {
    let rest = url.split_once("://").unwrap().1;
    let authority = rest.split('/').next().unwrap();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("postgres", authority));
    let (host, port) = host.rsplit_once(':').unwrap_or((host, "5432"));
    (host.to_owned(), port.parse().unwrap(), user.split(':').next().unwrap().to_owned())
}

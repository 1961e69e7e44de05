//! Requests that are on their way while an owner ends every way in of their user.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::issuer::Issuer;
use super::{cookie, person, sign_on, signed_on, with_provider};
use crate::harness::{Backend, Caller, Device, Server, until};
use crate::session::passkeys;
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::Authenticator;

crate::on_every_backend!(
    a_request_on_its_way_undoes_no_reset,
    a_reset_takes_the_locks_of_links_before_those_of_users
);

/// A request whose user the server knows already, and whose body is still to come.
struct Held {
    stream: BufReader<TcpStream>,
    body: String,
}

impl Held {
    fn begin(server: &Server, by: &Caller, (method, path): (&str, &str), body: &Value) -> Self {
        let request = by.request("GET", "/").build().unwrap();
        let cookie = request.headers()["cookie"].to_str().unwrap();
        let (port, body) = (server.port, body.to_string());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        // The body is asked for once the session was looked at.
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 100 Continue\r\n", "{method} {path}");
        Self { stream, body }
    }

    /// Sends the body. The answer, from its status on.
    fn go_on(mut self) -> String {
        self.stream.get_mut().write_all(self.body.as_bytes()).unwrap();
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).unwrap();
        answer.trim_start().trim_start_matches("HTTP/1.1 ").to_owned()
    }
}

/// Somebody whom a rule has made, without a password and a second factor. Their number, too.
async fn made(server: &Server, issuer: &Issuer, name: &str) -> (Caller, i64) {
    issuer.says(&person(name, &format!("{name}@example.org"), &["ops"]));
    let session = signed_on(server, issuer).await;
    let id = session.get("/api/v1/session").await.ok(200)["user"]["id"].as_i64().unwrap();
    (session, id)
}

async fn a_request_on_its_way_undoes_no_reset(backend: Backend) {
    let server = super::server_at(&backend, "http://localhost").await;
    let issuer = Issuer::start().await;
    let owner = server.owner().await;
    owner.post(super::PROVIDERS, &super::fields(&issuer)).await.ok(200);
    let own = |path: &str| format!("/api/v1/session/{path}");
    let by_password = json!({"password": ""});
    let new = json!({"old_password": "", "new_password": "a-password-1"});
    let token = json!({"password": "", "name": "t", "role": "admin"});
    let invited = json!({"email": "friend@example.org", "role": "admin"});
    for (number, (method, path, body)) in [
        ("POST", own("password"), new),
        ("POST", own("mfa/totp"), by_password.clone()),
        ("POST", own("mfa/totp/confirm"), Value::Null),
        ("POST", own("passkeys"), Value::Null),
        ("POST", own("identities"), by_password.clone()),
        ("DELETE", own("identities"), by_password),
        ("POST", "/api/v1/service-tokens".to_owned(), token),
        ("POST", "/api/v1/invitations".to_owned(), invited),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("user-{number}");
        let (mut session, id) = made(&server, &issuer, &name).await;
        let (mut body, mut path) = (body, path);
        if path.ends_with("confirm") {
            let offered = session.post(&own("mfa/totp"), &json!({"password": ""})).await.ok(200);
            let authenticator = Authenticator::new(offered["secret"].as_str().unwrap());
            body = json!({"code": authenticator.first_code()});
        } else if path.ends_with("passkeys") {
            let here = format!("http://localhost:{}", server.port).leak();
            let mut device = Device::new(here, "localhost");
            let (with_state, credential) = passkeys::offered(&session, "", &mut device).await;
            session = with_state;
            body = json!({"name": "Laptop", "credential": credential});
        } else if path.ends_with("identities") && method == "POST" {
            issuer.says(&person("another", &format!("{name}@example.org"), &[]));
            let link = cookie(&sign_on(&server, &issuer).await, "sluice_link").unwrap();
            let request = session.request("GET", "/").build().unwrap();
            let own = request.headers()["cookie"].to_str().unwrap();
            session = session.with("cookie", &format!("{own}; {link}"));
        } else if path.ends_with("identities") {
            let listed = session.get(&path).await.ok(200);
            path = format!("{path}/{}", listed[0]["id"].as_str().unwrap());
        }
        let held = Held::begin(&server, &session, (method, &path), &body);
        owner.post(&format!("/api/v1/users/{id}/reset"), &json!({})).await.ok(200);
        let answer = held.go_on();
        // The authenticator that was offered is gone too.
        let status = if path.ends_with("confirm") { "422 " } else { "401 " };
        assert!(answer.starts_with(status), "{method} {path}: {answer}");
        let people = owner.get("/api/v1/users").await.ok(200);
        let people = people.as_array().unwrap();
        let person = people.iter().find(|person| person["id"] == id).unwrap();
        assert_eq!(
            (&person["ways_in"], &person["mfa_enabled"]),
            (&json!([]), &json!(false)),
            "{method} {path}"
        );
    }
    for path in ["/api/v1/service-tokens", "/api/v1/invitations"] {
        owner.get(path).await.is(200, &json!([]));
    }
}

/// The transactions that wait for a lock of another one.
pub(super) const WAITING: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Another transaction on the database, which holds what it has locked.
pub(super) struct Session {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    child: Child,
}

impl Session {
    pub(super) fn begin(server: &Server) -> Self {
        let mut command = Command::new("psql");
        command.args([server.database_url(), "-qXAt", "-v", "ON_ERROR_STOP=1"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { stdin, stdout: BufReader::new(stdout), child }
    }

    /// Runs a statement that returns one row.
    pub(super) fn row(&mut self, statement: &str) -> String {
        writeln!(self.stdin, "{statement}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub(super) fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

async fn a_reset_takes_the_locks_of_links_before_those_of_users(backend: Backend) {
    let (server, _issuer, _) = with_provider(&backend).await;
    if server.on_sqlite() {
        // It has one writer.
        return;
    }
    let owner = server.owner().await;
    user(&server, "admin", &[]).await;
    for act in ["POST /api/v1/users/2/reset", "DELETE /api/v1/users/2"] {
        let invited = json!({"email": "friend@example.org", "role": "viewer"});
        let admin = server.session("admin@example.org", USER_PASSWORD).await;
        admin.post("/api/v1/invitations", &invited).await.ok(200);
        let mut other = Session::begin(&server);
        let held = "BEGIN; SELECT email FROM one_time_links WHERE email LIKE 'friend%' FOR UPDATE;";
        assert_eq!(other.row(held), "friend@example.org");
        let acting = {
            let (owner, act) = (owner.clone(), act.to_owned());
            tokio::spawn(async move {
                let (method, path) = act.split_once(' ').unwrap();
                owner.send(method, path, Some(b"{}".to_vec())).await
            })
        };
        until("it waits for the link", async || (server.sql(WAITING) == "1").then_some(())).await;
        // The holder of the link goes on to the user.
        let locked = other.row("SELECT id FROM users WHERE id = 2 FOR UPDATE NOWAIT;");
        assert_eq!(locked, "2", "{act}");
        other.end();
        let reply = acting.await.unwrap();
        assert!(reply.status < 300, "{act}: {}", reply.text);
        if act.starts_with("POST") {
            let link = reply.json()["link"].as_str().unwrap().to_owned();
            let token = link.split("token=").nth(1).unwrap();
            let set = json!({"token": token, "password": USER_PASSWORD});
            server.any.post("/api/v1/password-resets/use", &set).await.ok(204);
        }
    }
}

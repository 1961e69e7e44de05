//! A mail server (RFC 5321, as much of it as a client needs) that keeps what it is sent.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{Setup, until};

/// A letter that came in.
#[derive(Clone, Debug)]
pub struct Received {
    /// The address in the envelope.
    pub to: String,
    /// Headers and text, decoded.
    pub text: String,
}

impl Received {
    /// The path and query of the one link in it, of a gateway at this address.
    pub fn link(&self, base: &str) -> String {
        let mut lines = self.text.lines().filter_map(|line| line.strip_prefix(base));
        let link = lines.next().unwrap_or_else(|| panic!("no link in {}", self.text));
        assert_eq!(lines.next(), None, "one link");
        link.trim().to_owned()
    }
}

/// A mail server on loopback.
pub struct Mailbox {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    letters: Mutex<Vec<Received>>,
    /// Letters to turn away before one is taken.
    busy: Mutex<usize>,
}

impl Mailbox {
    /// A server that takes every letter, after it has turned so many away for now.
    pub async fn start(busy: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { busy: Mutex::new(busy), ..State::default() });
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                tokio::spawn(async move { serve(stream, &state).await });
            }
        });
        Self { port, state }
    }

    /// A gateway that sends its letters here, with a public address.
    pub fn configure(&self, setup: Setup, public_url: &str) -> Setup {
        let url = format!("smtp://127.0.0.1:{}", self.port);
        let setup = setup.env("SLUICE_SMTP_URL", &url).env("SLUICE_PUBLIC_URL", public_url);
        setup.env("SLUICE_MAIL_FROM", "Sluice <sluice@example.com>")
    }

    /// The letters that came in; none of them stays.
    pub fn take(&self) -> Vec<Received> {
        std::mem::take(&mut self.state.letters.lock().unwrap())
    }

    /// The next letter.
    pub async fn next(&self) -> Received {
        let next = async || {
            let mut letters = self.state.letters.lock().unwrap();
            (!letters.is_empty()).then(|| letters.remove(0))
        };
        until("a letter comes in", next).await
    }
}

async fn serve(stream: TcpStream, state: &State) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut to = String::new();
    let _ = write.write_all(b"220 mailbox\r\n").await;
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match line.get(..4).unwrap_or_default() {
            "RCPT" => {
                line.split_once('<').unwrap().1.split('>').next().unwrap().clone_into(&mut to);
                let mut busy = state.busy.lock().unwrap();
                if *busy > 0 {
                    *busy -= 1;
                    "451 come back later\r\n"
                } else {
                    "250 fine\r\n"
                }
            }
            "DATA" => {
                let _ = write.write_all(b"354 go on\r\n").await;
                let mut text = String::new();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line == "." {
                        break;
                    }
                    // Quoted-printable (RFC 2045): a line that goes on, and an equals sign.
                    match line.strip_suffix('=') {
                        Some(part) => text.push_str(part),
                        None => text.push_str(&(line + "\n")),
                    }
                }
                let text = text.replace("=3D", "=");
                state.letters.lock().unwrap().push(Received { to: to.clone(), text });
                "250 taken\r\n"
            }
            "QUIT" => "221 bye\r\n",
            _ => "250 fine\r\n",
        };
        if write.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

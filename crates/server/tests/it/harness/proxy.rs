//! A network that can be cut: connections on loopback, passed on to a server.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All that comes is passed on.
    Whole,
    /// Connections are closed, and new ones too.
    Cut,
    /// Nothing arrives, and nothing is closed.
    Silent,
}

/// A cable to a server. It ends with this value.
pub struct Cable {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
}

impl Cable {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(watch::channel(State::Whole).0);
        let states = state.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let state = states.subscribe();
                if *state.borrow() != State::Cut {
                    tokio::spawn(pass(near, server, state));
                }
            }
        });
        Self { address, state }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    pub fn silence(&self) {
        self.state.send_replace(State::Silent);
    }

    pub fn mend(&self) {
        self.state.send_replace(State::Whole);
    }
}

async fn pass(near: TcpStream, server: SocketAddr, mut state: watch::Receiver<State>) {
    let Ok(far) = TcpStream::connect(server).await else { return };
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let (up, down) = (state.clone(), state.clone());
    tokio::select! {
        () = copy(near_in, far_out, up) => {}
        () = copy(far_in, near_out, down) => {}
        _ = state.wait_for(|state| *state == State::Cut) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if state.wait_for(|state| *state != State::Silent).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

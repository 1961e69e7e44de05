//! Refusals of the HTTP library, given the body that every error has.
//!
//! hyper answers input that it cannot read as a request by itself (a malformed head, an address or headers
//! that are too long), with a status and no body. No handler of ours answers so: a 4xx without a body is
//! always one of those.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream to a client.
#[derive(Debug)]
pub(crate) struct BareRefusals<S> {
    stream: S,
    /// The unwritten rest of the response that replaces a refusal.
    pending: Vec<u8>,
}

impl<S: AsyncWrite + Unpin> BareRefusals<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, pending: Vec::new() }
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

/// The status and the head, without its last line, of a refusal that has no body.
fn bare_refusal(bytes: &[u8]) -> Option<(u16, &str)> {
    // Only a bare head is so short, and hardly any other write begins so.
    if bytes.len() > 512 || !(bytes.starts_with(b"HTTP/1.1 4") || bytes.starts_with(b"HTTP/1.0 4"))
    {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let status = head.get(9..12)?.parse().ok()?;
    let is_bare = head.lines().any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    (is_bare && !head.contains("\r\n\r\n")).then_some((status, head))
}

/// The refusal with a body.
fn with_body(status: u16, head: &str) -> Vec<u8> {
    let (id, body) = api::bare_refusal(status);
    let kept = head.lines().filter(|line| {
        !line.get(..15).is_some_and(|name| name.eq_ignore_ascii_case("content-length:"))
    });
    let kept = kept.collect::<Vec<_>>().join("\r\n");
    format!(
        "{kept}\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\nx-request-id: {id}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BareRefusals<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        match bare_refusal(bytes) {
            None => Pin::new(&mut self.stream).poll_write(cx, bytes),
            Some((status, head)) => {
                self.pending = with_body(status, head);
                Poll::Ready(Ok(bytes.len()))
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        match bytes {
            [only] => self.poll_write(cx, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BareRefusals<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The bytes that a client receives when `written` is written.
    async fn received(written: &str) -> String {
        // A narrow pipe: it takes several writes.
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = BareRefusals::new(near);
        let written = written.to_owned();
        let write = async move {
            near.write_all(written.as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let mut text = String::new();
        let ((), read) = tokio::join!(write, far.read_to_string(&mut text));
        read.unwrap();
        text
    }

    #[tokio::test]
    async fn a_refusal_without_a_body_gets_one() {
        for (status, sentence) in [
            ("400 Bad Request", "The request is malformed"),
            ("414 URI Too Long", "The address is too long"),
            ("431 Request Header Fields Too Large", "The headers are too large"),
        ] {
            let bare = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n"
            );
            let text = received(&bare).await;
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(&format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ndate: now\r\n"
                )),
                "{head}"
            );
            assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
            assert!(head.contains("\r\nx-request-id: "), "{head}");
            assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
            assert_eq!(body, format!(r#"{{"error":"{sentence}"}}"#));
        }
    }

    #[tokio::test]
    async fn everything_else_passes_as_it_is() {
        for text in [
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 20\r\n\r\n",
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "data: HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert_eq!(received(text).await, text);
        }
    }
}

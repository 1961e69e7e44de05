//! What long texts ask for is done beside the threads that serve requests, where it holds up nobody
//! else.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// To read or judge a text of more bytes takes so long that other requests feel it.
const LONG: usize = 32 * 1024;

/// As many at a time as there are processors; the others wait.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, NonZero::get)));

/// Does what a text of so many bytes asks for: at once if it is short.
pub async fn beside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= LONG || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    // An error would mean that it is closed, which nobody does.
    let _place = PLACES.acquire().await.ok();
    block_in_place(work)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Nothing that this test waits for takes longer, on however slow a machine.
    const PATIENCE: Duration = Duration::from_mins(1);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_long_holds_up_nobody() {
        let (say, heard) = mpsc::channel();
        let long = beside(LONG + 1, || {
            let other = Handle::current().spawn(async move { say.send("served").unwrap() });
            (heard.recv_timeout(PATIENCE), other)
        });
        let (heard, other) = long.await;
        assert_eq!(heard, Ok("served"));
        other.await.unwrap();
    }
}

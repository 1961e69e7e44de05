//! A task that wakes itself continues at once.
//!
//! A connection and the calls that it carries are one task, and their parts notify each other of new
//! data: the body of a request, the head of an answer. Each notification wakes the task that is
//! already running; the runtime would queue it again, behind all others that are ready. Here such a
//! wake means another poll, and only wakes from outside reach the runtime.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::task::coop::has_budget_remaining;

/// Polls in a row without a rest for other tasks.
const MOST_TURNS: usize = 32;

const RESTS: u8 = 0;
const RUNS: u8 = 1;
const RUNS_AGAIN: u8 = 2;

#[derive(Default)]
struct Turns {
    state: AtomicU8,
    runtime: AtomicWaker,
}

impl Wake for Turns {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted =
            self.state.compare_exchange(RUNS, RUNS_AGAIN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(RESTS) {
            self.runtime.wake();
        }
    }
}

/// Runs a future to its end, in as few polls as there are events from outside.
pub(crate) async fn coalesce_wakes<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let turns = Arc::new(Turns::default());
    let waker = Waker::from(turns.clone());
    poll_fn(|cx| {
        turns.runtime.register(cx.waker());
        for _ in 0..MOST_TURNS {
            turns.state.store(RUNS, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(output);
            }
            if turns.state.swap(RESTS, Ordering::AcqRel) == RUNS {
                return Poll::Pending;
            }
            if !has_budget_remaining() {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Count {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// A future that wakes itself `left` times.
    fn busy(mut left: usize) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn what_wakes_itself_goes_on_without_the_runtime() {
        let runtime = Arc::new(Count::default());
        let waker = Waker::from(runtime.clone());
        let mut task = pin!(coalesce_wakes(busy(MOST_TURNS - 1)));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert_eq!(runtime.wakes(), 0);
    }

    #[test]
    fn what_never_rests_lets_others_run() {
        let runtime = Arc::new(Count::default());
        let waker = Waker::from(runtime.clone());
        let mut task = pin!(coalesce_wakes(busy(MOST_TURNS)));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(runtime.wakes(), 1);
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn a_wake_from_outside_reaches_the_runtime() {
        let runtime = Arc::new(Count::default());
        let waker = Waker::from(runtime.clone());
        let (send, receive) = tokio::sync::oneshot::channel();
        let mut task = pin!(coalesce_wakes(receive));
        let mut cx = Context::from_waker(&waker);
        assert!(task.as_mut().poll(&mut cx).is_pending());
        assert_eq!(runtime.wakes(), 0);
        send.send(7).unwrap();
        assert_eq!(runtime.wakes(), 1);
        assert_eq!(task.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
    }
}

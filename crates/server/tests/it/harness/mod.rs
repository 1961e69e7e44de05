//! What every test needs: a running server, a client, a provider to call.

mod http;
mod mock;
mod server;
mod store;

pub use http::{Caller, Reply, encode};
pub use mock::{Answer, Asked, Mock, call};
pub use server::{KEY, OWNER, PASSWORD, Server, Setup, run, settings, until};
pub use store::Backend;

/// Runs each test on every database that there is.
#[macro_export]
macro_rules! on_every_backend {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::harness::Backend::Sqlite).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(backend) = $crate::harness::Backend::postgres() {
                    super::$test(backend).await;
                }
            })+
        }
    };
}

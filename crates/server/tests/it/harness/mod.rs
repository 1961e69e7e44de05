//! The basis of every test: a running server, a client, a provider to call.

mod haproxy;
mod http;
mod mailbox;
mod mock;
mod node;
mod passkey_device;
mod pooler;
mod proxy;
mod redis;
mod server;
mod simulator;
mod store;

use std::process::{Command, Stdio};

pub use haproxy::HaProxy;
pub use http::{Caller, Reply, encode};
pub use mailbox::Mailbox;
pub use mock::{Answer, Asked, Mock, call};
pub use node::Node;
pub use passkey_device::Device;
pub use pooler::{Pooler, parts};
pub use proxy::Cable;
pub use redis::Redis;
pub use server::{
    KEY, OWNER, PASSWORD, Server, Setup, first_step, free_port, hang_up_after, run, settings, until,
};
pub use simulator::{PICTURE, Provider, Simulator, providers};
pub use store::Backend;

/// The URL of a server that tests need; `None` leaves them out, and is a failure if all is to be
/// tested.
pub fn server_at(name: &str) -> Option<String> {
    let url = std::env::var(name).ok();
    let all = std::env::var_os("SLUICE_TEST_ALL").is_some();
    assert!(url.is_some() || !all, "SLUICE_TEST_ALL is set, and {name} is not");
    if url.is_none() {
        eprintln!("skipped: {name} is not set");
    }
    url
}

/// Whether a program that tests need is installed, by the argument that has it print its version. It must be
/// there if all is to be tested.
fn is_installed(program: &str, version: &str) -> bool {
    let printed = Command::new(program).arg(version).stdout(Stdio::null()).status();
    let is_there = printed.is_ok_and(|status| status.success());
    let all = std::env::var_os("SLUICE_TEST_ALL").is_some();
    assert!(is_there || !all, "SLUICE_TEST_ALL is set, and {program} is not installed");
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

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

//! The memory allocator of the binary (mimalloc), and the return of freed memory to the system.
//!
//! mimalloc returns freed pages only while the thread that owns them allocates and frees. A thread that
//! has carried a large request and then waits would keep its memory for good. Therefore a thread
//! collects when it runs out of work ([`collect_if_requested`], to be called before it parks), once for
//! each [`request_collection`]. What C libraries free is another allocator's: [`trim`] returns that.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The allocator, for `#[global_allocator]`.
pub use mimalloc::MiMalloc as Allocator;

/// How often a collection was requested.
static REQUESTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The request that this thread has met last.
    static MET: Cell<u64> = const { Cell::new(0) };
}

/// Has every thread collect when it next runs out of work.
pub fn request_collection() {
    REQUESTED.fetch_add(1, Ordering::Relaxed);
}

/// Returns what this thread has freed to the system, if that was requested since it last did. Costs one
/// load otherwise.
pub fn collect_if_requested() {
    let requested = REQUESTED.load(Ordering::Relaxed);
    if MET.replace(requested) != requested {
        collect();
    }
}

/// Frees what other threads have freed of this thread's blocks, and returns all free pages.
#[expect(unsafe_code, reason = "the allocator has no other interface")]
fn collect() {
    // SAFETY: `mi_collect` takes no pointers, and any thread may call it at any time. It touches the
    // heap of the calling thread alone, and segments and arenas of all under the allocator's own locks.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Returns what C libraries (SQLite, the cryptography) have freed to the system: they use the allocator of the
/// C library, which keeps it.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the C library has no other interface")
)]
pub fn trim() {
    // SAFETY: `malloc_trim` takes no pointers, and any thread may call it at any time: it takes the locks of the
    // C library's own arenas.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// The anonymous memory of this process, in KiB.
    fn anonymous() -> usize {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux has it");
        let line =
            rollup.lines().find(|line| line.starts_with("Anonymous:")).expect("it is listed");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    #[test]
    fn a_thread_that_waits_returns_what_others_freed_of_its_memory() {
        let before = anonymous();
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1024 * 1024]).collect();
        std::thread::spawn(move || drop(blocks)).join().expect("the thread ends");
        assert!(anonymous() > before + 32 * 1024, "else there is nothing to return");
        collect_if_requested();
        assert!(anonymous() > before + 32 * 1024, "nobody has requested it");
        request_collection();
        collect_if_requested();
        assert!(anonymous() < before + 8 * 1024, "{} KiB before, {} now", before, anonymous());
    }
}

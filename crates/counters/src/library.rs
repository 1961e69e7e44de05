//! The functions that the server runs.

use std::sync::LazyLock;

/// One library in two files: the functions of the second use those of the first.
const SOURCE: &str = concat!(include_str!("counters.lua"), include_str!("failures.lua"));

/// The name of the library. It changes with the functions, so that two versions work side by side on one server: a node
/// of each loads its own, and both work on the same keys.
static NAME: LazyLock<String> = LazyLock::new(|| {
    // FNV-1a.
    let hash = SOURCE.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("sluice_{hash:016x}")
});

/// The name of the library.
pub(crate) fn name() -> &'static str {
    &NAME
}

/// The source of the library under its name.
pub(crate) fn source() -> String {
    SOURCE.replace("@LIBRARY@", name())
}

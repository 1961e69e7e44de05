//! The functions that the server runs.

/// The name of the library. It changes with the functions, so that two versions work side by side on one server.
pub(crate) const NAME: &str = "sluice_1";

/// The source of the library under its name.
pub(crate) fn source() -> String {
    include_str!("counters.lua").replace("@LIBRARY@", NAME)
}

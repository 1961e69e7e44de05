//! Crashes and failing disks: what was acknowledged is kept.

mod failing_device;
mod kill;

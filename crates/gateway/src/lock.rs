//! Mutexes over plain values.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex whose holder panicked still guards plain numbers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

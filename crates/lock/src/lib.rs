//! [`LockExt::locked`]: acquires a mutex and ignores poisoning.
//!
//! **Invariant.** Use it only where no code panics between two writes that belong together: then the data behind a poisoned
//! mutex is still consistent.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub trait LockExt<T: ?Sized> {
    /// Blocks until the mutex is acquired. A panic of an earlier holder is ignored.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> LockExt<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_poisoned_mutex_is_acquired_with_its_data() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut value = mutex.locked();
            *value = 2;
            panic!("while the mutex is held");
        }));
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*mutex.locked(), 2);
    }
}

//! Extension traits that acquire a mutex or a reader-writer lock and ignore poisoning.
//!
//! **Invariant.** Use them only where no code panics between two writes that belong together: then the data behind a poisoned
//! lock is still consistent.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub trait LockExt<T: ?Sized> {
    /// Blocks until the mutex is acquired. A panic of an earlier holder is ignored.
    fn locked(&self) -> MutexGuard<'_, T>;

    /// Consumes the mutex and returns its data. A panic of an earlier holder is ignored.
    fn into_value(self) -> T
    where
        T: Sized;
}

impl<T: ?Sized> LockExt<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_value(self) -> T
    where
        T: Sized,
    {
        self.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

pub trait RwLockExt<T: ?Sized> {
    /// Blocks until the lock is acquired for reading. A panic of an earlier writer is ignored.
    fn read_locked(&self) -> RwLockReadGuard<'_, T>;

    /// Blocks until the lock is acquired for writing. A panic of an earlier writer is ignored.
    fn write_locked(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T: ?Sized> RwLockExt<T> for RwLock<T> {
    fn read_locked(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_locked(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(mutex.into_value(), 2);
    }

    #[test]
    fn a_poisoned_rw_lock_is_acquired_with_its_data() {
        let lock = RwLock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *lock.write_locked() = 2;
            let _guard = lock.write_locked();
            panic!("while the lock is held");
        }));
        assert!(panicked.is_err() && lock.is_poisoned());
        assert_eq!(*lock.read_locked(), 2);
        *lock.write_locked() = 3;
        assert_eq!(*lock.read_locked(), 3);
    }
}

//! The door of a session in this process. Those who come stand in a line, and the next one goes in when the one before it is in
//! the log or in the queue: from then on the store knows who was first.

use futures::{FutureExt, future::BoxFuture};
use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    sync::{Mutex as Line, Notify, OwnedMutexGuard},
    task::coop::unconstrained,
};

#[derive(Default)]
pub(super) struct Door {
    /// Wakes those who wait in this process when a turn ends in it.
    pub(super) turns: Notify,
    line: Arc<Line<()>>,
}

impl Door {
    /// Stands in the line from now on.
    pub(super) fn line_up(&self) -> Standing {
        if let Ok(inside) = Arc::clone(&self.line).try_lock_owned() {
            return Standing::Inside(Passage::new(inside));
        }
        let mut next = unconstrained(Arc::clone(&self.line).lock_owned()).boxed();
        // Whoever has asked once has a place in the line.
        match (&mut next).now_or_never() {
            Some(inside) => Standing::Inside(Passage::new(inside)),
            None => Standing::InLine(next),
        }
    }
}

/// Where somebody is who came to a door. Dropping it lets the next one in.
#[derive(Default)]
pub(super) enum Standing {
    #[default]
    Aside,
    InLine(BoxFuture<'static, OwnedMutexGuard<()>>),
    Inside(Passage),
}

impl Standing {
    /// Waits until all who came before have made room.
    pub(super) async fn go_in(&mut self) {
        if let Self::InLine(next) = self {
            *self = Self::Inside(Passage::new(next.await));
        }
    }

    pub(super) fn passage(&self) -> Option<Passage> {
        match self {
            Self::Inside(passage) => Some(passage.clone()),
            Self::Aside | Self::InLine(_) => None,
        }
    }

    /// Makes room for the next one.
    pub(super) fn step_aside(&mut self) {
        if let Self::Inside(passage) = mem::take(self) {
            passage.clear();
        }
    }
}

/// Nobody else goes through the door as long as somebody is in it.
#[derive(Clone)]
pub(crate) struct Passage(Arc<Mutex<Option<OwnedMutexGuard<()>>>>);

impl Passage {
    fn new(inside: OwnedMutexGuard<()>) -> Self {
        Self(Arc::new(Mutex::new(Some(inside))))
    }

    /// Lets the next one in.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passage")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_inside(standing: &mut Standing) -> bool {
        standing.go_in().now_or_never().is_some()
    }

    #[test]
    fn those_who_come_go_in_one_by_one_in_the_order_in_which_they_came() {
        let door = Door::default();
        let [mut first, mut second, mut third] = [door.line_up(), door.line_up(), door.line_up()];
        assert!(is_inside(&mut first) && !is_inside(&mut third) && !is_inside(&mut second));
        first.step_aside();
        // One that comes now is not before those who wait, however quick it is.
        let mut late = door.line_up();
        assert!(!is_inside(&mut late) && !is_inside(&mut third) && is_inside(&mut second));
        second.passage().unwrap().clear();
        assert!(!is_inside(&mut late) && is_inside(&mut third));
        drop(third);
        assert!(is_inside(&mut late));
    }

    #[test]
    fn whoever_leaves_the_line_holds_nobody_up() {
        let door = Door::default();
        let (inside, gone, called, mut last) =
            (door.line_up(), door.line_up(), door.line_up(), door.line_up());
        drop(gone);
        assert!(!is_inside(&mut last));
        drop(inside);
        // It was called in, and has not heard of it.
        drop(called);
        assert!(is_inside(&mut last));
    }
}

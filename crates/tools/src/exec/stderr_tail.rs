//! The last bytes of a program's standard error, for its error message.

use lock::LockExt;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tokio::{io::AsyncReadExt, process::ChildStderr};

use crate::outputs::to_plain_text;

const TAIL_BYTES: usize = 4 * 1024;

/// A ring buffer of standard error. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// Reads until all processes that hold the pipe have closed it.
    pub(crate) async fn read_from(self, mut stderr: ChildStderr) {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
            let mut tail = self.0.locked();
            tail.extend(&buffer[..length]);
            let excess = tail.len().saturating_sub(TAIL_BYTES);
            tail.drain(..excess);
        }
    }

    /// The buffered text as plain text, or `None` if it is empty.
    pub(crate) fn text(&self) -> Option<String> {
        let tail = self.0.locked();
        let text = to_plain_text(&tail.iter().copied().collect::<Vec<u8>>());
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

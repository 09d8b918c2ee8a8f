//! The end of what a program says to standard error, kept for when it fails.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{io::AsyncReadExt, process::ChildStderr};

use crate::outputs::to_plain_text;

/// How much of it is kept.
const KEPT: usize = 4 * 1024;

#[derive(Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    /// Listens until the program and all that it started are silent.
    pub(crate) async fn listen(self, mut errors: ChildStderr) {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = errors.read(&mut buffer).await {
            let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            words.extend(&buffer[..length]);
            let too_many = words.len().saturating_sub(KEPT);
            words.drain(..too_many);
        }
    }

    /// What was heard, fit for people and models.
    pub(crate) fn text(&self) -> Option<String> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = to_plain_text(&words.iter().copied().collect::<Vec<u8>>());
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

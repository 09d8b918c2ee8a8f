//! The codes of links that let a browser in: each is good once, and not for long.

use super::secret::{TokenDigest, TokenSecret};
use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a link is good for.
pub const LIFE: Duration = Duration::from_mins(10);
/// More links than these make the oldest bad.
const MOST: usize = 16;

/// The codes that nobody has used yet. They are in memory alone: a link ends with its server.
#[derive(Debug, Default)]
pub struct LoginCodes(Mutex<Vec<(TokenDigest, Instant)>>);

impl LoginCodes {
    pub fn issue(&self) -> io::Result<TokenSecret> {
        let code = TokenSecret::fresh()?;
        let mut open = self.open();
        if open.len() == MOST {
            open.remove(0);
        }
        open.push((code.digest(), Instant::now() + LIFE));
        Ok(code)
    }

    /// Whether the code is good; from now on it is not.
    pub fn redeem(&self, code: &str) -> bool {
        let digest = TokenDigest::of(code);
        let mut open = self.open();
        let before = open.len();
        open.retain(|(other, _)| *other != digest);
        open.len() < before
    }

    fn open(&self) -> MutexGuard<'_, Vec<(TokenDigest, Instant)>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        open.retain(|(_, end)| *end > now);
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_code_is_good_once() {
        let codes = LoginCodes::default();
        let (one, other) = (codes.issue().unwrap(), codes.issue().unwrap());
        assert!(!codes.redeem("guess"));
        assert!(codes.redeem(one.reveal()));
        assert!(!codes.redeem(one.reveal()));
        assert!(codes.redeem(other.reveal()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_is_not_good_for_long() {
        let codes = LoginCodes::default();
        let code = codes.issue().unwrap();
        tokio::time::advance(LIFE).await;
        assert!(!codes.redeem(code.reveal()));
    }

    #[tokio::test]
    async fn only_the_newest_links_are_good() {
        let codes = LoginCodes::default();
        let first = codes.issue().unwrap();
        for _ in 0..MOST {
            codes.issue().unwrap();
        }
        assert!(!codes.redeem(first.reveal()));
    }
}

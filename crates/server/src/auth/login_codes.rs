//! The one-time codes of login links.

use super::secret::{TokenDigest, TokenSecret};
use lock::LockExt;
use std::{
    io,
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::Instant;

/// How long a login link is valid.
pub const LIFETIME: Duration = Duration::from_mins(10);
/// The maximum number of valid links; a new one invalidates the oldest.
const MAX_CODES: usize = 16;

/// Codes that are not yet redeemed. They are kept in memory, so a restart invalidates them.
#[derive(Debug, Default)]
pub struct LoginCodes(Mutex<Vec<(TokenDigest, Instant)>>);

impl LoginCodes {
    pub fn issue(&self) -> io::Result<TokenSecret> {
        let code = TokenSecret::generate()?;
        let mut codes = self.valid_codes();
        if codes.len() == MAX_CODES {
            codes.remove(0);
        }
        codes.push((code.digest(), Instant::now() + LIFETIME));
        Ok(code)
    }

    /// Invalidates a code. Returns whether it was valid.
    pub fn redeem(&self, code: &str) -> bool {
        let digest = TokenDigest::new(code);
        let mut codes = self.valid_codes();
        let before = codes.len();
        codes.retain(|(other, _)| *other != digest);
        codes.len() < before
    }

    fn valid_codes(&self) -> MutexGuard<'_, Vec<(TokenDigest, Instant)>> {
        let mut codes = self.0.locked();
        let now = Instant::now();
        codes.retain(|(_, expires)| *expires > now);
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_code_can_be_redeemed_once() {
        let codes = LoginCodes::default();
        let (one, other) = (codes.issue().unwrap(), codes.issue().unwrap());
        assert!(!codes.redeem("guess"));
        assert!(codes.redeem(one.reveal()));
        assert!(!codes.redeem(one.reveal()));
        assert!(codes.redeem(other.reveal()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_expires() {
        let codes = LoginCodes::default();
        let code = codes.issue().unwrap();
        tokio::time::advance(LIFETIME).await;
        assert!(!codes.redeem(code.reveal()));
    }

    #[tokio::test]
    async fn a_new_code_invalidates_the_oldest_above_the_limit() {
        let codes = LoginCodes::default();
        let first = codes.issue().unwrap();
        for _ in 0..MAX_CODES {
            codes.issue().unwrap();
        }
        assert!(!codes.redeem(first.reveal()));
    }
}

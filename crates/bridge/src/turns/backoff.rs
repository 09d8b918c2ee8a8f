//! Exponential backoff for store faults. Model calls have their own policy, `model::retries`.

use std::time::Duration;

/// The first pause. Each further pause is twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);
/// Attempts of a started turn: about ten seconds in total.
const ATTEMPTS: u32 = 12;

/// The remaining attempts of one store call.
#[derive(Debug)]
pub(crate) struct Backoff {
    pause: Duration,
    /// Remaining attempts; `None` without limit.
    left: Option<u32>,
}

impl Backoff {
    /// Retries without limit, for calls that must not be lost.
    pub(crate) fn unlimited() -> Self {
        Self { pause: FIRST, left: None }
    }

    /// For calls of a turn that has started.
    pub(crate) fn for_turn() -> Self {
        Self { left: Some(ATTEMPTS - 1), ..Self::unlimited() }
    }

    /// No retry: the caller handles the first failure.
    pub(crate) fn none() -> Self {
        Self { left: Some(0), ..Self::unlimited() }
    }

    /// Waits until the next attempt; `false` if there is none.
    pub(crate) async fn again(&mut self) -> bool {
        if let Some(left) = &mut self.left {
            let Some(fewer) = left.checked_sub(1) else { return false };
            *left = fewer;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn started_turn_retries_for_about_ten_seconds() {
        let (mut backoff, start, mut attempts) = (Backoff::for_turn(), Instant::now(), 1);
        while backoff.again().await {
            attempts += 1;
        }
        assert_eq!(attempts, ATTEMPTS);
        let took = start.elapsed();
        assert!((Duration::from_secs(8)..Duration::from_secs(12)).contains(&took), "{took:?}");
        assert!(!Backoff::none().again().await);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_two_seconds() {
        let (mut backoff, mut pauses) = (Backoff::unlimited(), Vec::new());
        for _ in 0..10 {
            let start = Instant::now();
            assert!(backoff.again().await);
            pauses.push(start.elapsed().as_millis());
        }
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000]);
    }
}

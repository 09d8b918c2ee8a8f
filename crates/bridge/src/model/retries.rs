//! The retry and fallback policy: chooses the remedy for an error while nothing was streamed. The remedies are to wait and
//! retry, to shorten the conversation, and to fall back to another model.

use provider::{Error, RetryAdvice};
use std::time::Duration;

/// The retry policy.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Maximum number of retries per model.
    pub attempts: u32,
    /// The first wait, unless the provider specifies one; doubled each time.
    pub base: Duration,
    /// Maximum wait. A provider that asks for more is skipped.
    pub cap: Duration,
    /// A random number from 0 to 1, so that concurrent clients do not retry at the same time.
    pub jitter: fn() -> f64,
}

impl Default for Retries {
    fn default() -> Self {
        let (base, cap) = (Duration::from_millis(500), Duration::from_mins(1));
        Self { attempts: 3, base, cap, jitter: random }
    }
}

/// What is done after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    Wait(Duration),
    /// Retry with a shortened conversation.
    Shorten,
    /// Call another model, if there is one.
    Another,
    /// No model would do better.
    Nothing,
}

impl Retries {
    /// The remedy for an error after `tried` retries.
    pub(super) fn remedy(&self, error: &Error, tried: u32) -> Remedy {
        match error.retry_advice() {
            RetryAdvice::After(requested) if tried < self.attempts => {
                let wait = requested.unwrap_or_else(|| self.pause(tried));
                if wait <= self.cap { Remedy::Wait(wait) } else { Remedy::Another }
            }
            RetryAdvice::After(_) => Remedy::Another,
            RetryAdvice::Shorter => Remedy::Shorten,
            RetryAdvice::Never if another_may_help(error) => Remedy::Another,
            RetryAdvice::Never => Remedy::Nothing,
        }
    }

    /// The wait with jitter: half of it is fixed, half is random.
    fn pause(&self, tried: u32) -> Duration {
        let longest = self.base.saturating_mul(2_u32.saturating_pow(tried)).min(self.cap);
        longest.mul_f64(0.5 + (self.jitter)().clamp(0.0, 1.0) / 2.0)
    }

    /// The wait that the provider asks for, if it exceeds the maximum.
    pub(super) fn too_long(&self, error: &Error) -> Option<Duration> {
        match error.retry_advice() {
            RetryAdvice::After(Some(wait)) if wait > self.cap => Some(wait),
            RetryAdvice::After(_) | RetryAdvice::Shorter | RetryAdvice::Never => None,
        }
    }
}

/// Whether another provider may succeed. A refusal by the model is its answer.
fn another_may_help(error: &Error) -> bool {
    matches!(
        error,
        Error::Auth { .. }
            | Error::Quota { .. }
            | Error::Protocol { .. }
            | Error::Setup { .. }
            | Error::ModelNotFound { .. }
            | Error::OutputLimit { .. }
            | Error::Filtered { .. }
    )
}

fn random() -> f64 {
    let bits = u32::try_from(uuid::Uuid::new_v4().as_u128() & u128::from(u32::MAX)).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn retries() -> Retries {
        Retries { jitter: || 1.0, ..Retries::default() }
    }

    fn limited(retry_after: Option<u64>) -> Error {
        let (provider, message) = ("p".to_owned(), "slow down".to_owned());
        Error::RateLimited { provider, message, retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn requested_wait_is_honoured_up_to_the_limit() {
        assert_eq!(retries().remedy(&limited(Some(7)), 0), Remedy::Wait(7 * SECOND));
        assert_eq!(retries().remedy(&limited(Some(0)), 2), Remedy::Wait(Duration::ZERO));
        assert_eq!(retries().remedy(&limited(Some(60)), 0), Remedy::Wait(60 * SECOND));
        assert_eq!(retries().remedy(&limited(Some(61)), 0), Remedy::Another);
        assert_eq!(retries().too_long(&limited(Some(61))), Some(61 * SECOND));
    }

    #[test]
    fn waits_double_until_the_attempts_are_used() {
        let remedies: Vec<Remedy> = (0..4).map(|tried| retries().remedy(&limited(None), tried)).collect();
        let waits = [500, 1_000, 2_000].map(|millis| Remedy::Wait(Duration::from_millis(millis)));
        assert_eq!(remedies, [waits[0], waits[1], waits[2], Remedy::Another]);
    }

    #[test]
    fn jitter_is_at_most_half_of_a_wait_and_the_limit_holds() {
        assert_eq!(Retries { jitter: || 0.0, ..retries() }.pause(1), Duration::from_millis(500));
        assert_eq!(retries().pause(30), 60 * SECOND);
        let chances: Vec<f64> = (0..64).map(|_| random()).collect();
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)));
        assert!(chances.windows(2).any(|pair| (pair[0] - pair[1]).abs() > 0.01), "{chances:?}");
    }

    #[test]
    fn fallback_only_if_the_request_is_not_at_fault() {
        let (provider, message) = (|| "p".to_owned(), || "no".to_owned());
        let helps = [
            Error::Auth { provider: provider(), message: message() },
            Error::Quota { provider: provider(), message: message() },
            Error::Protocol { provider: provider(), message: message() },
            Error::Setup { provider: provider(), message: message() },
            Error::ModelNotFound { provider: provider(), message: message() },
            Error::OutputLimit { provider: provider() },
            Error::Filtered { provider: provider(), code: "SAFETY".to_owned(), message: message() },
        ];
        let does_not = [
            Error::Refused { provider: provider(), message: message() },
            Error::BadRequest { provider: provider(), message: message() },
            Error::Failed { code: "BROKEN".to_owned(), message: message() },
        ];
        assert!(helps.iter().all(|error| retries().remedy(error, 0) == Remedy::Another));
        assert!(does_not.iter().all(|error| retries().remedy(error, 0) == Remedy::Nothing));
        let overflow = Error::ContextOverflow { provider: provider(), message: message() };
        assert_eq!(retries().remedy(&overflow, 3), Remedy::Shorten);
    }
}

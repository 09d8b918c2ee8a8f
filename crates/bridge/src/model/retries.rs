//! The retry policy for model calls: exponential backoff with jitter, a shortened conversation, or a fallback model. It
//! applies while nothing was streamed.

use provider::{Error, RetryAdvice};
use std::time::Duration;

/// The retry policy: how often and after which backoff a failed model call is repeated.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Maximum number of attempts per model, the first one included.
    pub attempts: u32,
    /// The first backoff, unless the provider specifies one; doubled each time.
    pub base: Duration,
    /// Maximum backoff. A provider that asks for more is skipped.
    pub cap: Duration,
    /// A random number from 0 to 1, so that concurrent clients do not retry at the same time.
    pub jitter: fn() -> f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let (base, cap) = (Duration::from_millis(500), Duration::from_mins(1));
        Self { attempts: 4, base, cap, jitter: random }
    }
}

/// The decision after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    Wait(Duration),
    /// Retry with a shortened conversation.
    Shorten,
    /// Call another model, if there is one.
    Fallback,
    /// Fail: another model would not succeed either.
    Fail,
}

impl RetryPolicy {
    /// The decision for an error after `tried` retries.
    pub(super) fn decide(&self, error: &Error, tried: u32) -> RetryDecision {
        match error.retry_advice() {
            RetryAdvice::After(requested) if tried.saturating_add(1) < self.attempts => {
                let wait = requested.unwrap_or_else(|| self.backoff(tried));
                if wait <= self.cap { RetryDecision::Wait(wait) } else { RetryDecision::Fallback }
            }
            RetryAdvice::After(_) => RetryDecision::Fallback,
            RetryAdvice::Shorter => RetryDecision::Shorten,
            RetryAdvice::Never if another_may_help(error) => RetryDecision::Fallback,
            RetryAdvice::Never => RetryDecision::Fail,
        }
    }

    /// Exponential backoff with jitter: half of it is fixed, half is random.
    fn backoff(&self, tried: u32) -> Duration {
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
            | Error::Unsupported { .. }
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

    fn retries() -> RetryPolicy {
        RetryPolicy { jitter: || 1.0, ..RetryPolicy::default() }
    }

    fn limited(retry_after: Option<u64>) -> Error {
        let (provider, message) = ("p".to_owned(), "slow down".to_owned());
        Error::RateLimited { provider, message, retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn requested_wait_is_honoured_up_to_the_limit() {
        assert_eq!(retries().decide(&limited(Some(7)), 0), RetryDecision::Wait(7 * SECOND));
        assert_eq!(retries().decide(&limited(Some(0)), 2), RetryDecision::Wait(Duration::ZERO));
        assert_eq!(retries().decide(&limited(Some(60)), 0), RetryDecision::Wait(60 * SECOND));
        assert_eq!(retries().decide(&limited(Some(61)), 0), RetryDecision::Fallback);
        assert_eq!(retries().too_long(&limited(Some(61))), Some(61 * SECOND));
    }

    #[test]
    fn waits_double_until_the_attempts_are_used() {
        let decisions: Vec<RetryDecision> =
            (0..4).map(|tried| retries().decide(&limited(None), tried)).collect();
        let waits = [500, 1_000, 2_000].map(|millis| RetryDecision::Wait(Duration::from_millis(millis)));
        assert_eq!(decisions, [waits[0], waits[1], waits[2], RetryDecision::Fallback]);
    }

    #[test]
    fn attempts_include_the_first_call() {
        let decide = |attempts, tried| RetryPolicy { attempts, ..retries() }.decide(&limited(None), tried);
        assert_eq!(decide(1, 0), RetryDecision::Fallback);
        assert_eq!(decide(0, 0), RetryDecision::Fallback);
        assert!(matches!(decide(2, 0), RetryDecision::Wait(_)));
        assert_eq!(decide(2, 1), RetryDecision::Fallback);
    }

    #[test]
    fn jitter_is_at_most_half_of_a_wait_and_the_limit_holds() {
        assert_eq!(RetryPolicy { jitter: || 0.0, ..retries() }.backoff(1), Duration::from_millis(500));
        assert_eq!(retries().backoff(30), 60 * SECOND);
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
        assert!(helps.iter().all(|error| retries().decide(error, 0) == RetryDecision::Fallback));
        assert!(does_not.iter().all(|error| retries().decide(error, 0) == RetryDecision::Fail));
        let overflow = Error::ContextOverflow { provider: provider(), message: message() };
        assert_eq!(retries().decide(&overflow, 3), RetryDecision::Shorten);
    }
}

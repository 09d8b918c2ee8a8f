//! The rule against a slow client: a minimum rate with a grace period, counted only while the server waits for the client.
//!
//! A client has a credit of waiting time. Waiting spends it, bytes earn it back at the minimum rate, and it never exceeds the
//! grace period. So a client that transfers nothing is cut off after the grace period, one below the minimum rate a little
//! later, and one at or above it never.

use std::time::Duration;
use tokio::time::Instant;

/// The minimum rate of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinRate {
    /// Zero for no minimum: then only the grace period counts.
    pub bytes_per_second: u64,
    /// How long a client may transfer nothing.
    pub grace: Duration,
}

/// The credit of one transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    rate: MinRate,
    /// The credit at `updated`.
    credit: Duration,
    updated: Instant,
    is_waiting: bool,
}

impl Pace {
    pub(crate) fn new(rate: MinRate, now: Instant) -> Self {
        Self { rate, credit: rate.grace, updated: now, is_waiting: false }
    }

    /// The server waits for the client. Returns the time at which the credit is spent.
    pub(crate) fn wait(&mut self, now: Instant) -> Instant {
        if !self.is_waiting {
            // Time in which nothing was due is credited.
            let idle = now.duration_since(self.updated);
            self.credit = (self.credit + idle).min(self.rate.grace);
            (self.updated, self.is_waiting) = (now, true);
        }
        self.updated + self.credit
    }

    /// The client transferred bytes, and the server does not wait any more.
    pub(crate) fn transferred(&mut self, bytes: usize, now: Instant) {
        if self.is_waiting {
            self.credit = self.credit.saturating_sub(now.duration_since(self.updated));
            (self.updated, self.is_waiting) = (now, false);
        }
        let earned = match self.rate.bytes_per_second {
            0 => self.rate.grace,
            rate => Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate),
        };
        self.credit = self.credit.saturating_add(earned).min(self.rate.grace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: MinRate = MinRate { bytes_per_second: 1000, grace: Duration::from_mins(1) };

    /// How many of `steps` a client survives that transfers `bytes` at the end of each.
    fn survived(rate: MinRate, (step, bytes): (Duration, usize), steps: usize) -> usize {
        let mut now = Instant::now();
        let mut pace = Pace::new(rate, now);
        for done in 0..steps {
            let deadline = pace.wait(now);
            now += step;
            if deadline <= now {
                return done;
            }
            pace.transferred(bytes, now);
        }
        steps
    }

    #[test]
    fn only_clients_below_the_minimum_rate_are_cut_off() {
        let second = Duration::from_secs(1);
        assert_eq!(survived(RATE, (second, 0), 1000), 59, "nothing");
        assert_eq!(survived(RATE, (second, 1), 1000), 60, "a drip");
        assert_eq!(survived(RATE, (second, 500), 1000), 118, "half of the rate");
        assert_eq!(survived(RATE, (second, 1000), 100_000), 100_000, "exactly the rate");
        assert_eq!(survived(RATE, (second * 50, 50_000), 1000), 1000, "large steps at the rate");
        assert_eq!(survived(RATE, (second * 61, 1_000_000), 1000), 0, "a step longer than the grace period");
    }

    #[test]
    fn a_burst_earns_at_most_the_grace_period() {
        let now = Instant::now();
        let mut pace = Pace::new(RATE, now);
        pace.transferred(usize::MAX, now);
        assert_eq!(pace.wait(now), now + RATE.grace);
    }

    #[test]
    fn time_in_which_the_server_does_not_wait_is_credited() {
        let start = Instant::now();
        let mut pace = Pace::new(RATE, start);
        pace.wait(start);
        let now = start + Duration::from_secs(50);
        pace.transferred(0, now);
        assert_eq!(pace.wait(now), now + Duration::from_secs(10));
        pace.transferred(0, now);
        let later = now + Duration::from_secs(30);
        assert_eq!(pace.wait(later), later + Duration::from_secs(40));
        assert_eq!(pace.wait(later + Duration::from_secs(5)), later + Duration::from_secs(40));
    }

    #[test]
    fn without_a_rate_any_byte_renews_the_grace_period() {
        let rate = MinRate { bytes_per_second: 0, ..RATE };
        assert_eq!(survived(rate, (Duration::from_secs(59), 1), 1000), 1000);
        assert_eq!(survived(rate, (Duration::from_mins(1), 1), 1000), 0);
    }
}

//! Compares the record of the clients with the stored state. Each rule is a pure function from the record and the stored state to
//! violations.
//!
//! | rule | states that |
//! |---|---|
//! | [`messages`] | an acknowledged message is in its session once, in the order of acceptance, and answered |
//! | [`runs`] | an acknowledged run exists and is over; one key is one run; a run's events are in the log once |
//! | [`readings`] | a reader received the events of its run and of no other, each once, unchanged, without a gap |
//! | [`shown`] | text that was shown a second before its server was killed or stopped is stored |
//! | [`stops`] | the run of a stopped server is finished by another one, once |

mod messages;
mod readings;
mod runs;
mod shown;
mod stops;

#[cfg(test)]
mod tests;

use super::{journal::Record, stored_state::StoredState};

/// All violations, each in one line.
pub(super) fn verify(record: &Record, stored_state: &StoredState) -> Vec<String> {
    let mut violations = record.problems.clone();
    violations.extend(messages::check(record, stored_state));
    violations.extend(runs::check(record, stored_state));
    violations.extend(readings::check(record, stored_state));
    violations.extend(shown::check(record, stored_state));
    violations.extend(stops::check(record, stored_state));
    violations
}

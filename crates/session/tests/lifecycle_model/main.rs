//! Exhaustive model check of the lifecycle: owners are killed, paused, displaced and restarted, and every interleaving of their
//! commits is explored. The model calls the same functions as both backends.

#![expect(clippy::print_stdout, reason = "prints the number of explored states")]

mod model;
mod world;

use model::{Bounds, Lifecycle, Rules};
use session::{
    RunStatus,
    lifecycle::{self, NextState, RunState, Transition, TransitionRefusal, TurnState},
};
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;
use world::OwnerId;

fn check(name: &str, bounds: Bounds) {
    let begun = Instant::now();
    let checker = Lifecycle { rules: Rules::product(), bounds }.checker().threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states, depth {}, {:.1?}",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed()
    );
    checker.assert_properties();
}

#[test]
fn two_owners_of_one_session() {
    let bounds = Bounds { owners: 2, sessions: 1, runs: 3, late_results: false };
    check("two owners, one session", bounds);
}

#[test]
fn three_owners_of_one_session() {
    let bounds = Bounds { owners: 3, sessions: 1, runs: 2, late_results: true };
    check("three owners, one session", bounds);
}

#[test]
fn two_owners_of_two_sessions() {
    let bounds = Bounds { owners: 2, sessions: 2, runs: 1, late_results: true };
    check("two owners, two sessions", bounds);
}

/// Whether the checker finds a counterexample of the property with these rules.
fn is_violated(rules: Rules, property: &'static str) -> bool {
    let bounds = Bounds { owners: 2, sessions: 1, runs: 2, late_results: true };
    let checker = Lifecycle { rules, bounds }.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    checker.discovery(property).is_some()
}

type TransitionResult = Result<NextState<OwnerId>, TransitionRefusal>;

#[test]
fn mutation_no_fence_lets_a_displaced_owner_commit() {
    let fence = |_: &TurnState, _| Ok(());
    assert!(is_violated(Rules { fence, ..Rules::product() }, model::ONLY_THE_HOLDER_COMMITS));
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        let change = match change {
            Transition::Finish { to, .. } => Transition::Finish { epoch: turns.epoch, to: *to },
            other => other.clone(),
        };
        lifecycle::transition(turns, run, &change)
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::ONLY_THE_HOLDER_COMMITS));
}

/// Mutation: does not change the epoch if `keeps` is set.
fn keep_epoch(
    turns: &TurnState,
    run: Option<&RunState<OwnerId>>,
    change: &Transition<OwnerId>,
    keeps: bool,
) -> TransitionResult {
    let next = lifecycle::transition(turns, run, change)?;
    Ok(if keeps { NextState { epoch: turns.epoch, ..next } } else { next })
}

#[test]
fn mutation_cancel_ignores_the_lease_and_commits_beside_a_running_run() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        let is_leased = turns.is_leased && *change != Transition::Cancel;
        lifecycle::transition(&TurnState { is_leased, ..turns.clone() }, run, change)
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::ONLY_THE_HOLDER_COMMITS));
}

#[test]
fn mutation_take_over_keeps_the_epoch_and_fences_no_owner() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        keep_epoch(turns, run, change, matches!(change, Transition::TakeOver { .. }))
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::EPOCHS_GROW));
}

#[test]
fn mutation_release_keeps_the_epoch_and_admits_late_commits() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        keep_epoch(turns, run, change, matches!(change, Transition::Finish { .. }))
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::ONLY_THE_HOLDER_COMMITS));
}

#[test]
fn mutation_start_ignores_the_queue_and_overtakes() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        lifecycle::transition(&TurnState { first_ticket: None, ..turns.clone() }, run, change)
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::IN_ORDER_OF_ACCEPTANCE));
}

#[test]
fn mutation_start_ignores_the_lease_and_two_runs_are_running() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        lifecycle::transition(&TurnState { is_leased: false, ..turns.clone() }, run, change)
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::ONE_RUNNING_RUN));
}

#[test]
fn mutation_withdraw_ignores_the_status_and_changes_a_terminal_state() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        match (run, change) {
            (Some(run), Transition::Withdraw { to, .. }) if run.status.is_terminal() => {
                let run = RunState { status: *to, ticket: None, ..run.clone() };
                Ok(NextState { epoch: turns.epoch, is_leased: turns.is_leased, run })
            }
            _ => lifecycle::transition(turns, run, change),
        }
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::TERMINAL_STATES_STAY));
}

#[test]
fn mutation_take_over_skips_queued_runs_and_loses_them() {
    let transition = |turns: &TurnState,
                      run: Option<&RunState<OwnerId>>,
                      change: &Transition<OwnerId>|
     -> TransitionResult {
        match (run, change) {
            (Some(run), Transition::TakeOver { .. }) if run.status == RunStatus::Queued => {
                Err(TransitionRefusal::Moved)
            }
            _ => lifecycle::transition(turns, run, change),
        }
    };
    assert!(is_violated(Rules { transition, ..Rules::product() }, model::EVERY_RUN_CAN_BE_FINISHED));
}

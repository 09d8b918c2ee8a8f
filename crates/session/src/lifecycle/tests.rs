//! Tests of the transition function: every status × every transition, then the conditions of each transition.

use super::*;

const EPOCH: u64 = 5;
const TICKET: u64 = 7;

type Change = Transition<&'static str>;

fn run(status: RunStatus) -> RunState<&'static str> {
    let ticket = (status == RunStatus::Queued).then_some(TICKET);
    RunState { status, owner: "me", ticket }
}

/// A session whose only run is this one.
fn turns(status: Option<RunStatus>) -> TurnState {
    TurnState {
        epoch: EPOCH,
        is_leased: status == Some(RunStatus::Running),
        first_ticket: (status == Some(RunStatus::Queued)).then_some(TICKET),
    }
}

fn start(owner: &'static str) -> Change {
    Transition::Start { owner, if_epoch: None }
}

fn finish(to: RunStatus) -> Change {
    Transition::Finish { epoch: EPOCH, to }
}

fn withdraw(owner: &'static str, to: RunStatus) -> Change {
    Transition::Withdraw { owner, to }
}

fn take_over(from: &'static str) -> Change {
    Transition::TakeOver { from, owner: "other" }
}

fn apply(status: Option<RunStatus>, change: &Change) -> Result<NextState<&'static str>, TransitionRefusal> {
    transition(&turns(status), status.map(run).as_ref(), change)
}

fn name(status: Option<RunStatus>) -> &'static str {
    status.map_or("(new)", RunStatus::as_str)
}

fn statuses() -> impl Iterator<Item = Option<RunStatus>> {
    std::iter::once(None).chain(RunStatus::ALL.map(Some))
}

#[test]
fn transitions_admitted_by_each_status() {
    let changes: [Change; 7] = [
        Transition::Enqueue { owner: "me", ticket: 9 },
        start("me"),
        finish(RunStatus::Done),
        take_over("me"),
        withdraw("me", RunStatus::Cancelled),
        Transition::Supersede,
        Transition::Cancel,
    ];
    let line = |cells: [&str; 8]| {
        let cells = cells.map(|cell| format!("{cell:<12}"));
        cells.concat().trim_end().to_owned()
    };
    let names = ["", "enqueue", "start", "finish", "take over", "withdraw", "supersede", "cancel"];
    let mut table = vec![line(names)];
    for status in statuses() {
        let mut cells = [name(status); 8];
        for (cell, change) in cells[1..].iter_mut().zip(&changes) {
            *cell = match apply(status, change) {
                Ok(next) => next.run.status.as_str(),
                Err(TransitionRefusal::Moved) => ".",
                Err(TransitionRefusal::Busy) => "busy",
                Err(TransitionRefusal::Fenced) => "fenced",
            };
        }
        table.push(line(cells));
    }
    let expected = "
            enqueue     start       finish      take over   withdraw    supersede   cancel
(new)       queued      running     .           .           .           .           .
queued      .           running     .           queued      cancelled   cancelled   .
running     .           .           done        running     .           .           .
waiting     queued      running     .           .           .           cancelled   cancelled
done        .           .           .           .           .           .           .
failed      .           .           .           .           .           .           .
cancelled   .           .           .           .           .           .           .
interrupted .           .           .           .           .           .           .";
    assert_eq!(format!("\n{}", table.join("\n")), expected);
}

/// The epoch grows with every change of the lease, and with a cancelled question, to invalidate cached copies of the session.
#[test]
fn the_epoch_grows_with_each_change_of_the_lease_and_with_a_cancelled_question() {
    let table = [
        (None, Transition::Enqueue { owner: "me", ticket: 9 }, (EPOCH, false)),
        (None, start("me"), (EPOCH + 1, true)),
        (Some(RunStatus::Queued), start("me"), (EPOCH + 1, true)),
        (Some(RunStatus::Waiting), start("other"), (EPOCH + 1, true)),
        (Some(RunStatus::Running), take_over("me"), (EPOCH + 1, true)),
        (Some(RunStatus::Running), finish(RunStatus::Done), (EPOCH + 1, false)),
        (Some(RunStatus::Running), finish(RunStatus::Waiting), (EPOCH + 1, false)),
        (Some(RunStatus::Waiting), Transition::Cancel, (EPOCH + 1, false)),
        (Some(RunStatus::Queued), take_over("me"), (EPOCH, false)),
        (Some(RunStatus::Queued), withdraw("me", RunStatus::Failed), (EPOCH, false)),
        (Some(RunStatus::Waiting), Transition::Supersede, (EPOCH, false)),
    ];
    for (status, change, expected) in table {
        let next = apply(status, &change).unwrap();
        assert_eq!((next.epoch, next.is_leased), expected, "{} {change:?}", name(status));
    }
}

#[test]
fn a_run_has_a_ticket_exactly_while_it_is_queued() {
    let changes = [
        Transition::Enqueue { owner: "me", ticket: 9 },
        start("me"),
        finish(RunStatus::Done),
        finish(RunStatus::Waiting),
        take_over("me"),
        withdraw("me", RunStatus::Failed),
        Transition::Supersede,
        Transition::Cancel,
    ];
    for status in statuses() {
        for next in changes.iter().filter_map(|change| apply(status, change).ok()) {
            assert_eq!(next.run.ticket.is_some(), next.run.status == RunStatus::Queued, "{next:?}");
        }
    }
    let requeued = apply(Some(RunStatus::Waiting), &changes[0]).unwrap();
    assert_eq!(requeued.run.ticket, Some(9));
}

#[test]
fn a_run_starts_if_the_lease_is_free_and_no_run_is_queued_before_it() {
    let turns = |is_leased, first_ticket| TurnState { epoch: EPOCH, is_leased, first_ticket };
    let table = [
        (None, turns(false, None), Ok(())),
        (None, turns(true, None), Err(TransitionRefusal::Busy)),
        (None, turns(false, Some(1)), Err(TransitionRefusal::Busy)),
        (Some(RunStatus::Waiting), turns(false, None), Ok(())),
        (Some(RunStatus::Waiting), turns(true, None), Err(TransitionRefusal::Busy)),
        (Some(RunStatus::Waiting), turns(false, Some(1)), Err(TransitionRefusal::Busy)),
        (Some(RunStatus::Queued), turns(false, Some(TICKET)), Ok(())),
        (Some(RunStatus::Queued), turns(true, Some(TICKET)), Err(TransitionRefusal::Busy)),
        (Some(RunStatus::Queued), turns(false, Some(TICKET - 1)), Err(TransitionRefusal::Busy)),
    ];
    for (status, turns, expected) in table {
        let answer = transition(&turns, status.map(run).as_ref(), &start("me")).map(drop);
        assert_eq!(answer, expected, "{} in {turns:?}", name(status));
    }
}

#[test]
fn a_question_is_cancelled_only_while_the_lease_is_free() {
    let leased = TurnState { epoch: EPOCH, is_leased: true, first_ticket: Some(1) };
    let waiting = run(RunStatus::Waiting);
    assert_eq!(
        transition(&leased, Some(&waiting), &Transition::Cancel).unwrap_err(),
        TransitionRefusal::Busy
    );
    // Queued runs start later and read the log then.
    let queue = TurnState { is_leased: false, ..leased };
    assert_eq!(
        transition(&queue, Some(&waiting), &Transition::Cancel).unwrap().run.status,
        RunStatus::Cancelled
    );
}

#[test]
fn only_the_owner_starts_or_withdraws_a_queued_run() {
    let queued = Some(RunStatus::Queued);
    assert_eq!(apply(queued, &start("other")).unwrap_err(), TransitionRefusal::Moved);
    assert_eq!(
        apply(queued, &withdraw("other", RunStatus::Cancelled)).unwrap_err(),
        TransitionRefusal::Moved
    );
    // Any owner may continue a waiting run.
    let answered = apply(Some(RunStatus::Waiting), &start("other")).unwrap();
    assert_eq!(answered.run.owner, "other");
}

#[test]
fn a_start_with_if_epoch_is_fenced_by_another_epoch() {
    for status in [None, Some(RunStatus::Queued), Some(RunStatus::Waiting)] {
        let if_epoch = |epoch| Transition::Start { owner: "me", if_epoch: Some(epoch) };
        assert!(apply(status, &if_epoch(EPOCH)).is_ok());
        for other in [EPOCH - 1, EPOCH + 1] {
            assert_eq!(apply(status, &if_epoch(other)).unwrap_err(), TransitionRefusal::Fenced);
        }
    }
}

#[test]
fn a_turn_finishes_in_a_terminal_state_or_waiting() {
    for to in RunStatus::ALL {
        let next = apply(Some(RunStatus::Running), &finish(to));
        if to.is_owned() {
            assert_eq!(next.unwrap_err(), TransitionRefusal::Moved, "{to:?}");
        } else {
            assert_eq!(next.unwrap().run.status, to);
        }
    }
}

#[test]
fn a_queued_run_is_withdrawn_as_cancelled_or_failed() {
    for to in RunStatus::ALL {
        let next = apply(Some(RunStatus::Queued), &withdraw("me", to));
        let is_admitted = matches!(to, RunStatus::Cancelled | RunStatus::Failed);
        assert_eq!(
            next.map(|next| next.run.status),
            if is_admitted { Ok(to) } else { Err(TransitionRefusal::Moved) }
        );
    }
}

#[test]
fn every_epoch_but_the_current_one_is_fenced() {
    let turns = turns(Some(RunStatus::Running));
    for epoch in [0, EPOCH - 1, EPOCH + 1, u64::MAX] {
        assert_eq!(fence(&turns, epoch), Err(TransitionRefusal::Fenced));
        for status in statuses() {
            let late = Transition::Finish { epoch, to: RunStatus::Done };
            let answer = transition(&turns, status.map(run).as_ref(), &late);
            assert_eq!(answer.unwrap_err(), TransitionRefusal::Fenced, "{}", name(status));
        }
    }
    assert_eq!(fence(&turns, EPOCH), Ok(()));
}

#[test]
fn a_run_is_taken_over_only_from_its_current_owner() {
    for status in [RunStatus::Queued, RunStatus::Running] {
        let next = apply(Some(status), &take_over("me")).unwrap();
        assert_eq!((next.run.owner, next.run.status, next.run.ticket), ("other", status, run(status).ticket));
        assert_eq!(apply(Some(status), &take_over("another")).unwrap_err(), TransitionRefusal::Moved);
    }
}

#[test]
fn status_names_round_trip() {
    for status in RunStatus::ALL {
        assert_eq!(RunStatus::parse(status.as_str()), Some(status));
    }
    assert_eq!(RunStatus::parse("Queued"), None);
}

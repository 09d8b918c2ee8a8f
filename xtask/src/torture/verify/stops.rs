//! A run whose server was stopped is finished by another server, once: it keeps the partial answer, settles a call that is not
//! idempotent without executing it again, and nothing that the stopped server tries to store afterwards has any effect.

use super::super::{
    failover::StopPoint,
    journal::{Record, Stop, text},
    stored_state::{StoredRun, StoredSession, StoredState},
};
use crate::harness::script::{HELD_ACT, Kind};
use serde_json::Value;

/// How the result of a call begins that may or may not have taken effect.
const OUTCOME_UNKNOWN: &str = "interrupted, outcome unknown";

pub(super) fn check(record: &Record, stored_state: &StoredState) -> Vec<String> {
    let mut violations: Vec<String> =
        stored_state.sessions.values().flat_map(|session| executed(record, session)).collect();
    for stop in &record.stops {
        let session = stored_state.sessions.get(&stop.session);
        let run = session.and_then(|session| session.runs.iter().find(|run| run.id == stop.run));
        let (Some(session), Some(run)) = (session, run) else {
            violations.push(format!("{} is lost", named(stop)));
            continue;
        };
        violations.extend(late_commits(stop, session));
        violations.extend(answers(stop, run));
        violations.extend(match stop.point {
            StopPoint::Streaming => partial_answer(stop, run),
            StopPoint::IdempotentCall => repeated_call(record, stop, run),
            StopPoint::OnceCall => settled_call(record, stop, run),
            StopPoint::FirstByte => None,
        });
    }
    violations
}

fn named(stop: &Stop) -> String {
    let Stop { point, session, run, .. } = stop;
    format!("run {run} of {session}, stopped at {}", point.name())
}

/// No call of the tool that is not idempotent was executed twice, whether its server was stopped or not.
fn executed(record: &Record, session: &StoredSession) -> Vec<String> {
    let calls = parts(&session.events, "functionCall").filter(|call| call["name"] == HELD_ACT);
    let calls = calls.filter_map(|call| call["id"].as_str());
    let violation = |call: &str| {
        let number = executions(record, call);
        (number > 1).then(|| format!("call {call} of {HELD_ACT} was executed {number} times"))
    };
    calls.filter_map(violation).collect()
}

fn executions(record: &Record, call: &str) -> usize {
    record.executions.iter().filter(|id| *id == call).count()
}

/// The log has not changed since before the server continued.
fn late_commits(stop: &Stop, session: &StoredSession) -> Option<String> {
    let before = stop.events.as_ref()?;
    (*before != session.events).then(|| {
        let (before, after) = (before.len(), session.events.len());
        format!(
            "{}: its log had {before} events before its server continued, and has {after} others now",
            named(stop)
        )
    })
}

/// One event ends the run, whichever server stored it.
fn answers(stop: &Stop, run: &StoredRun) -> Option<String> {
    let is_answer = |event: &&Value| {
        let event = std::slice::from_ref(*event);
        event[0]["interrupted"] != true
            && parts(event, "functionCall").chain(parts(event, "functionResponse")).next().is_none()
    };
    let number = run.events.iter().filter(is_answer).count();
    (number != 1).then(|| format!("{} is answered {number} times", named(stop)))
}

/// The text that was shown before the stop is the first event. How much of it must be there is the rule of `shown`.
fn partial_answer(stop: &Stop, run: &StoredRun) -> Option<String> {
    let is_kept = run.events.first().is_some_and(|event| {
        let text = text(event);
        event["interrupted"] == true && !text.is_empty() && Kind::Story.answer(&stop.token).starts_with(&text)
    });
    (!is_kept).then(|| {
        let first: Option<String> = run.events.first().map(|event| text(event).chars().take(80).collect());
        format!("{} does not begin with its interrupted answer, but with {first:?}", named(stop))
    })
}

/// The result and the number of executions of the only call of a run.
fn call<'a>(record: &Record, run: &'a StoredRun) -> Option<(&'a Value, usize)> {
    let mut calls = parts(&run.events, "functionCall").filter_map(|call| call["id"].as_str());
    let (Some(call), None) = (calls.next(), calls.next()) else { return None };
    let result = parts(&run.events, "functionResponse").find(|result| result["id"] == call)?;
    Some((&result["response"], executions(record, call)))
}

/// An idempotent call is executed again, and has the result of that execution.
fn repeated_call(record: &Record, stop: &Stop, run: &StoredRun) -> Option<String> {
    let call = call(record, run);
    let is_repeated = call.is_some_and(|(result, number)| result["error"].is_null() && number > 1);
    (!is_repeated).then(|| {
        format!("{}: the idempotent call was not repeated; result and executions are {call:?}", named(stop))
    })
}

/// A call that is not idempotent is settled without a second execution.
fn settled_call(record: &Record, stop: &Stop, run: &StoredRun) -> Option<String> {
    let call = call(record, run);
    let is_unknown =
        |result: &Value| result["error"].as_str().is_some_and(|error| error.starts_with(OUTCOME_UNKNOWN));
    let is_settled = call.is_some_and(|(result, number)| is_unknown(result) && number == 1);
    (!is_settled).then(|| {
        format!("{}: the call is not settled as unknown; result and executions are {call:?}", named(stop))
    })
}

/// All calls, or all results.
fn parts<'a>(events: &'a [Value], part: &str) -> impl Iterator<Item = &'a Value> {
    let parts = events.iter().flat_map(|event| event["content"]["parts"].as_array().into_iter().flatten());
    parts.map(move |value| &value[part]).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::journal::{Moment, ServerName};
    use serde_json::json;

    fn event(id: &str, part: &Value) -> Value {
        json!({"id": id, "author": "lango", "content": {"parts": [part]}})
    }

    fn interrupted(text: &str) -> Value {
        json!({"id": "i", "interrupted": true, "content": {"parts": [{"text": text}]}})
    }

    fn called(name: &str, response: &Value) -> [Value; 2] {
        let result = json!({"functionResponse": {"id": "c1", "name": name, "response": response}});
        [event("c", &json!({"functionCall": {"id": "c1", "name": name}})), event("r", &result)]
    }

    fn unknown() -> Value {
        json!({"error": format!("{OUTCOME_UNKNOWN}: it was cut off")})
    }

    /// The violations of a run with these events, an answer, and so many executions of its call.
    fn violations(stop_point: StopPoint, events: &[Value], executions: usize) -> Vec<String> {
        let (record, stored_state) = stopped(stop_point, events, executions);
        check(&record, &stored_state)
    }

    fn stopped(stop_point: StopPoint, events: &[Value], executions: usize) -> (Record, StoredState) {
        let mut events = events.to_vec();
        events.push(event("a", &json!({"text": "and so on"})));
        let stop = Stop {
            point: stop_point,
            session: "s".to_owned(),
            token: "t".to_owned(),
            run: "r".to_owned(),
            server: ServerName { slot: 0, spawn: 1 },
            at: Moment::ZERO,
            events: Some(events.clone()),
        };
        let run =
            StoredRun { id: "r".to_owned(), status: "done".to_owned(), error: None, events: events.clone() };
        let mut stored_state = StoredState::default();
        stored_state.sessions.insert("s".to_owned(), StoredSession { events, runs: vec![run] });
        let record =
            Record { stops: vec![stop], executions: vec!["c1".to_owned(); executions], ..Record::default() };
        (record, stored_state)
    }

    #[track_caller]
    fn one(violations: &[String], wanted: &str) {
        assert!(matches!(violations, [only] if only.contains(wanted)), "{wanted:?} is not {violations:#?}");
    }

    #[test]
    fn run_finished_by_another_server_has_no_violation() {
        let none = Vec::<String>::new();
        assert_eq!(violations(StopPoint::Streaming, &[interrupted("telling story t w0")], 0), none);
        assert_eq!(violations(StopPoint::FirstByte, &[], 0), none);
        let repeated = called("held_look", &json!({"output": "released"}));
        assert_eq!(violations(StopPoint::IdempotentCall, &repeated, 2), none);
        assert_eq!(violations(StopPoint::OnceCall, &called(HELD_ACT, &unknown()), 1), none);
    }

    #[test]
    fn run_must_begin_with_its_partial_answer() {
        let streaming = |events: &[Value]| violations(StopPoint::Streaming, events, 0);
        let wanted = "does not begin with its interrupted answer";
        one(&streaming(&[]), wanted);
        one(&streaming(&[interrupted("")]), wanted);
        one(&streaming(&[interrupted("telling story of something else")]), wanted);
    }

    #[test]
    fn call_that_is_not_idempotent_must_be_executed_once_with_unknown_outcome() {
        let call = |response: &Value, executions| {
            violations(StopPoint::OnceCall, &called(HELD_ACT, response), executions)
        };
        let twice = call(&unknown(), 2);
        assert!(twice.iter().any(|violation| violation == "call c1 of held_act was executed 2 times"));
        assert!(twice.iter().any(|violation| violation.contains("is not settled")));
        one(&call(&json!({"output": "released"}), 1), "is not settled");
        one(&call(&unknown(), 0), "is not settled");
        one(&violations(StopPoint::OnceCall, &[], 1), "is not settled");
    }

    #[test]
    fn idempotent_call_must_be_repeated() {
        let call = |response: &Value, executions| {
            violations(StopPoint::IdempotentCall, &called("held_look", response), executions)
        };
        one(&call(&json!({"output": "released"}), 1), "was not repeated");
        one(&call(&unknown(), 2), "was not repeated");
    }

    #[test]
    fn repeated_call_without_a_stop_is_a_violation() {
        let (mut record, stored_state) = stopped(StopPoint::OnceCall, &called(HELD_ACT, &unknown()), 2);
        record.stops.clear();
        one(&check(&record, &stored_state), "was executed 2 times");
    }

    #[test]
    fn event_stored_after_the_server_continued_is_a_violation() {
        let (record, mut stored_state) = stopped(StopPoint::FirstByte, &[], 0);
        let session = stored_state.sessions.get_mut("s").unwrap();
        session.events.push(event("late", &json!({"text": "waited silence t"})));
        one(
            &check(&record, &stored_state),
            "its log had 1 events before its server continued, and has 2 others now",
        );
        let session = stored_state.sessions.get_mut("s").unwrap();
        session.runs[0].events = session.events.clone();
        assert!(
            check(&record, &stored_state).iter().any(|violation| violation.contains("is answered 2 times"))
        );
        stored_state.sessions.get_mut("s").unwrap().runs.clear();
        one(&check(&record, &stored_state), "run r of s, stopped at first-byte is lost");
    }
}

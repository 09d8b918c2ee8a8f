//! As a session grows, each request is a prefix of the next one, so that the provider's prompt cache applies.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]

#[path = "generate/runs.rs"]
mod runs;
#[path = "generate/view.rs"]
mod view;

use bridge::{Budget, store::row::save, view::history};
use proptest::prelude::*;
use provider::ModelRequest;
use runs::GeneratedRun;
use serde_json::Value;
use session::{Seq, StoredMessage};
use testkit::property::{CaseTally, check};

/// The requests of a run, in order.
fn requests(run: &GeneratedRun) -> Vec<ModelRequest> {
    let rows: Vec<StoredMessage> = run
        .events
        .iter()
        .map(|event| StoredMessage { seq: Seq::START, message: save(event).unwrap() })
        .collect();
    run.asked.iter().map(|&length| view::request(&rows[..length], Budget::default(), false)).collect()
}

#[test]
fn request_starts_with_the_previous_request() {
    let tally = CaseTally::default();
    check(1_400, &runs::run(), |run| {
        run.count_properties(&tally);
        for (pair, asked) in requests(&run).windows(2).zip(run.asked.windows(2)) {
            let (before, after) = (&pair[0], &pair[1]);
            let grew = run.grew(asked[0], asked[1]);
            prop_assert_eq!(after.messages.len() > before.messages.len(), grew);
            prop_assert!(after.messages.starts_with(&before.messages), "{before:#?}\nand then {after:#?}");
            for ((api, before, list), (_, after, _)) in
                view::encodings(before).into_iter().zip(view::encodings(after))
            {
                let (before, after) = (unmarked(before), unmarked(after));
                let (old, new) = (before[list].as_array().unwrap(), after[list].as_array().unwrap());
                prop_assert!(new.starts_with(old), "{api:?}: {before:#}\nand then {after:#}");
            }
        }
        Ok(())
    });
    tally.assert_covered();
}

/// Removes cache markers.
fn unmarked(mut body: Value) -> Value {
    match &mut body {
        Value::Object(map) => {
            map.shift_remove("cache_control");
            map.values_mut().for_each(|value| *value = unmarked(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = unmarked(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    body
}

#[test]
fn runner_events_need_no_repair() {
    check(2_000, &runs::run(), |run| {
        for request in requests(&run) {
            let conversation = &request.messages[1..];
            prop_assert_eq!(history::repair(conversation.to_vec()), conversation);
            let text = format!("{conversation:?}");
            prop_assert!(!text.contains("outcome unknown") && !text.contains("[Earlier"), "{text}");
        }
        Ok(())
    });
}

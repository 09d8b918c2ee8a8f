//! Any event survives a round trip through a row, in every store.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]

#[path = "generate/events.rs"]
mod events;
#[path = "generate/json.rs"]
mod json;

use adk::{
    content::Data,
    event::Event,
    session::{SessionKey, SessionService},
    state::without_temp,
};
use bridge::{
    Budget, SessionServiceAdapter,
    store::row::{Restorer, save},
};
use proptest::prelude::*;
use session::{PageRequest, Seq, Store, StoredMessage, memory::MemoryStore, sqlite::SqliteStore};
use std::sync::Arc;
use testkit::property::{CaseTally, check};

/// Equal in every field, including the order of keys.
fn assert_same(found: &Event, expected: &Event) -> Result<(), TestCaseError> {
    prop_assert_eq!(found, expected);
    prop_assert_eq!(serde_json::to_string(found).unwrap(), serde_json::to_string(expected).unwrap());
    Ok(())
}

/// The rows of a log with the sequence numbers of a store.
fn stored(events: &[Event]) -> Vec<StoredMessage> {
    let mut seq = Seq::START;
    let mut number = |event: &Event| {
        seq = seq.next();
        StoredMessage { seq, message: save(event).unwrap() }
    };
    events.iter().map(&mut number).collect()
}

fn count_properties(tally: &CaseTally, events: &[Event]) {
    let parts =
        || events.iter().filter_map(|event| event.content.as_ref()).flat_map(|content| &content.parts);
    tally.count("calls", parts().any(|part| part.call().is_some()));
    tally.count("answers", parts().any(|part| part.response().is_some()));
    tally.count("files", parts().any(|part| matches!(part.data, Data::InlineData(_) | Data::FileData(_))));
    tally.count("signed thoughts", parts().any(|part| part.is_thought() && part.thought_signature.is_some()));
    tally.count(
        "unknown parts",
        parts().any(|part| matches!(part.data, Data::Unknown) && !part.extra.is_empty()),
    );
    tally.count("events without content", events.iter().any(|event| event.content.is_none()));
    tally.count("errors", events.iter().any(|event| event.error_code.is_some()));
}

#[test]
fn event_round_trips_through_a_row() {
    let tally = CaseTally::default();
    check(4_000, &events::log(), |events| {
        count_properties(&tally, &events);
        let mut restorer = Restorer::new("root");
        for (event, row) in events.iter().zip(stored(&events)) {
            assert_same(&restorer.restore(&row), event)?;
        }
        Ok(())
    });
    tally.assert_covered();
}

#[test]
fn row_restores_alike_wherever_the_reader_starts() {
    check(500, &events::log(), |events| {
        for (event, row) in events.iter().zip(stored(&events)) {
            assert_same(&Restorer::new("root").restore(&row), event)?;
        }
        Ok(())
    });
}

/// Each case has its own session.
fn through(store: &Arc<dyn Store>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = SessionServiceAdapter::new(Arc::clone(store), "root", Budget::default());
    check(cases, &events::log(), |events| runtime.block_on(round_trip(&service, events)));
}

async fn round_trip(service: &SessionServiceAdapter, events: Vec<Event>) -> Result<(), TestCaseError> {
    let key = SessionKey::new("app", "user", adk::event::mint_id());
    let mut session = service.create(key.clone(), serde_json::Map::new()).await.unwrap();
    let mut expected = Vec::new();
    for mut event in events {
        event.actions.state_delta = without_temp(&event.actions.state_delta);
        let shown = service.append(&mut session, event.clone()).await.unwrap();
        assert_same(&shown, &event)?;
        expected.extend((!event.is_state_only()).then_some(event));
    }
    let key = key.clone();
    let page = PageRequest { after: Seq::START, limit: 100, max_bytes: usize::MAX };
    let rows = service.store().read(&key, page).await.unwrap();
    prop_assert_eq!(rows.len(), expected.len());
    let mut restorer = Restorer::new("root");
    for (row, event) in rows.iter().zip(&expected) {
        assert_same(&restorer.restore(row), event)?;
    }
    Ok(())
}

#[test]
fn event_round_trips_through_the_memory_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    through(&store, 400);
}

#[test]
fn event_round_trips_through_the_sqlite_store() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(
        SqliteStore::open(folder.path().join("log.db"), session::sqlite::Options::default()).unwrap(),
    );
    through(&store, 200);
}

/// The non-empty texts of an event.
fn texts(event: &Event) -> Vec<&str> {
    let parts = event.content.iter().flat_map(|content| &content.parts);
    parts.filter_map(adk::content::Part::as_text).filter(|text| !text.trim().is_empty()).collect()
}

#[test]
fn row_with_damaged_or_mismatched_meta_loses_no_text() {
    let damage =
        prop::sample::select(vec!["not json", "{\"layout\":[{\"t\":99999}]}", "{\"layout\":7}", "[]", ""]);
    check(1_000, &(events::log(), damage), |(events, damage)| {
        let mut restorer = Restorer::new("root");
        for (event, mut row) in events.iter().zip(stored(&events)) {
            row.message.meta = Some(damage.to_owned());
            let restored = restorer.restore(&row);
            let all = serde_json::to_string(&restored.content).unwrap();
            for text in texts(event) {
                let quoted = serde_json::to_string(text).unwrap();
                let whole = texts(&restored).iter().any(|found| found.contains(text));
                prop_assert!(whole || all.contains(quoted.trim_matches('"')), "{text:?} is not in {all}");
            }
        }
        Ok(())
    });
}

//! The state of the store for the checks: rows without ids, runs, the draft.

use crate::report::{Line, LogRow, RunRow};
use adk::{
    content::{Data, Part},
    event::Event,
};
use bridge::store::row::Restorer;
use session::{PageRequest, RunRecord, Seq, SessionKey, Store, StoredMessage, TailBudget};
use std::collections::HashMap;

pub(crate) const ALL: PageRequest = PageRequest { after: Seq::START, limit: 10_000, max_bytes: usize::MAX };

pub(crate) async fn runs(store: &dyn Store, key: &SessionKey) -> Vec<RunRecord> {
    let mut runs = store.runs(key, 1_000).await.unwrap();
    runs.reverse();
    runs
}

pub(crate) async fn events(store: &dyn Store, key: &SessionKey) -> Vec<Event> {
    let rows = store.read(key, ALL).await.unwrap();
    let mut restorer = Restorer::new("root");
    rows.iter().map(|row| restorer.restore(row)).collect()
}

pub(crate) async fn rows(store: &dyn Store, key: &SessionKey) -> Vec<LogRow> {
    let mut owners: HashMap<String, String> = HashMap::new();
    for run in runs(store, key).await {
        let own = store.read_run(key, run.number, ALL).await.unwrap();
        owners.extend(own.into_iter().map(|StoredMessage { message, .. }| (message.id, run.id.clone())));
    }
    events(store, key).await.iter().map(|event| row(event, owners.get(&event.id).cloned())).collect()
}

fn row(event: &Event, run: Option<String>) -> LogRow {
    let parts = event.content.iter().flat_map(|content| &content.parts).map(part);
    let parts: Vec<String> = parts.chain(event.error_code.iter().map(|code| format!("!{code}"))).collect();
    LogRow {
        run,
        event: event.id.clone(),
        shape: format!("{}: {}", event.author, parts.join(" ")),
        text: text(event),
        is_users: event.is_from_user(),
        interrupted: event.interrupted == Some(true),
    }
}

pub(crate) fn text(event: &Event) -> String {
    let parts = event.content.iter().flat_map(|content| &content.parts);
    parts.filter_map(Part::as_text).collect()
}

fn part(part: &Part) -> String {
    match &part.data {
        Data::Text(text) => text.to_string(),
        Data::FunctionCall(call) => format!("→{}", call.name),
        Data::FunctionResponse(response) => format!("←{}", response.name),
        Data::InlineData(_) | Data::FileData(_) | Data::Unknown => "[?]".to_owned(),
    }
}

/// The text of the draft.
async fn draft(store: &dyn Store, key: &SessionKey) -> Option<String> {
    let snapshot = store.load(key, TailBudget::NONE).await.unwrap()?;
    Some(text(&bridge::restore_draft(&snapshot.draft?)?))
}

pub(crate) async fn found(store: &dyn Store, key: &SessionKey) -> Line {
    Line::Found { rows: rows(store, key).await, draft: draft(store, key).await }
}

pub(crate) async fn last(store: &dyn Store, key: &SessionKey) -> Line {
    let view =
        |run: RunRecord| RunRow { id: run.id, status: run.status.as_str().to_owned(), error: run.error };
    let runs = runs(store, key).await.into_iter().map(view).collect();
    Line::Final { rows: rows(store, key).await, runs, draft: draft(store, key).await }
}

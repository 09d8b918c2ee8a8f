//! Recipes of model calls: stored with the answer, and read again to rebuild the request from the log.
//!
//! A recipe names the rows that were loaded, and refers to long texts (settings with the system instruction, tool
//! declarations, the user request) by their hash: the store keeps each text once.

use crate::{
    digest::sha256_hex,
    store::{events::EventsAdapter, row::Restorer, session::SessionAdapter, session_handle::SessionHandle},
};
use adk::{
    agent::IncludeContents,
    error::ServiceError,
    event::Event,
    model::SpentTokens,
    pending::PendingCall,
    recipe::{CallRecipe, SentRequest},
};
use serde::{Deserialize, Serialize};
use session::{NewRecipe, PageRequest, RecipeText, Seq, StoredRecipe};
use std::{collections::HashMap, sync::Arc};

/// The version of the view: how events become a request. A change of the view that changes requests increments it, so
/// that a difference to an older recipe can be explained.
const VIEW_VERSION: u32 = 4;
/// How many hashes of stored texts a session remembers.
const KNOWN_TEXTS: usize = 8;
/// Rows per read.
const PAGE: usize = 500;

/// A recipe as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecipeJson {
    view: u32,
    agent: String,
    #[serde(default)]
    include: IncludeContents,
    /// The author of rows without an author.
    root: String,
    /// The first row that the request shows, and the last one; `first` is missing in an empty session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    last: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deferred: Vec<PendingCall>,
    #[serde(rename = "task", default, skip_serializing_if = "Option::is_none")]
    user_request: Option<String>,
    config: String,
    tools: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent: Option<SentRequest>,
    /// The usage of attempts that brought no answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spent: Vec<SpentTokens>,
}

/// The recipe of the event with this id, which is appended to the session.
pub(super) fn to_row(
    session: &SessionAdapter,
    event: &str,
    recipe: CallRecipe,
) -> serde_json::Result<NewRecipe> {
    let CallRecipe { agent, include, first, advanced: _, deferred, user_request, config, tools, sent, spent } =
        recipe;
    let mut texts = Vec::new();
    let mut hashed = |content: String| {
        let hash = sha256_hex(content.as_bytes());
        if !session.known_texts.contains(&hash) {
            texts.push(RecipeText { hash: hash.clone(), content });
        }
        hash
    };
    let json = RecipeJson {
        view: VIEW_VERSION,
        agent,
        include,
        root: session.events.root_agent().to_owned(),
        first,
        last: session.last_seq.0,
        deferred,
        user_request: user_request.map(|user_request| hashed(user_request.to_string())),
        config: hashed(config),
        tools: hashed(tools),
        sent,
        spent,
    };
    Ok(NewRecipe { message: event.to_owned(), recipe: serde_json::to_string(&json)?, texts })
}

/// Remembers the texts of a stored recipe, so that the next one need not contain them.
pub(super) fn remember_texts(known: &mut Vec<String>, stored: Vec<String>) {
    known.extend(stored);
    let excess = known.len().saturating_sub(KNOWN_TEXTS);
    known.drain(..excess);
}

/// A model call as its recipe describes it.
#[derive(Debug)]
pub(crate) struct RecordedCall {
    pub(crate) answer: Event,
    pub(crate) recipe: CallRecipe,
    /// The events that the request showed.
    pub(crate) events: Vec<Arc<Event>>,
    /// Whether this version of the view built the request.
    pub(crate) same_view: bool,
}

/// Reads what a recipe refers to. `None` if the recipe cannot be read, or one of its texts is missing.
pub(crate) async fn read_call(
    session: &SessionHandle<'_>,
    stored: StoredRecipe,
) -> Result<Option<RecordedCall>, ServiceError> {
    let Ok(json) = serde_json::from_str::<RecipeJson>(&stored.recipe) else { return Ok(None) };
    let hashes = [&json.config, &json.tools].into_iter().chain(&json.user_request).cloned().collect();
    let texts = session.recipe_texts(hashes).await?;
    let mut texts: HashMap<String, String> =
        texts.into_iter().map(|text| (text.hash, text.content)).collect();
    let user_request = json
        .user_request
        .as_ref()
        .and_then(|hash| texts.get(hash))
        .map(|user_request| user_request.as_str().into());
    let (config, tools) = (texts.get(&json.config).cloned(), texts.remove(&json.tools));
    let (Some(config), Some(tools)) = (config, tools) else { return Ok(None) };
    if json.user_request.is_some() && user_request.is_none() {
        return Ok(None);
    }
    let after = Seq(stored.seq.0.saturating_sub(1));
    let row = session.read(PageRequest { after, limit: 1, max_bytes: usize::MAX }).await?.pop();
    let Some(row) = row.filter(|row| row.seq == stored.seq) else { return Ok(None) };
    let answer = Restorer::new(&json.root).restore(&row);
    let events = read_events(session, &json).await?;
    let RecipeJson { view, agent, include, first: json_first, deferred, sent, spent, .. } = json;
    let (first, advanced) = (json_first, None);
    let recipe =
        CallRecipe { agent, include, first, advanced, deferred, user_request, config, tools, sent, spent };
    Ok(Some(RecordedCall { answer, recipe, events, same_view: view == VIEW_VERSION }))
}

async fn read_events(
    session: &SessionHandle<'_>,
    json: &RecipeJson,
) -> Result<Vec<Arc<Event>>, ServiceError> {
    let Some(first) = json.first else { return Ok(Vec::new()) };
    // The row before the first may hold calls that the first ones answer by position.
    let mut after = Seq(first.saturating_sub(2));
    let mut rows = Vec::new();
    loop {
        let page = session.read(PageRequest { after, limit: PAGE, max_bytes: usize::MAX }).await?;
        let is_last = page.last().is_none_or(|row| row.seq.0 >= json.last);
        after = page.last().map_or(after, |row| row.seq);
        rows.extend(page.into_iter().filter(|row| row.seq.0 <= json.last));
        if is_last {
            break;
        }
    }
    Ok(EventsAdapter::restored(&json.root, &rows, Seq(first)).all().to_vec())
}

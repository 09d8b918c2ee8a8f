//! Search in memory: every call reads all messages of the user, so there is no index to maintain.

use super::{MemoryStore, state::MemoryState};
use crate::{
    Pending, SearchHit, SearchQuery, SearchResults, Seq, SessionKey, StoredMessage,
    search::{
        IndexProgress, SessionSearch,
        document::{self, Document},
        rank::{self, RankKey},
        resolve::resolved,
        segment::{QueryTerm, query_terms},
        snippet,
    },
};
use std::{collections::BTreeMap, convert::Infallible, future};

impl SessionSearch for MemoryStore {
    fn search(&self, query: SearchQuery) -> Pending<'_, SearchResults> {
        self.call(move |state| Ok(SearchResults { hits: state.search(&query), is_complete: true }))
    }

    fn add_to_memory(&self, key: &SessionKey) -> Pending<'_, ()> {
        let key = key.clone();
        self.call(move |state| {
            let session = state.session_mut(&key)?;
            session.remembered = Some(session.row.last_seq);
            Ok(())
        })
    }

    fn index_next(&self) -> Pending<'_, IndexProgress> {
        self.call(|_| Ok(IndexProgress::Complete))
    }

    fn index_lags(&self) -> Pending<'_, ()> {
        Box::pin(future::pending())
    }

    fn check_index(&self) {}

    fn reset_index(&self) -> Pending<'_, ()> {
        self.call(|_| Ok(()))
    }
}

/// The documents of one app of the user.
#[derive(Default)]
struct ScopeDocuments<'a> {
    documents: Vec<(&'a SessionKey, &'a StoredMessage, Document)>,
}

impl MemoryState {
    fn search(&self, query: &SearchQuery) -> Vec<SearchHit> {
        let terms = query_terms(&query.text);
        // As in the index, the weight of a term depends on the documents of its app and user.
        let mut scopes: BTreeMap<&str, ScopeDocuments<'_>> = BTreeMap::new();
        let sessions = self.sessions().filter(|session| session.row.key.user_id == query.user);
        for session in sessions {
            let key = &session.row.key;
            if query.app.as_ref().is_some_and(|app| *app != key.app_name) {
                continue;
            }
            if query.in_memory && session.remembered.is_none() {
                continue;
            }
            let until = session.remembered.filter(|_| query.in_memory);
            let scope = scopes.entry(&key.app_name).or_default();
            for row in session
                .messages
                .iter()
                .map(|(_, row)| row)
                .filter(|row| until.is_none_or(|until| row.seq <= until))
            {
                let documents = document::documents(&row.message).into_iter();
                scope.documents.extend(documents.map(|document| (key, row, document)));
            }
        }
        let mut hits: Vec<(RankKey, SearchHit)> = Vec::new();
        for scope in scopes.values() {
            hits.extend(scope.hits(query, &terms));
        }
        rank::sort(&mut hits, |(key, _)| *key);
        let mut seen = std::collections::HashSet::new();
        hits.retain(|(_, hit)| seen.insert((hit.key.clone(), hit.seq)));
        hits.into_iter().take(query.limit).map(|(_, hit)| hit).collect()
    }
}

fn has(document: &Document, term: &str, is_prefix: bool) -> bool {
    let mut words = document.terms.split(' ');
    if is_prefix { words.any(|word| word.starts_with(term)) } else { words.any(|word| word == term) }
}

impl ScopeDocuments<'_> {
    /// The indices of the documents with a term; `None` if there are none.
    fn matching(&self, term: &QueryTerm) -> Option<Vec<usize>> {
        let documents = self.documents.iter().enumerate();
        let matching: Vec<usize> = documents
            .filter(|(_, (_, _, document))| has(document, &term.text, term.is_prefix))
            .map(|(index, _)| index)
            .collect();
        (!matching.is_empty()).then_some(matching)
    }

    fn hits(&self, query: &SearchQuery, terms: &[QueryTerm]) -> Vec<(RankKey, SearchHit)> {
        let all = self.documents.len() as u64;
        let lens: u64 = self.documents.iter().map(|(_, _, document)| document.len as u64).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts of terms are far below 2^52")]
        let average = lens as f64 / all.max(1) as f64;
        let Ok(found) = resolved(terms, |term| Ok::<_, Infallible>(self.matching(term)));
        let mut weights = vec![0.0; self.documents.len()];
        for (_, documents) in &found {
            let weight = rank::weight(all, documents.len() as u64);
            for index in documents {
                weights[*index] += weight;
            }
        }
        let terms: Vec<QueryTerm> = found.into_iter().map(|(term, _)| term).collect();
        let is_admitted = |key: &SessionKey, seq: Seq| {
            query.session.as_ref().is_none_or(|id| *id == key.session_id)
                && query.until.as_ref().is_none_or(|(own, until)| own != key || seq <= *until)
        };
        let found = self.documents.iter().zip(weights).enumerate();
        let found = found.filter(|(_, ((key, row, _), weight))| *weight > 0.0 && is_admitted(key, row.seq));
        found
            .map(|(number, ((key, row, document), weight))| {
                let message = &row.message;
                let text = document::part_text(message, document.part);
                let score = rank::score(weight, document.len as u64, average);
                let score = rank::with_nearness(score, snippet::nearness(&text, &terms));
                let rank = RankKey { score, timestamp: message.timestamp, number: number as u64 };
                let hit = SearchHit {
                    key: (*key).clone(),
                    seq: row.seq,
                    timestamp: message.timestamp,
                    role: message.role.clone(),
                    author: message.author.clone(),
                    snippet: snippet::snippet(&text, &terms),
                    score,
                };
                (rank, hit)
            })
            .collect()
    }
}

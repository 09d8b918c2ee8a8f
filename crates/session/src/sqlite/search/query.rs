//! Finds the documents that share terms with a query, and scores them.
//!
//! The cost is bounded for any number of documents: a frequent term is read to a limit, newest documents first, and then only
//! adds to the score of documents with a rare term.

use super::super::{fault::JobResult, log};
use crate::{
    Seq, SessionKey,
    search::{
        SearchHit, SearchQuery, document,
        rank::{self, RankKey},
        resolve::resolved,
        segment::{QueryTerm, query_terms},
        snippet,
    },
};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{HashMap, HashSet};

/// The maximum number of terms of a query.
const MAX_TERMS: usize = 24;
/// A term in more documents than this is frequent.
const FREQUENT: usize = 2000;
/// The documents of frequent terms are counted only if there are at most this many candidates.
const MAX_CANDIDATES: usize = 20_000;
/// How many of the documents with the highest weights are scored with their length.
const SCORED: usize = 3000;
/// How many of the best documents are read, and the size of their messages.
const POOL: usize = 250;
const POOL_BYTES: usize = 4 * 1024 * 1024;

/// The documents of one app and user.
#[derive(Clone, Copy, Debug)]
struct SearchScope {
    scope: i64,
    documents: u64,
    terms: u64,
    /// The numbers of the first and the last document that may be a hit.
    range: (i64, i64),
}

/// A term and the newest documents with it.
struct Postings {
    expression: String,
    documents: Vec<i64>,
    weight: f64,
    is_frequent: bool,
}

struct ScoredDocument {
    document: i64,
    weights: f64,
}

pub(super) fn search(conn: &Connection, query: &SearchQuery) -> JobResult<Vec<SearchHit>> {
    let mut terms = query_terms(&query.text);
    terms.truncate(MAX_TERMS);
    if terms.is_empty() || query.limit == 0 {
        return Ok(Vec::new());
    }
    let mut hits: Vec<(RankKey, SearchHit)> = Vec::new();
    let mut shown = terms.clone();
    for scope in scopes(conn, query)? {
        let found = resolved(&terms, |term| Postings::read(conn, scope, term))?;
        let (found, postings): (Vec<QueryTerm>, Vec<Postings>) = found.into_iter().unzip();
        let best = candidates(conn, scope, postings)?;
        hits.extend(read_hits(conn, (scope, query), &found, best)?);
        shown.extend(found);
    }
    rank::sort(&mut hits, |(key, _)| *key);
    let mut seen = HashSet::new();
    hits.retain(|(_, hit)| seen.insert((hit.key.clone(), hit.seq)));
    let hits = hits.into_iter().take(query.limit).map(|(_, hit)| hit);
    Ok(hits.map(|hit| SearchHit { snippet: snippet::snippet(&hit.snippet, &shown), ..hit }).collect())
}

fn scopes(conn: &Connection, query: &SearchQuery) -> rusqlite::Result<Vec<SearchScope>> {
    let sql = "SELECT scope, last, terms, app_name FROM search_scopes
               WHERE user_id = ?1 AND (?2 IS NULL OR app_name = ?2)";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query((&query.user, &query.app))?;
    let mut scopes = Vec::new();
    while let Some(row) = rows.next()? {
        let scope: i64 = row.get(0)?;
        let mut range = Some((scope << 32, (scope << 32) | 0xffff_ffff));
        if let Some(session) = &query.session {
            range = session_range(conn, &[&row.get::<_, String>(3)?, &query.user, session])?;
        }
        let Some(range) = range else { continue };
        scopes.push(SearchScope { scope, documents: row.get(1)?, terms: row.get(2)?, range });
    }
    Ok(scopes)
}

/// The first and the last document of a session. Documents of other sessions may be between them.
fn session_range(conn: &Connection, key: &[&str; 3]) -> rusqlite::Result<Option<(i64, i64)>> {
    let sql = "SELECT MIN(document), MAX(document) FROM search_documents WHERE session_key =
                   (SELECT session_key FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3)";
    conn.prepare_cached(sql)?.query_row(key, |row| {
        let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(first.zip(last))
    })
}

/// The documents with the highest sums of term weights.
fn candidates(
    conn: &Connection,
    scope: SearchScope,
    mut postings: Vec<Postings>,
) -> rusqlite::Result<Vec<ScoredDocument>> {
    if postings.is_empty() {
        return Ok(Vec::new());
    }
    postings.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    let (frequent, rare): (Vec<&Postings>, Vec<&Postings>) =
        postings.iter().partition(|postings| postings.is_frequent);
    let mut weights: HashMap<i64, f64> = HashMap::new();
    for list in if rare.is_empty() { &frequent } else { &rare } {
        list.documents.iter().for_each(|document| *weights.entry(*document).or_default() += list.weight);
    }
    if rare.is_empty() {
        add_conjunction(conn, scope, &frequent, &mut weights)?;
    } else if weights.len() <= MAX_CANDIDATES {
        let any = rare.iter().map(|list| list.expression.as_str()).collect::<Vec<_>>().join(" OR ");
        for list in &frequent {
            let both = format!("({any}) AND {}", list.expression);
            for document in documents(conn, scope, &both, MAX_CANDIDATES)? {
                *weights.entry(document).or_default() += list.weight;
            }
        }
    }
    let mut best: Vec<ScoredDocument> =
        weights.into_iter().map(|(document, weights)| ScoredDocument { document, weights }).collect();
    best.sort_by(|one, other| {
        other.weights.total_cmp(&one.weights).then_with(|| other.document.cmp(&one.document))
    });
    Ok(best)
}

/// All terms are frequent: documents with all of them may be older than those that were read.
fn add_conjunction(
    conn: &Connection,
    scope: SearchScope,
    frequent: &[&Postings],
    weights: &mut HashMap<i64, f64>,
) -> rusqlite::Result<()> {
    let all = frequent.iter().map(|list| list.expression.as_str()).collect::<Vec<_>>().join(" AND ");
    let sum: f64 = frequent.iter().map(|list| list.weight).sum();
    for document in documents(conn, scope, &all, FREQUENT)? {
        weights.insert(document, sum);
    }
    Ok(())
}

impl Postings {
    /// `None` if no document has the term.
    fn read(conn: &Connection, scope: SearchScope, term: &QueryTerm) -> rusqlite::Result<Option<Self>> {
        let expression = format!("\"{}\"{}", term.text, if term.is_prefix { " *" } else { "" });
        let found = documents(conn, scope, &expression, FREQUENT + 1)?;
        let Some(oldest) = found.last().copied() else { return Ok(None) };
        let is_frequent = found.len() > FREQUENT;
        let mut with_term = found.len() as u64;
        if is_frequent {
            // Extrapolated from the range of the documents that were read.
            let newest = (scope.scope << 32) + i64::try_from(scope.documents).unwrap_or(i64::MAX >> 1);
            let range = u64::try_from(newest - oldest).unwrap_or(0).max(with_term);
            with_term = with_term * scope.documents / range;
        }
        let weight = rank::weight(scope.documents, with_term);
        Ok(Some(Self { expression, documents: found, weight, is_frequent }))
    }
}

/// The newest documents that match the expression.
fn documents(
    conn: &Connection,
    scope: SearchScope,
    expression: &str,
    limit: usize,
) -> rusqlite::Result<Vec<i64>> {
    let (first, last) = scope.range;
    conn.prepare_cached(
        "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid >= ?2 AND rowid <= ?3
         ORDER BY rowid DESC LIMIT ?4",
    )?
    .query_map((expression, first, last, limit), |row| row.get(0))?
    .collect()
}

/// A document of the index that the query admits.
struct AdmittedDocument {
    document: i64,
    session_key: i64,
    key: SessionKey,
    seq: u64,
    part: usize,
    score: f64,
}

/// Reads the messages of the best documents that the query admits.
fn read_hits(
    conn: &Connection,
    (scope, query): (SearchScope, &SearchQuery),
    terms: &[QueryTerm],
    best: Vec<ScoredDocument>,
) -> JobResult<Vec<(RankKey, SearchHit)>> {
    let mut bytes = 0;
    let mut hits = Vec::new();
    for found in admitted(conn, (scope, query), best)? {
        if bytes > POOL_BYTES {
            break;
        }
        let Some(row) = log::row(conn, found.session_key, found.seq)? else { continue };
        bytes += row.message.size();
        let text = document::part_text(&row.message, found.part);
        let message = row.message;
        let score = rank::with_nearness(found.score, snippet::nearness(&text, terms));
        let number = u64::try_from(found.document).unwrap_or(0);
        // The snippet is cut when the order is known.
        let hit = SearchHit {
            key: found.key,
            seq: Seq(found.seq),
            timestamp: message.timestamp,
            snippet: text,
            role: message.role,
            author: message.author,
            score,
        };
        hits.push((RankKey { score, timestamp: message.timestamp, number }, hit));
    }
    Ok(hits)
}

/// The documents with the highest scores among those with the highest weights.
fn admitted(
    conn: &Connection,
    (scope, query): (SearchScope, &SearchQuery),
    best: Vec<ScoredDocument>,
) -> rusqlite::Result<Vec<AdmittedDocument>> {
    #[expect(clippy::cast_precision_loss, reason = "counts of terms are far below 2^52")]
    let average = scope.terms as f64 / scope.documents.max(1) as f64;
    let mut filter = SessionFilter { query, sessions: HashMap::new() };
    let mut admitted = Vec::new();
    let mut find =
        conn.prepare_cached("SELECT session_key, seq, part, len FROM search_documents WHERE document = ?1")?;
    for ScoredDocument { document, weights } in best {
        if admitted.len() == SCORED {
            break;
        }
        let row = find.query_row((document,), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?, row.get::<_, usize>(2)?, row.get::<_, u64>(3)?))
        });
        let Some((session_key, seq, part, len)) = row.optional()? else { continue };
        if let Some(key) = filter.admit(conn, session_key, seq)? {
            let score = rank::score(weights, len, average);
            admitted.push(AdmittedDocument { document, session_key, key, seq, part, score });
        }
    }
    admitted.sort_by(|one, other| {
        other.score.total_cmp(&one.score).then_with(|| other.document.cmp(&one.document))
    });
    admitted.truncate(POOL);
    Ok(admitted)
}

/// Decides whether a document is a hit.
struct SessionFilter<'a> {
    query: &'a SearchQuery,
    /// By number: the key of the session and its last admitted row; `None` if the query excludes the session.
    sessions: HashMap<i64, Option<(SessionKey, u64)>>,
}

impl SessionFilter<'_> {
    /// The session of a row that may be a hit.
    fn admit(
        &mut self,
        conn: &Connection,
        session_key: i64,
        seq: u64,
    ) -> rusqlite::Result<Option<SessionKey>> {
        if !self.sessions.contains_key(&session_key) {
            let session = self.session(conn, session_key)?;
            self.sessions.insert(session_key, session);
        }
        let session = self.sessions.get(&session_key).and_then(Option::as_ref);
        Ok(session.filter(|(_, until)| seq <= *until).map(|(key, _)| key.clone()))
    }

    fn session(&self, conn: &Connection, session_key: i64) -> rusqlite::Result<Option<(SessionKey, u64)>> {
        let found = conn
            .prepare_cached(
                "SELECT app_name, user_id, session_id, until
                 FROM sessions LEFT JOIN memory_sessions USING (session_key) WHERE session_key = ?1",
            )?
            .query_row((session_key,), |row| {
                let key = SessionKey { app_name: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? };
                Ok((key, row.get::<_, Option<u64>>(3)?))
            })
            .optional()?;
        // The scope of a document implies its user and app; they are compared once more.
        let is_admitted = |key: &SessionKey| {
            key.user_id == self.query.user
                && self.query.app.as_ref().is_none_or(|app| *app == key.app_name)
                && self.query.session.as_ref().is_none_or(|id| *id == key.session_id)
        };
        let Some((key, remembered)) = found.filter(|(key, _)| is_admitted(key)) else { return Ok(None) };
        let Some(until) = remembered.or((!self.query.in_memory).then_some(u64::MAX)) else { return Ok(None) };
        let until = if self.query.in_memory { until } else { u64::MAX };
        let hidden = self.query.until.as_ref().filter(|(own, _)| *own == key).map(|(_, until)| until.0);
        Ok(Some((key, hidden.map_or(until, |hidden| hidden.min(until)))))
    }
}

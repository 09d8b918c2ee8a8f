//! Recipes: a column of the message, and the texts that recipes share.

use super::{fault::JobResult, sessions};
use crate::{RecipeQuery, RecipeText, SessionKey, StoredRecipe};
use rusqlite::{Connection, OptionalExtension, Row};

/// Stores the texts and the session's uses of them. Known ones cost no write.
pub(super) fn add_texts(conn: &Connection, session_key: i64, texts: &[RecipeText]) -> rusqlite::Result<()> {
    for RecipeText { hash, content } in texts {
        conn.prepare_cached(
            "INSERT INTO recipe_texts (hash, content) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute((hash, content))?;
        conn.prepare_cached(
            "INSERT INTO recipe_uses (session_key, hash) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute((session_key, hash))?;
    }
    Ok(())
}

pub(super) fn recipes(
    conn: &Connection,
    key: &SessionKey,
    query: &RecipeQuery,
) -> JobResult<Vec<StoredRecipe>> {
    let session_key = sessions::head(conn, key)?.session_key;
    let found = match query {
        RecipeQuery::Message(id) => conn
            .prepare_cached(
                "SELECT seq, message_id, recipe FROM messages
                 WHERE session_key = ?1 AND message_id = ?2 AND recipe IS NOT NULL",
            )?
            .query_row((session_key, id), recipe)
            .optional()?
            .into_iter()
            .collect(),
        RecipeQuery::Newest(limit) => conn
            .prepare_cached(
                "SELECT seq, message_id, recipe FROM messages
                 WHERE session_key = ?1 AND recipe IS NOT NULL ORDER BY seq DESC LIMIT ?2",
            )?
            .query_map((session_key, i64::try_from(*limit).unwrap_or(i64::MAX)), recipe)?
            .collect::<rusqlite::Result<_>>()?,
    };
    Ok(found)
}

fn recipe(row: &Row<'_>) -> rusqlite::Result<StoredRecipe> {
    Ok(StoredRecipe { seq: crate::Seq(row.get(0)?), message: row.get(1)?, recipe: row.get(2)? })
}

pub(super) fn texts(conn: &Connection, key: &SessionKey, hashes: &[String]) -> JobResult<Vec<RecipeText>> {
    let session_key = sessions::head(conn, key)?.session_key;
    let mut statement = conn.prepare_cached(
        "SELECT content FROM recipe_uses JOIN recipe_texts USING (hash) WHERE session_key = ?1 AND hash = ?2",
    )?;
    let mut found = Vec::new();
    for hash in hashes {
        let content = statement.query_row((session_key, hash), |row| row.get(0)).optional()?;
        found.extend(content.map(|content| RecipeText { hash: hash.clone(), content }));
    }
    Ok(found)
}

//! Recipes: a column of the message, and the texts that recipes share.

use super::{
    batch::{Batch, parameters},
    fault::JobResult,
    sessions,
    text::{RowResult, Text, limit, number, text},
};
use crate::{RecipeQuery, RecipeText, Seq, SessionKey, StoredRecipe};
use deadpool_postgres::Object;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

/// Rows are inserted in the order of their hashes, so that two transactions do not wait for each other.
const INSERT_TEXTS: &str = "INSERT INTO recipe_texts (hash, content)
     SELECT new.* FROM unnest($1::text[], $2::text[]) AS new ON CONFLICT DO NOTHING";
const INSERT_USES: &str = "INSERT INTO recipe_uses (session_key, hash)
     SELECT $1, new.* FROM unnest($2::text[]) AS new ON CONFLICT DO NOTHING";
const BY_MESSAGE: &str = "SELECT seq, message_id, recipe FROM messages
     WHERE session_key = $1 AND message_id = $2 AND recipe IS NOT NULL";
const NEWEST: &str = "SELECT seq, message_id, recipe FROM messages
     WHERE session_key = $1 AND recipe IS NOT NULL ORDER BY seq DESC LIMIT $2";
const TEXTS: &str = "SELECT hash, content FROM recipe_uses JOIN recipe_texts USING (hash)
     WHERE session_key = $1 AND hash = ANY ($2)";

/// Adds the statements that store texts and the session's uses of them.
pub(super) fn add_texts<'a>(batch: &mut Batch<'a>, session_key: Uuid, texts: &'a [RecipeText]) {
    if texts.is_empty() {
        return;
    }
    let sorted: BTreeMap<&str, &str> =
        texts.iter().map(|text| (text.hash.as_str(), text.content.as_str())).collect();
    let hashes: Vec<Text<'_>> = sorted.keys().map(|hash| Text(hash)).collect();
    let contents: Vec<Text<'_>> = sorted.values().map(|content| Text(content)).collect();
    batch.add(INSERT_TEXTS, parameters![hashes.clone(), contents]);
    batch.add(INSERT_USES, parameters![session_key, hashes]);
}

pub(super) async fn recipes(
    connection: &Object,
    key: &SessionKey,
    query: &RecipeQuery,
) -> JobResult<Vec<StoredRecipe>> {
    let session_key = sessions::check_known(connection, key).await?;
    let rows = match query {
        RecipeQuery::Message(id) => {
            let statement = connection.prepare_cached(BY_MESSAGE).await?;
            connection.query(&statement, &[&session_key, &Text(id)]).await?
        }
        RecipeQuery::Newest(rows) => {
            let statement = connection.prepare_cached(NEWEST).await?;
            connection.query(&statement, &[&session_key, &limit(*rows)]).await?
        }
    };
    Ok(rows.iter().map(recipe).collect::<RowResult<_>>()?)
}

fn recipe(row: &Row) -> RowResult<StoredRecipe> {
    Ok(StoredRecipe { seq: Seq(number(row, 0)?), message: text(row, 1)?, recipe: text(row, 2)? })
}

pub(super) async fn texts(
    connection: &Object,
    key: &SessionKey,
    hashes: &[String],
) -> JobResult<Vec<RecipeText>> {
    let session_key = sessions::check_known(connection, key).await?;
    let hashes: Vec<Text<'_>> = hashes.iter().map(|hash| Text(hash)).collect();
    let statement = connection.prepare_cached(TEXTS).await?;
    let rows = connection.query(&statement, &[&session_key, &hashes]).await?;
    let text = |row: &Row| Ok(RecipeText { hash: text(row, 0)?, content: text(row, 1)? });
    Ok(rows.iter().map(text).collect::<RowResult<_>>()?)
}

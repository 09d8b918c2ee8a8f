//! Recipes: how the request of a model call was built. The store keeps one with the message of the answer and does not
//! interpret it.

use crate::{Pending, Seq, SessionKey};

/// The recipe of a message in the same [`Commit`](crate::Commit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecipe {
    /// The id of the message.
    pub message: String,
    /// Opaque text of the caller.
    pub recipe: String,
    /// The texts that the recipe refers to. A text that is stored already may be left out once the session uses it.
    pub texts: Vec<RecipeText>,
}

/// A text that recipes refer to by its hash, stored once for all sessions and deleted with the last one that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeText {
    pub hash: String,
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecipe {
    /// The sequence number of the message.
    pub seq: Seq,
    pub message: String,
    pub recipe: String,
}

/// Selects recipes of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecipeQuery {
    /// The recipe of the message with this id.
    Message(String),
    /// The newest ones, at most this many.
    Newest(usize),
}

pub trait Recipes: Send + Sync {
    /// The recipes, newest first.
    fn recipes(&self, key: &SessionKey, query: RecipeQuery) -> Pending<'_, Vec<StoredRecipe>>;

    /// The texts with these hashes that the session uses, in any order.
    fn recipe_texts(&self, key: &SessionKey, hashes: Vec<String>) -> Pending<'_, Vec<RecipeText>>;
}

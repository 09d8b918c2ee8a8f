//! Recipes of a session in memory.

use super::session::MemorySession;
use crate::{NewRecipe, RecipeQuery, RecipeText, Seq, StoredRecipe};
use std::collections::HashMap;

/// The recipes of a session, and the texts that it uses.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryRecipes {
    /// In the order of the log.
    stored: Vec<StoredRecipe>,
    texts: HashMap<String, String>,
}

impl MemoryRecipes {
    pub(super) fn add(&mut self, seq: Seq, NewRecipe { message, recipe, texts }: NewRecipe) {
        self.stored.push(StoredRecipe { seq, message, recipe });
        self.texts.extend(texts.into_iter().map(|text| (text.hash, text.content)));
    }
}

impl MemorySession {
    pub(super) fn recipes(&self, query: &RecipeQuery) -> Vec<StoredRecipe> {
        let newest = self.recipes.stored.iter().rev();
        match query {
            RecipeQuery::Message(id) => newest.filter(|recipe| recipe.message == *id).cloned().collect(),
            RecipeQuery::Newest(limit) => newest.take(*limit).cloned().collect(),
        }
    }

    pub(super) fn recipe_texts(&self, hashes: &[String]) -> Vec<RecipeText> {
        let text = |hash: &String| {
            let content = self.recipes.texts.get(hash)?.clone();
            Some(RecipeText { hash: hash.clone(), content })
        };
        hashes.iter().filter_map(text).collect()
    }
}

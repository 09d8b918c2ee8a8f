//! Contract tests of recipes.

use super::{
    SharedStore,
    make::{message_commit, session},
};
use session::{Commit, NewRecipe, RecipeQuery, RecipeText, Result, Seq, SessionKey, StoredRecipe};

fn text(hash: &str) -> RecipeText {
    RecipeText { hash: hash.to_owned(), content: format!("content of {hash}") }
}

/// A commit of a message with a recipe that uses these texts.
fn with_recipe(id: &str, hashes: &[&str]) -> Commit {
    let texts = hashes.iter().map(|hash| text(hash)).collect();
    let recipe = NewRecipe { message: id.to_owned(), recipe: format!("recipe of {id}"), texts };
    Commit { recipe: Some(recipe), ..message_commit(id) }
}

fn stored(id: &str, seq: u64) -> StoredRecipe {
    StoredRecipe { seq: Seq(seq), message: id.to_owned(), recipe: format!("recipe of {id}") }
}

async fn hashes(store: &SharedStore, key: &SessionKey) -> Result<Vec<String>> {
    let mut found = store.recipe_texts(key, ["a", "b", "c"].map(str::to_owned).into()).await?;
    found.sort_by(|one, other| one.hash.cmp(&other.hash));
    assert!(found.iter().all(|found| *found == text(&found.hash)));
    Ok(found.into_iter().map(|found| found.hash).collect())
}

pub async fn a_recipe_is_stored_with_its_message(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, message_commit("m1")).await?;
    store.commit(&key, with_recipe("m2", &["a", "b"])).await?;
    store.commit(&key, with_recipe("m3", &["a"])).await?;
    let newest = |limit| store.recipes(&key, RecipeQuery::Newest(limit));
    assert_eq!(newest(5).await?, [stored("m3", 3), stored("m2", 2)]);
    assert_eq!(newest(1).await?, [stored("m3", 3)]);
    let of = |id: &str| store.recipes(&key, RecipeQuery::Message(id.to_owned()));
    assert_eq!((of("m2").await?, of("m1").await?), (vec![stored("m2", 2)], Vec::new()));
    assert_eq!(hashes(&store, &key).await?, ["a", "b"]);
    Ok(())
}

pub async fn a_repeated_commit_does_not_change_the_recipe(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    store.commit(&key, with_recipe("m1", &["a"])).await?;
    let mut again = with_recipe("m1", &["b"]);
    again.recipe.iter_mut().for_each(|recipe| "other".clone_into(&mut recipe.recipe));
    assert!(store.commit(&key, again).await?.repeated);
    assert_eq!(store.recipes(&key, RecipeQuery::Newest(5)).await?, [stored("m1", 1)]);
    assert_eq!(hashes(&store, &key).await?, ["a"]);
    Ok(())
}

pub async fn recipe_texts_are_shared_and_visible_only_where_they_are_used(store: SharedStore) -> Result<()> {
    let (key, other) = (session(&store, "s").await?, session(&store, "other").await?);
    store.commit(&key, with_recipe("m1", &["a", "b"])).await?;
    store.commit(&other, with_recipe("m1", &["b", "c"])).await?;
    assert_eq!(
        (hashes(&store, &key).await?.concat(), hashes(&store, &other).await?.concat()),
        ("ab".into(), "bc".into())
    );
    store.delete(&key).await?;
    assert_eq!(hashes(&store, &other).await?, ["b", "c"]);
    let recreated = session(&store, "s").await?;
    assert!(hashes(&store, &recreated).await?.is_empty());
    assert!(store.recipes(&recreated, RecipeQuery::Newest(5)).await?.is_empty());
    Ok(())
}

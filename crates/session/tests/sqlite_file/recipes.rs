//! The texts of recipes in the file.

use crate::common::purge_all;
use session::{
    Commit, NewRecipe, RecipeText, SessionStore,
    sqlite::{Options, SqliteStore},
};
use testkit::store_suite::make::{key, message_commit, session};

#[tokio::test]
async fn recipe_text_is_deleted_with_the_last_session_that_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = std::sync::Arc::new(SqliteStore::open(&path, Options::default()).unwrap());
    let shared: testkit::store_suite::SharedStore = store.clone();
    for name in ["one", "two"] {
        let key = session(&shared, name).await.unwrap();
        let texts = vec![RecipeText { hash: "h".to_owned(), content: "secret of the session".to_owned() }];
        let recipe = Some(NewRecipe { message: "m1".to_owned(), recipe: "{}".to_owned(), texts });
        store.commit(&key, Commit { recipe, ..message_commit("m1") }).await.unwrap();
    }
    let count = || {
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.query_row("SELECT COUNT(*) FROM recipe_texts", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert!(store.delete(&key("one")).await.unwrap());
    purge_all(&store).await;
    assert_eq!(count(), 1);
    assert!(store.delete(&key("two")).await.unwrap());
    purge_all(&store).await;
    assert_eq!(count(), 0);
}

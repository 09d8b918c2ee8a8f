//! Contract tests of search.

use super::{
    SharedStore,
    make::{key, message, new_session, session, together},
};
use session::{
    Commit, IndexProgress, OnConflict, Result, SearchHit, SearchQuery, Seq, SessionKey, SessionMessage,
    ToolCall,
};
use std::sync::Arc;

fn said(id: &str, content: &str) -> Commit {
    Commit::message(SessionMessage { content: content.into(), ..message(id) })
}

async fn say(store: &SharedStore, key: &SessionKey, texts: &[&str]) -> Result<()> {
    for (index, text) in texts.iter().enumerate() {
        store.commit(key, said(&format!("m{index}"), text)).await?;
    }
    Ok(())
}

/// Indexes everything.
async fn index(store: &SharedStore) -> Result<()> {
    while store.index_next().await? == IndexProgress::More {}
    Ok(())
}

fn query(text: &str) -> SearchQuery {
    SearchQuery { user: "ann".into(), text: text.into(), limit: 5, ..SearchQuery::default() }
}

async fn hits(store: &SharedStore, query: SearchQuery) -> Result<Vec<SearchHit>> {
    index(store).await?;
    let results = store.search(query).await?;
    assert!(results.is_complete, "nothing was committed since");
    Ok(results.hits)
}

/// The hits as `session:seq`.
async fn found(store: &SharedStore, query: SearchQuery) -> Result<String> {
    let hits = hits(store, query).await?;
    let shown = hits.iter().map(|hit| format!("{}:{}", hit.key.session_id, hit.seq.0));
    Ok(shown.collect::<Vec<_>>().join(" "))
}

pub async fn messages_are_found_in_many_scripts(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let texts = [
        "The locker code is 4821.",
        "Die Straße heißt Größweg.",
        "我家的猫叫小白，住在大阪城附近。",
        "우리 회의는 서울에서 열립니다.",
        "次の打ち合わせは水曜日です。カタカナのテスト",
        "see crate::parseHttpUrl in src/net_config.rs",
    ];
    say(&store, &key, &texts).await?;
    let cases = [
        ("locker", "s:1"),
        ("LOCKER 4821", "s:1"),
        ("strasse", "s:2"),
        ("grossweg", "s:2"),
        ("小白", "s:3"),
        ("大阪城", "s:3"),
        ("猫", "s:3"),
        ("서울", "s:4"),
        ("회의", "s:4"),
        ("水曜", "s:5"),
        ("ﾃｽﾄ", "s:5"),
        ("http", "s:6"),
        ("parseHttpUrl", "s:6"),
        ("net config", "s:6"),
        ("netConfig", "s:6"),
        ("lock", "s:1"),
        ("absent", ""),
        ("东京", ""),
        ("?!", ""),
        ("", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(found(&store, query(text)).await?, expected, "{text}");
    }
    Ok(())
}

pub async fn a_hit_describes_its_message(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    say(&store, &key, &["one", "the answer\nis 42"]).await?;
    let hits = hits(&store, query("answer")).await?;
    assert_eq!(hits.len(), 1, "{hits:?}");
    let hit = &hits[0];
    assert_eq!((&hit.key, hit.seq, hit.role.as_str(), hit.author.as_str()), (&key, Seq(2), "user", "user"));
    assert_eq!((hit.snippet.as_str(), hit.timestamp), ("the answer is 42", 1_700_000_000.25));
    Ok(())
}

pub async fn calls_are_found_by_their_arguments_and_results(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let call =
        ToolCall { name: "lookup".into(), input: r#"{"city":"Lisbon"}"#.into(), ..ToolCall::default() };
    let output = r#"{"weather":"sunny spells"}"#.to_owned();
    let result = ToolCall { name: "lookup".into(), output: output.clone(), ..ToolCall::default() };
    let call = SessionMessage { content: String::new(), tool_calls: vec![call], ..message("call") };
    let result = SessionMessage {
        role: "tool".into(),
        content: output,
        tool_calls: vec![result],
        ..message("result")
    };
    store.commit(&key, Commit { messages: vec![call, result], ..Commit::default() }).await?;
    assert_eq!(found(&store, query("lisbon")).await?, "s:1");
    assert_eq!(found(&store, query("sunny")).await?, "s:2");
    assert_eq!(found(&store, query("weather")).await?, "", "JSON keys are not text");
    Ok(())
}

pub async fn a_search_is_limited_to_its_user_and_app(store: SharedStore) -> Result<()> {
    let keys = [("app", "ann"), ("app", "bob"), ("other", "ann"), ("other", "bob")]
        .map(|(app, user)| SessionKey::new(app, user, "s"));
    for key in &keys {
        store.create(new_session(key, OnConflict::Fail)).await?;
        say(&store, key, &[&format!("secret of {} in {}", key.user_id, key.app_name)]).await?;
    }
    for key in &keys {
        let scoped =
            |app: Option<String>| SearchQuery { user: key.user_id.clone(), app, ..query("secret ann bob") };
        let of_app = hits(&store, scoped(Some(key.app_name.clone()))).await?;
        assert_eq!(of_app.iter().map(|hit| &hit.key).collect::<Vec<_>>(), [key]);
        let of_user = hits(&store, scoped(None)).await?;
        assert!(
            of_user.len() == 2 && of_user.iter().all(|hit| hit.key.user_id == key.user_id),
            "{of_user:?}"
        );
    }
    let nobody = SearchQuery { user: String::new(), ..query("secret") };
    assert_eq!(found(&store, nobody).await?, "");
    Ok(())
}

pub async fn a_search_may_be_limited_to_a_session(store: SharedStore) -> Result<()> {
    for name in ["s", "t"] {
        let key = session(&store, name).await?;
        say(&store, &key, &["a word", "another word", "a third word"]).await?;
    }
    let of_session = SearchQuery { session: Some("t".into()), ..query("word") };
    assert_eq!(found(&store, of_session).await?, "t:3 t:2 t:1");
    let missing = SearchQuery { session: Some("u".into()), ..query("word") };
    assert_eq!(found(&store, missing).await?, "");
    let until = Some((key("t"), Seq(1)));
    assert_eq!(found(&store, SearchQuery { until, ..query("third") }).await?, "s:3");
    Ok(())
}

pub async fn the_latest_version_of_a_fact_ranks_first(store: SharedStore) -> Result<()> {
    let (old, new) = (session(&store, "old").await?, session(&store, "new").await?);
    let at = |timestamp: f64, commit: Commit| {
        let messages = commit.messages.into_iter().map(|message| SessionMessage { timestamp, ..message });
        Commit { messages: messages.collect(), ..Commit::default() }
    };
    store.commit(&new, at(300.0, said("m", "By the way, my locker code at the gym is 7770 now."))).await?;
    store.commit(&old, at(100.0, said("m", "My locker code at the gym is 4821."))).await?;
    store.commit(&old, at(200.0, said("n", "The gym is open until ten."))).await?;
    assert_eq!(found(&store, query("gym locker code")).await?, "new:1 old:1 old:2");
    Ok(())
}

pub async fn only_sessions_in_memory_are_found_there(store: SharedStore) -> Result<()> {
    let (key, other) = (session(&store, "s").await?, session(&store, "t").await?);
    say(&store, &key, &["a first word"]).await?;
    say(&store, &other, &["another word"]).await?;
    let in_memory = || SearchQuery { in_memory: true, ..query("word") };
    assert_eq!(found(&store, in_memory()).await?, "");
    store.add_to_memory(&key).await?;
    store.commit(&key, said("later", "a later word")).await?;
    assert_eq!(found(&store, in_memory()).await?, "s:1", "not what was committed since");
    store.add_to_memory(&key).await?;
    assert_eq!(found(&store, in_memory()).await?, "s:2 s:1");
    store.delete(&key).await?;
    assert_eq!(found(&store, in_memory()).await?, "");
    assert!(store.add_to_memory(&key).await.is_err(), "the session does not exist");
    Ok(())
}

pub async fn a_deleted_session_is_not_found(store: SharedStore) -> Result<()> {
    let (key, other) = (session(&store, "s").await?, session(&store, "t").await?);
    say(&store, &key, &["a peculiar word"]).await?;
    say(&store, &other, &["another peculiar word"]).await?;
    assert_eq!(hits(&store, query("peculiar")).await?.len(), 2);
    store.delete(&key).await?;
    assert_eq!(store.search(query("peculiar")).await?.hits.len(), 1, "also before the index is maintained");
    session(&store, "s").await?;
    say(&store, &key, &["something else"]).await?;
    assert_eq!(found(&store, query("peculiar")).await?, "t:1");
    assert_eq!(found(&store, query("something")).await?, "s:1");
    Ok(())
}

/// A word for a number. Digits would be terms of their own.
fn word(n: usize) -> String {
    let letters = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    format!("q{}{}{}x", letters(n / 676), letters(n / 26), letters(n))
}

/// More messages than one slice has.
pub async fn all_messages_are_indexed_once(store: SharedStore) -> Result<()> {
    for session_name in ["s", "t", "u"] {
        let key = session(&store, session_name).await?;
        let message =
            |n: usize| SessionMessage { content: format!("common {}", word(n)), ..message(&format!("m{n}")) };
        let messages = (1..=300).map(message).collect();
        store.commit(&key, Commit { messages, ..Commit::default() }).await?;
    }
    let indexing = (0..4).map(|_| {
        let store = Arc::clone(&store);
        async move { index(&store).await }
    });
    together(indexing).await.into_iter().collect::<Result<()>>()?;
    for n in [1, 150, 299, 300] {
        assert_eq!(hits(&store, query(&word(n))).await?.len(), 3, "{n}");
    }
    let common = SearchQuery { limit: 1000, ..query("common") };
    let of_all = hits(&store, common.clone()).await?;
    assert!(of_all.len() >= 200, "{}", of_all.len());
    store.reset_index().await?;
    assert_eq!(hits(&store, common).await?.len(), of_all.len(), "after the rebuild");
    Ok(())
}

pub async fn a_long_message_is_found_by_any_of_its_words(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let text = (0..6000).map(word).collect::<Vec<_>>().join(" ");
    say(&store, &key, &[&text, "short"]).await?;
    for n in [0, 3000, 5999] {
        let hits = hits(&store, query(&word(n))).await?;
        assert_eq!(hits.iter().map(|hit| hit.seq).collect::<Vec<_>>(), [Seq(1)], "{n}");
        assert!(hits[0].snippet.contains(&word(n)), "{}", hits[0].snippet);
    }
    Ok(())
}

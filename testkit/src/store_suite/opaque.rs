//! Contract tests of opaque data: everything is returned exactly as it was stored.

use super::{
    SharedStore,
    make::{changes, load, message, new_session, page, run_of, session, sets, start, status},
};
use serde_json::{Value, json};
use session::{Commit, OnConflict, Result, RunStatus, Scope, SessionKey, SessionMessage, ToolCall};

const STRANGE: [&str; 9] = [
    "",
    "\0",
    "a\0b\0",
    "👩‍👩‍👧 e\u{301} \u{feff}\u{202e}",
    "\\u0000 \\ud800 \\x \\",
    "\u{fffd}\u{10ffff}\u{1}\u{7f}",
    "'; DROP TABLE messages; --",
    " \r\n\t trailing \n",
    "{\"not\": closed",
];

async fn returned(store: &SharedStore, key: &SessionKey, message: SessionMessage) -> Result<SessionMessage> {
    let seq = store.commit(key, Commit::message(message)).await?.seq;
    let mut rows = store.read(key, page(seq.0 - 1, 1)).await?;
    Ok(rows.pop().map(|row| row.message).unwrap_or_default())
}

pub async fn text_is_stored_byte_for_byte(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    for (n, strange) in STRANGE.into_iter().enumerate() {
        let sent = SessionMessage {
            id: format!("{strange}{n}"),
            role: strange.into(),
            author: strange.into(),
            content: strange.into(),
            counted_by: strange.into(),
            meta: Some(strange.into()),
            ..message("m")
        };
        assert_eq!(returned(&store, &key, sent.clone()).await?, sent);
    }
    let plain = message("no meta");
    assert_eq!(returned(&store, &key, plain.clone()).await?, plain);
    Ok(())
}

pub async fn large_content_is_stored_completely(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let large = "0123456789abcdeé".repeat(5 * 1024 * 1024 / 17);
    let sent = SessionMessage { content: large.clone(), meta: Some(large), ..message("m") };
    assert!(returned(&store, &key, sent.clone()).await? == sent, "large content changed");
    assert_eq!(load(&store, &key).await?.tail.len(), 1);
    Ok(())
}

pub async fn tool_calls_are_stored_unchanged(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let call = |text: &str| ToolCall {
        id: text.into(),
        name: "read".into(),
        input: text.into(),
        output: String::new(),
        thought: true,
        thought_signature: Some(text.into()),
    };
    let mut calls: Vec<ToolCall> = STRANGE.map(call).into();
    calls.push(ToolCall::default());
    calls.push(ToolCall { output: "{\"z\":1.0,\"a\":1e400}".into(), ..ToolCall::default() });
    let sent = SessionMessage { tool_calls: calls, ..message("m") };
    assert_eq!(returned(&store, &key, sent.clone()).await?, sent);
    Ok(())
}

pub async fn json_numbers_and_key_order_are_preserved(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let value = json!({
        "z": [0.1 + 0.2, 1e-7, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1.0, 123_456_789.123_456_79],
        "a": [u64::MAX, i64::MIN, 0, 9_007_199_254_740_993_u64],
        "m": {"z": null, "b": "\0\u{1f600}", "a": {}},
        "": []
    });
    let text = value.to_string();
    store.commit(&key, changes(vec![sets(Scope::Session, "k\0", value)])).await?;
    let state = load(&store, &key).await?.state;
    assert_eq!((state[0].key.as_str(), state[0].value.to_string()), ("k\0", text.clone()));
    let logged: Vec<Value> =
        store.state_changes(&key, page(0, 10)).await?.into_iter().map(|entry| entry.value).collect();
    assert_eq!(logged[0].to_string(), text);
    Ok(())
}

pub async fn timestamps_are_stored_bit_for_bit(store: SharedStore) -> Result<()> {
    let key = session(&store, "s").await?;
    let times =
        [0.0, 1.0, -1.5, 1_752_345_678.123_456_7, 1_752_345_678.000_000_2, f64::MAX, f64::MIN_POSITIVE];
    for (n, timestamp) in times.into_iter().enumerate() {
        let sent = SessionMessage { timestamp, tokens: u32::MAX, ..message(&format!("m{n}")) };
        let found = returned(&store, &key, sent).await?;
        assert_eq!((found.timestamp.to_bits(), found.tokens), (timestamp.to_bits(), u32::MAX));
    }
    Ok(())
}

pub async fn keys_and_ids_may_contain_any_text(store: SharedStore) -> Result<()> {
    for strange in STRANGE {
        let key = SessionKey::new(strange, strange, strange);
        store.create(new_session(&key, OnConflict::Fail)).await?;
        let queued = store.enqueue(&key, run_of(strange, strange), strange.into()).await?;
        assert_eq!((queued.id.as_str(), queued.owner.as_str()), (strange, strange));
        assert_eq!(store.payload(&key, strange).await?.as_deref(), Some(strange));
        assert_eq!(load(&store, &key).await?.row.key, key);
        let lease = start(&store, &key, run_of(strange, strange)).await?;
        store.extend_draft(&lease, strange.into()).await?;
        assert_eq!(load(&store, &key).await?.draft.map(|draft| draft.chunks), Some(vec![strange.to_owned()]));
        assert_eq!(returned(&store, &key, message("m")).await?, message("m"));
    }
    for strange in STRANGE {
        let key = SessionKey::new(strange, strange, strange);
        assert_eq!(status(&store, &key, strange).await?, RunStatus::Running);
    }
    Ok(())
}

//! Spec N–P: legacy rows, the front of a cut window, and call ids in requests.

use crate::common::{
    Fake, Shared, backends, key, last_request, messages, named_within, root, say, seen, start, start_within,
};
use adk::{
    content::{Content, FunctionCall, FunctionResponse, Part},
    model::LlmRequest,
    notes::INTERRUPTED_CALL,
    session::{Session, SessionService},
};
use bridge::{Budget, ModelAdapter, SessionServiceAdapter};
use session::{Commit, SessionMessage, ToolCall};

struct Row {
    role: &'static str,
    content: &'static str,
    calls: &'static [(&'static str, &'static str)],
    tokens: u32,
}

fn row(role: &'static str, content: &'static str) -> Row {
    Row { role, content, calls: &[], tokens: 10 }
}

/// Stores rows without `meta` in a new session.
async fn store_rows(store: &Shared, rows: &[Row]) {
    SessionServiceAdapter::new(store.clone(), "root", Budget::default()).get_or_create(&key()).await.unwrap();
    for (number, row) in rows.iter().enumerate() {
        let call = |(id, name): &(&str, &str)| {
            let (id, name) = ((*id).to_owned(), (*name).to_owned());
            // The calls of a row with the role `tool` are results.
            let json = "{}".to_owned();
            let (input, output) =
                if row.role == "tool" { (String::new(), json) } else { (json, String::new()) };
            ToolCall { id, name, input, output, ..ToolCall::default() }
        };
        let message = SessionMessage {
            id: number.to_string(),
            role: row.role.into(),
            content: row.content.into(),
            tool_calls: row.calls.iter().map(call).collect(),
            tokens: row.tokens,
            ..SessionMessage::default()
        };
        store.commit(&key(), Commit { messages: vec![message], ..Commit::default() }).await.unwrap();
    }
}

async fn window(store: &Shared, budget: Budget) -> Vec<String> {
    let service = SessionServiceAdapter::new(store.clone(), "root", budget);
    seen(service.get(&key()).await.unwrap().unwrap().events())
}

fn named_call(name: &str) -> FunctionCall {
    FunctionCall { name: name.into(), ..FunctionCall::default() }
}

#[tokio::test]
async fn spec_n1_legacy_result_answers_the_preceding_call() {
    for backend in backends() {
        let calls = Row { calls: &[("call_exec", "exec")], ..row("assistant", "") };
        store_rows(&backend.store, &[calls, row("tool", r#"{"result":"file.txt"}"#)]).await;
        let expected = ["root: →exec#call_exec{}", r#"root: ←exec#call_exec{"result":"file.txt"}"#];
        assert_eq!(window(&backend.store, Budget::default()).await, expected, "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_n1_legacy_results_of_parallel_calls_are_matched_by_position() {
    for backend in backends() {
        let calls = Row { calls: &[("a", "exec"), ("b", "look")], ..row("assistant", "") };
        store_rows(&backend.store, &[calls, row("tool", "first"), row("tool", r#"{"n":2}"#)]).await;
        let expected =
            ["root: →exec#a{} →look#b{}", r#"root: ←exec#a{"result":"first"}"#, r#"root: ←look#b{"n":2}"#];
        assert_eq!(window(&backend.store, Budget::default()).await, expected, "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_n1_legacy_session_can_be_continued() {
    for backend in backends() {
        let calls = Row { calls: &[("a", "exec"), ("b", "look")], ..row("assistant", "") };
        store_rows(&backend.store, &[row("user", "do it"), calls, row("tool", "1"), row("tool", "2")]).await;
        let model = Fake::echo();
        let agent = start(&backend.store, root(&model)).await;
        agent.run_and_collect(say("and?")).await.unwrap();
        let expected = [
            "user: do it",
            "assistant: →exec#a{} →look#b{}",
            r#"tool: ←exec#a{"result":1} ←look#b{"result":2}"#,
            "user: and?",
        ];
        assert_eq!(last_request(&model), expected, "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_n2_unmatched_legacy_result_becomes_text() {
    for backend in backends() {
        store_rows(&backend.store, &[row("user", "hello"), row("tool", r#"{"result":"x"}"#)]).await;
        let expected = ["user: hello", r#"root: {"result":"x"}"#];
        assert_eq!(window(&backend.store, Budget::default()).await, expected, "{}", backend.name);
    }
}

fn minimum_budget() -> Budget {
    Budget::new(256, None).unwrap()
}

#[tokio::test]
async fn spec_o1_leading_results_are_skipped_in_a_cut_log() {
    for backend in backends() {
        let calls = Row { calls: &[("a", "f"), ("b", "f")], tokens: 200, ..row("assistant", "") };
        let first = Row { calls: &[("a", "f")], tokens: 30, ..row("tool", "") };
        let second = Row { calls: &[("b", "f")], tokens: 30, ..row("tool", "") };
        store_rows(&backend.store, &[row("user", "go"), calls, first, second, row("assistant", "done")])
            .await;
        assert_eq!(window(&backend.store, minimum_budget()).await, ["root: done"], "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_o1_leading_results_stay_in_an_uncut_log() {
    for backend in backends() {
        let orphan = Row { calls: &[("a", "f")], ..row("tool", "") };
        store_rows(&backend.store, &[orphan, row("assistant", "done")]).await;
        assert_eq!(
            window(&backend.store, minimum_budget()).await,
            ["root: ←f#a{}", "root: done"],
            "{}",
            backend.name
        );
    }
}

#[tokio::test]
async fn spec_o2_pending_call_at_the_end_stays_and_its_request_is_legal() {
    for backend in backends() {
        let calls = Row { calls: &[("a", "f"), ("b", "f")], ..row("assistant", "") };
        store_rows(&backend.store, &[row("user", "go"), calls]).await;
        assert_eq!(
            window(&backend.store, minimum_budget()).await,
            ["user: go", "root: →f#a{} →f#b{}"],
            "{}",
            backend.name
        );
        let model = Fake::echo();
        let agent =
            start_within(&backend.store, named_within("root", &model, minimum_budget()), minimum_budget())
                .await;
        agent.run_and_collect(say("well?")).await.unwrap();
        let sent = last_request(&model);
        assert_eq!(sent[1], "assistant: →f#a{} →f#b{}");
        assert_eq!(sent[2].matches(INTERRUPTED_CALL).count(), 2, "{sent:?}");
        assert_eq!(sent[3], "user: well?");
    }
}

#[tokio::test]
async fn spec_o3_leading_call_without_result_is_skipped() {
    for backend in backends() {
        let large = Row { tokens: 250, ..row("user", "go") };
        let calls = Row { calls: &[("a", "f"), ("b", "f")], ..row("assistant", "") };
        let only_one = Row { calls: &[("a", "f")], ..row("tool", "") };
        store_rows(&backend.store, &[large, calls, only_one, row("user", "well?")]).await;
        assert_eq!(window(&backend.store, minimum_budget()).await, ["user: well?"], "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_o3_leading_call_with_all_results_stays() {
    for backend in backends() {
        let large = Row { tokens: 250, ..row("user", "go") };
        let calls = Row { calls: &[("a", "f"), ("b", "f")], ..row("assistant", "") };
        let answers = Row { calls: &[("a", "f"), ("b", "f")], ..row("tool", "") };
        store_rows(&backend.store, &[large, calls, answers, row("user", "well?")]).await;
        let expected = ["root: →f#a{} →f#b{}", "root: ←f#a{} ←f#b{}", "user: well?"];
        assert_eq!(window(&backend.store, minimum_budget()).await, expected, "{}", backend.name);
    }
}

fn outgoing(ids: [Option<&str>; 2]) -> Vec<String> {
    let call = |id: Option<&str>| -> Part {
        FunctionCall { id: id.map(str::to_owned), name: "exec".into(), ..FunctionCall::default() }.into()
    };
    let response = |id: Option<&str>| -> Part {
        FunctionResponse { id: id.map(str::to_owned), name: "exec".into(), ..FunctionResponse::default() }
            .into()
    };
    let contents = vec![
        Content::user("go"),
        Content::new("model", ids.map(call).into()),
        Content::new("user", ids.map(response).into()),
    ];
    let adapter = ModelAdapter::new(Fake::echo(), "m1", Budget::default());
    messages(
        &adapter
            .request(&LlmRequest {
                contents: contents.into_iter().map(Into::into).collect(),
                ..LlmRequest::default()
            })
            .messages,
    )
}

#[test]
fn spec_p1_ids_are_forwarded_unchanged() {
    let expected =
        ["user: go", "assistant: →exec#adk-uuid-123{} →exec#x{}", "tool: ←exec#adk-uuid-123{} ←exec#x{}"];
    assert_eq!(outgoing([Some("adk-uuid-123"), Some("x")]), expected);
}

#[test]
fn spec_p2_missing_ids_of_calls_and_responses_are_derived_alike() {
    let expected = [
        "user: go",
        "assistant: →exec#call_exec{} →exec#call_exec_2{}",
        "tool: ←exec#call_exec{} ←exec#call_exec_2{}",
    ];
    assert_eq!(outgoing([None, None]), expected);
    assert_eq!(outgoing([Some(""), None]), expected, "an empty id counts as missing");
}

#[test]
fn spec_p2_response_without_an_id_answers_the_oldest_open_call_of_its_tool() {
    let call = |id: &str| Part::from(FunctionCall { id: Some(id.into()), ..named_call("exec") });
    let response = |text: &str| {
        let response = serde_json::from_value(serde_json::json!({"result": text})).unwrap();
        Part::from(FunctionResponse { name: "exec".into(), response: Some(response), ..Default::default() })
    };
    let contents = [
        Content::user("go"),
        Content::new("model", vec![call("a"), call("b")]),
        Content::new("user", vec![response("1"), response("2")]),
    ];
    let events = contents.into_iter().map(|content| {
        let author = if content.role.as_deref() == Some("user") { "user" } else { "root" };
        std::sync::Arc::new(adk::event::Event {
            content: Some(content),
            ..adk::event::Event::new("e", author)
        })
    });
    let events: Vec<_> = events.collect();
    let arranged = adk::flow::contents::contents(adk::flow::contents::HistoryView {
        agent: "root",
        branch: None,
        include: adk::agent::IncludeContents::Default,
        events: &events,
        deferred: &[],
    });
    let ids: Vec<_> =
        arranged.iter().flat_map(|content| content.responses()).map(|it| it.id.clone()).collect();
    assert_eq!(ids, [Some("a".to_owned()), Some("b".to_owned())]);
}

/// Reads with a new cursor for each page, as a client that reads one page per request.
async fn read_in_pages(archive: &bridge::Archive, page: usize) -> Vec<(u64, adk::event::Event)> {
    let mut all: Vec<(u64, adk::event::Event)> = Vec::new();
    loop {
        let after = all.last().map_or(0, |(seq, _)| *seq);
        let events = archive.events(&key(), "root", after).next(page, usize::MAX).await.unwrap();
        if events.is_empty() {
            return all;
        }
        all.extend(events);
    }
}

/// Pages of the archive begin anywhere; the row with the calls may be far before them.
#[tokio::test]
async fn spec_n1_paged_reads_give_the_same_events_as_a_whole_read() {
    for backend in backends() {
        let calls = Row { calls: &[("a", "exec"), ("b", "look")], ..row("assistant", "") };
        let mut rows = vec![row("user", "do it"), calls];
        rows.extend((0..150).map(|_| row("user", "hurry")));
        rows.extend([row("tool", "1"), row("user", "more"), row("tool", "2")]);
        store_rows(&backend.store, &rows).await;
        let archive = bridge::Archive::new(backend.store.clone());
        let whole = archive.events(&key(), "root", 0).next(1000, usize::MAX).await.unwrap();
        for page in [1, 2, 100] {
            assert_eq!(read_in_pages(&archive, page).await, whole, "{}: pages of {page}", backend.name);
        }
        let responses = whole.iter().flat_map(|(_, event)| event.responses()).count();
        assert_eq!(responses, 2, "{}", backend.name);
    }
}

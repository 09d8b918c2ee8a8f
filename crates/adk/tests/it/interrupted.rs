//! Interrupted answers: emitted text is stored, and the next request contains it.

use crate::common::{App, Fake, Ran, Reply, app, chunk, chunks, contents_shape, key, parts, streamed, text};
use adk::{
    content::{Content, Part},
    error::{LlmError, RunError},
    event::Event,
    model::{LlmRequest, LlmResponse},
    notes::CONTINUE_NOTE,
    runner::{Input, RunRequest, StreamingMode},
};
use insta::assert_snapshot;
use std::{
    sync::{Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

const STEP: Duration = Duration::from_millis(100);

fn broken() -> LlmError {
    LlmError::new("BOOM", "it broke")
}

/// A reply of chunks, then an error.
fn breaks(shown: Vec<Part>) -> Reply {
    Reply::Items(shown.into_iter().map(|part| Ok(chunk(part))).chain([Err(broken())]).collect())
}

fn streaming(input: Input) -> RunRequest {
    let mut request = RunRequest { input, ..RunRequest::message(key(), Content::default()) };
    request.config.streaming = StreamingMode::Sse;
    request
}

/// The chunks `0 `, `1 ` and so on, one per step, then the complete answer.
fn slow(count: usize) -> Reply {
    let chunks: Vec<String> = (0..count).map(|at| format!("{at} ")).collect();
    Reply::Slow(STEP, streamed(&chunks.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn commits(app: &App) -> String {
    app.runner.sessions().commits().join("\n")
}

/// Drops the run after `time`, like a crash.
async fn killed_after(app: &App, time: Duration, message: &str) {
    let run = app.run(streaming(Input::Message(Content::user(message))));
    assert!(timeout(time, run).await.is_err());
}

async fn cancelled_after(app: &App, time: Duration) -> Ran {
    let request = streaming(Input::Message(Content::user("hi")));
    let cancel = request.cancel.clone();
    let (ran, ()) = futures::join!(app.run(request), async {
        sleep(time).await;
        cancel.cancel();
    });
    assert!(matches!(ran.result, Err(RunError::Cancelled)));
    ran
}

#[tokio::test]
async fn interrupted_text_is_stored_before_the_error() {
    let shown = vec![Part::thought("hm"), Part::text("Hel"), Part::text("lo")];
    let app = app(Fake::says([breaks(shown)]).agent("root")).await;
    let ran = app.stream("hi").await;
    assert_snapshot!(ran.shape(), @"
    00 root   (hm) [partial=true]
    01 root   Hel [partial=true]
    02 root   lo [partial=true]
    03 root   (hm) | Hello [partial=false] [interrupted]
    04 root    [BOOM: it broke]
    ");
    assert_snapshot!(commits(&app), @"
    begin: user continues
    append: root continues, root ends Failed
    ");
    assert!(ran.shown[..3].iter().all(|event| event.id == ran.shown[3].id));
    assert_ne!(ran.shown[4].id, ran.shown[3].id);
    assert_eq!(ran.shown[3].node_info.path, "root@1");
    assert_eq!(app.log().len(), 3);
    assert!(matches!(ran.error(), RunError::Model(error) if error.code == "BOOM"));
}

#[tokio::test]
async fn a_truncated_stream_is_an_interrupted_answer() {
    let reply = Reply::Items(vec![Ok(chunk(Part::text("Hel")))]);
    let app = app(Fake::says([reply]).agent("root")).await;
    let ran = app.stream("hi").await;
    assert_snapshot!(ran.shape(), @"
    00 root   Hel [partial=true]
    01 root   Hel [partial=false] [interrupted]
    02 root    [TRUNCATED: the model's stream ended before the answer was complete]
    ");
    assert!(matches!(ran.error(), RunError::Model(error) if error.code == "TRUNCATED"));
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_run_keeps_the_emitted_text() {
    let app = app(Fake::says([slow(20)]).agent("root")).await;
    let mut request = streaming(Input::Message(Content::user("hi")));
    request.config.limits.time = Some(STEP * 3 + STEP / 2);
    app.run(request).await.result.unwrap_err();
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   0 1 2  [partial=false] [interrupted]
    02 root    [OUT_OF_TIME: time limit of 350ms reached]
    ");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_with_the_emitted_text() {
    let app = app(Fake::says([slow(20), text("hello")]).agent("root")).await;
    let ran = cancelled_after(&app, STEP * 3 + STEP / 2).await;
    assert_snapshot!(ran.shape(), @"
    00 root   0  [partial=true]
    01 root   1  [partial=true]
    02 root   2  [partial=true]
    03 root   0 1 2  [partial=false] [interrupted]
    ");
    assert!(ran.shown.iter().all(|event| event.id == ran.shown[3].id));
    assert_snapshot!(commits(&app), @"
    begin: user continues
    append: root ends Cancelled
    ");
    assert_eq!(app.say("again").await.text(), "hello");
}

#[tokio::test(start_paused = true)]
async fn no_interrupted_event_without_emitted_text() {
    let notice = || LlmResponse { partial: true, ..LlmResponse::default() };
    for shown in [vec![], vec![notice()], vec![notice(), chunk(Part::text(" \n"))]] {
        let items = || shown.iter().cloned().map(Ok);
        let model = Fake::says([
            Reply::Items(items().chain([Err(broken())]).collect()),
            Reply::Slow(STEP, items().collect()),
        ]);
        let app = app(model.agent("root")).await;
        app.stream("hi").await.result.unwrap_err();
        cancelled_after(&app, Duration::from_mins(1)).await;
        let log = app.log();
        assert_eq!(log.len(), 3, "{}", app.log_shape());
        assert!(log.iter().all(|event| event.interrupted.is_none()));
    }
}

#[tokio::test]
async fn an_error_response_keeps_the_emitted_text() {
    let refusal = |content| LlmResponse {
        content,
        error_code: Some("SAFETY".to_owned()),
        error_message: Some("no".to_owned()),
        ..LlmResponse::default()
    };
    let replies = [None, Some(Content::model("Hel"))]
        .map(|content| Reply::Items(vec![Ok(chunk(Part::text("Hel"))), Ok(refusal(content))]));
    let app = app(Fake::says(replies).agent("root")).await;
    let ran = app.stream("hi").await;
    assert_snapshot!(ran.shape(), @"
    00 root   Hel [partial=true]
    01 root   Hel [partial=false] [interrupted]
    02 root    [partial=false] [SAFETY: no]
    ");
    assert_ne!(ran.shown[2].id, ran.shown[1].id);
    ran.result.unwrap();
    assert_snapshot!(app.stream("ho").await.shape(), @"
    00 root   Hel [partial=true]
    01 root   Hel [partial=false] [SAFETY: no]
    ");
    assert_snapshot!(commits(&app), @"
    begin: user continues
    append: root continues, root by log
    begin: user continues
    append: root by log
    ");
}

#[tokio::test]
async fn interrupted_text_does_not_set_the_output_key() {
    let mut root = Fake::says([breaks(vec![Part::text("4")])]).agent("root");
    root.output_key = Some("answer".to_owned());
    let app = app(root).await;
    app.stream("hi").await.result.unwrap_err();
    assert!(!app.state().contains_key("answer"));
}

#[tokio::test]
async fn a_message_after_an_interrupted_answer_gets_no_continue_note() {
    let model = Fake::says([breaks(vec![Part::text("Hel")]), text("hello"), text("bye")]);
    let app = app(model.agent("root")).await;
    app.stream("hi").await.result.unwrap_err();
    app.say("again").await.result.unwrap();
    assert_snapshot!(contents_shape(&model.last_asked().contents), @"
    00 user   hi
    01 model  Hel
    02 user   again
    ");
}

#[tokio::test]
async fn without_a_message_the_request_ends_with_the_continue_note() {
    let model = Fake::says([breaks(vec![Part::text("Hel")]), text("lo")]);
    let app = app(model.agent("root")).await;
    app.stream("hi").await.result.unwrap_err();
    app.again().await.result.unwrap();
    assert_snapshot!(contents_shape(&model.last_asked().contents), @"
    00 user   hi
    01 model  Hel
    02 user   [System: The previous answer was interrupted. Continue exactly where it stopped; do not repeat it.]
    ");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_saved_while_it_streams() {
    let app = app(Fake::says([slow(20)]).agent("root")).await;
    let (began, shown) = (Instant::now(), Mutex::new(Vec::new()));
    let request = streaming(Input::Message(Content::user("hi")));
    app.runner.run(request, &|_| shown.lock().unwrap().push(began.elapsed())).await.unwrap();
    assert_snapshot!(commits(&app), @"
    begin: user continues
    draft: 0 1 2 3 4 5 
    draft: 6 7 8 9 10 11 12 
    append: root by log
    ");
    let shown = shown.into_inner().unwrap();
    let expected: Vec<Duration> = (1..=21).map(|at| STEP * at).collect();
    assert_eq!(shown.len(), expected.len());
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.abs_diff(expected) < STEP / 4, "{shown:?} instead of {expected:?}");
    }
    assert_eq!(app.log().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_within_the_save_interval_is_not_saved_as_a_draft() {
    let reply = Reply::Slow(Duration::from_millis(90), streamed(&["1", "2", "3", "4", "5"]));
    let app = app(Fake::says([reply]).agent("root")).await;
    app.stream("hi").await.result.unwrap();
    assert!(!commits(&app).contains("draft"), "{}", commits(&app));
}

#[tokio::test(start_paused = true)]
async fn text_of_a_failed_save_is_part_of_the_next_save() {
    let app = app(Fake::says([slow(14)]).agent("root")).await;
    app.runner.sessions().failing_saves.store(1, Relaxed);
    app.stream("hi").await.result.unwrap();
    assert_snapshot!(commits(&app), @"
    begin: user continues
    failed draft: 0 1 2 3 4 5 
    draft: 0 1 2 3 4 5 6 7 8 9 10 
    append: root by log
    ");
}

#[tokio::test(start_paused = true)]
async fn a_flush_saves_emitted_text_immediately() {
    let app = app(Fake::says([slow(20)]).agent("root")).await;
    let request = streaming(Input::Message(Content::user("hi")));
    let flush = request.config.draft_flush.clone();
    let shown = Mutex::new(String::new());
    let show = |event: &Event| shown.lock().unwrap().push_str(&event.content.as_ref().unwrap().text());
    let run = app.runner.run(request, &show);
    let flushed = async {
        sleep(STEP * 2 + STEP / 2).await;
        // Less than the interval, plus the time of the save itself.
        timeout(STEP * 3, flush.flush()).await.unwrap();
        commits(&app)
    };
    tokio::pin!(run);
    let saved = tokio::select! {
        saved = flushed => saved,
        _ = &mut run => panic!("it takes longer"),
    };
    assert_snapshot!(saved, @"
    begin: user continues
    draft: 0 1 
    ");
    // Text emitted after the flush would be lost when the process exits.
    assert!(timeout(STEP * 40, &mut run).await.is_err());
    assert_eq!(*shown.lock().unwrap(), "0 1 ");
    assert_eq!(commits(&app), saved);
}

/// Requests the flush at every await of a run: during the answer, during a save, during the final commit.
#[tokio::test(start_paused = true)]
async fn after_a_flush_all_emitted_text_is_stored() {
    let mut is_over = false;
    for polls in 0.. {
        let app =
            app(Fake::says([Reply::Items(streamed(&["Alpha ", "beta ", "gamma"]))]).agent("root")).await;
        let request = streaming(Input::Message(Content::user("hi")));
        let flush = request.config.draft_flush.clone();
        let shown = Mutex::new(String::new());
        let show = |event: &Event| {
            let partial = event.content.as_ref().filter(|_| event.partial == Some(true));
            shown.lock().unwrap().push_str(&partial.map(Content::text).unwrap_or_default());
        };
        let run = app.runner.run(request, &show);
        tokio::pin!(run);
        for _ in 0..polls {
            is_over |= futures::poll!(&mut run).is_ready();
            if is_over {
                break;
            }
        }
        if is_over {
            assert!(polls > 5, "the run has awaits");
            break;
        }
        tokio::select! {
            biased;
            () = flush.flush() => {}
            _ = &mut run => {}
        }
        let stored = app.runner.sessions().stored_text(&key());
        let shown = shown.lock().unwrap().clone();
        assert!(stored.starts_with(&shown), "after {polls} polls: shown {shown:?}, stored {stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_without_unsaved_text_returns_immediately() {
    let app = app(Fake::says([slow(20)]).agent("root")).await;
    let request = streaming(Input::Message(Content::user("hi")));
    let flush = request.config.draft_flush.clone();
    timeout(STEP / 4, flush.flush()).await.unwrap();
    assert!(timeout(STEP / 2, app.run(request)).await.is_err());
    timeout(STEP / 4, flush.flush()).await.unwrap();
    assert_snapshot!(commits(&app), @"begin: user continues");
}

#[tokio::test(start_paused = true)]
async fn a_draft_is_settled_with_the_next_message() {
    let model = Fake::says([slow(20), text("hello")]);
    let app = app(model.agent("root")).await;
    killed_after(&app, STEP * 10, "hi").await;
    assert_eq!(app.log().len(), 1);
    let ran = app.say("again").await;
    assert_snapshot!(ran.shape(), @"00 root   hello");
    assert_snapshot!(commits(&app), @"
    begin: user continues
    draft: 0 1 2 3 4 5 
    begin: root settles, user continues
    append: root by log
    ");
    let log = app.log();
    assert_eq!(log[1].invocation_id, log[0].invocation_id);
    assert_ne!(log[2].invocation_id, log[0].invocation_id);
    assert_snapshot!(contents_shape(&model.last_asked().contents), @"
    00 user   hi
    01 model  0 1 2 3 4 5 
    02 user   again
    ");
}

#[tokio::test(start_paused = true)]
async fn a_draft_is_settled_by_a_turn_without_a_message() {
    let app = app(Fake::says([slow(20), text("hello")]).agent("root")).await;
    killed_after(&app, STEP * 10, "hi").await;
    app.again().await.result.unwrap();
    assert_snapshot!(commits(&app), @"
    begin: user continues
    draft: 0 1 2 3 4 5 
    begin: root settles
    append: root by log
    ");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_continues_after_its_draft() {
    let model = Fake::says([slow(20), text("6 7"), text("bye")]);
    let app = app(model.agent("root")).await;
    killed_after(&app, STEP * 10, "hi").await;
    let ran = app.resume().await;
    assert_snapshot!(ran.shape(), @"
    00 root   0 1 2 3 4 5  [partial=false] [interrupted]
    01 root   6 7
    ");
    assert_snapshot!(commits(&app), @"
    begin: user continues
    draft: 0 1 2 3 4 5 
    append: root continues
    append: root by log
    ");
    assert!(app.log().iter().all(|event| event.invocation_id == app.log()[0].invocation_id));
    app.say("more").await.result.unwrap();
    let [.., resumed, next] = &model.asked()[..] else { panic!("too few requests") };
    assert_snapshot!(contents_shape(&next.contents), @"
    00 user   hi
    01 model  0 1 2 3 4 5 
    02 user   [System: The previous answer was interrupted. Continue exactly where it stopped; do not repeat it.]
    03 model  6 7
    04 user   more
    ");
    assert_eq!(resumed.contents, next.contents[..3]);
    assert_eq!(next.contents[2].text(), CONTINUE_NOTE);
}

#[tokio::test(start_paused = true)]
async fn repeated_crashes_lose_no_saved_text() {
    let app = app(Fake::says([slow(20), slow(20), text("the rest")]).agent("root")).await;
    killed_after(&app, STEP * 10, "hi").await;
    assert!(timeout(STEP * 10, app.run(streaming(Input::Resume))).await.is_err());
    app.resume().await.result.unwrap();
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   0 1 2 3 4 5  [partial=false] [interrupted]
    02 root   0 1 2 3 4 5  [partial=false] [interrupted]
    03 root   the rest
    ");
}

#[tokio::test(start_paused = true)]
async fn the_complete_answer_discards_the_saved_draft() {
    let app = app(Fake::says([slow(8), text("hello")]).agent("root")).await;
    app.stream("hi").await.result.unwrap();
    assert!(commits(&app).contains("draft"));
    app.say("again").await.result.unwrap();
    assert_eq!(app.log().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_preview_keeps_the_draft() {
    let app = app(Fake::says([slow(20), text("hello")]).agent("root")).await;
    killed_after(&app, STEP * 10, "hi").await;
    let before = commits(&app);
    app.runner.preview(&key()).await.unwrap();
    assert_eq!((commits(&app), app.log().len()), (before, 1));
    app.resume().await.result.unwrap();
    assert_eq!(app.log().len(), 3);
}

#[tokio::test]
async fn interrupted_thoughts_are_stored_but_not_in_requests() {
    let model = Fake::says([breaks(vec![Part::thought("hm"), Part::text("\n")]), text("hello")]);
    let app = app(model.agent("root")).await;
    app.stream("hi").await.result.unwrap_err();
    app.again().await.result.unwrap();
    assert_eq!(app.log()[1].interrupted, Some(true));
    assert_snapshot!(contents_shape(&model.last_asked().contents), @"00 user   hi");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_continues_with_the_interrupted_agent() {
    let to_helper = || crate::common::call("transfer_to_agent", serde_json::json!({"agent_name": "helper"}));
    let root = Fake::by_rule(move |_: &LlmRequest| parts(vec![to_helper()]));
    let helper = Fake::says([slow(20), chunks(&["6 ", "7"])]);
    let mut tree = root.agent("root");
    let mut below = helper.agent("helper");
    below.disallow_transfer_to_parent = true;
    tree.sub_agents = vec![below];
    let app = app(tree).await;
    killed_after(&app, STEP * 10, "hi").await;
    app.resume().await.result.unwrap();
    assert_eq!((root.asked().len(), helper.asked().len()), (1, 2));
    assert_eq!(helper.last_asked().contents.last().unwrap().text(), CONTINUE_NOTE);
}

//! What a turn leaves: its run, the state of every scope, files, a title.

use crate::common::{
    Fake, Shared, Tap, asked, both, call, calls, done, failure, key, log, root, runs, say, session_key,
    start, stub, team, text, until,
};
use adk::{
    agent::LlmAgent,
    content::{Content, Data, Part},
    error::{RunError, ServiceError},
    event::Event,
    runner::{Input, RunRequest},
    session::{ArtifactService, Session, SessionService},
};
use bridge::{ArtifactAdapter, Budget, SessionServiceAdapter};
use serde_json::{Map, json};
use session::{Commit, ListQuery, RunStatus, TurnChange};
use std::sync::atomic::Ordering::Relaxed;
use tokio_util::sync::CancellationToken;

/// What a commit does to its run, in a word.
fn change(commit: &Commit) -> &'static str {
    match &commit.turn {
        TurnChange::None => "none",
        TurnChange::Start(_) => "start",
        TurnChange::Step(_) => "step",
        TurnChange::Finish { status, .. } => status.as_str(),
        TurnChange::Cancel { .. } => "cancel",
    }
}

fn changes(tap: &Tap) -> Vec<&'static str> {
    tap.commits().iter().map(change).collect()
}

#[tokio::test]
async fn a_run_starts_and_ends_with_the_commits_of_its_first_and_last_event() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "clock", json!({})), vec![text("Noon."), done()]]);
        let tools = vec![stub(json!({"name": "clock"}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("time?")).await.unwrap();
        let commits = tap.commits();
        let changes: Vec<_> = commits.iter().map(change).collect();
        assert_eq!(changes, ["start", "step", "step", "done"], "{}", place.name);
        assert!(commits.iter().all(|commit| commit.messages.len() == 1));
        let run = runs(&store).await.remove(0);
        assert_eq!((run.status, run.started_after.0, run.last_seq.0), (RunStatus::Done, 0, 4));
    }
}

#[tokio::test]
async fn a_run_that_asks_a_person_waits_with_the_commit_of_its_question() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        let commits = tap.commits();
        let changes: Vec<_> = commits.iter().map(change).collect();
        assert_eq!(changes, ["start", "step", "waiting"], "{}", place.name);
        // The message; the call; the question with the response that says that a person is asked.
        assert_eq!(commits.iter().map(|commit| commit.messages.len()).collect::<Vec<_>>(), [1, 1, 2]);
    }
}

#[tokio::test]
async fn a_run_that_is_corrected_while_a_person_is_asked_is_not_over_before_its_correction() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let nowhere = call("c2", "transfer_to_agent", json!({"agent_name": "ghost"}));
        let model = Fake::new(vec![
            vec![call("c1", "danger", json!({})), nowhere, done()],
            vec![text("Corrected."), done()],
        ]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&store, LlmAgent { tools, ..team(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        assert_eq!(changes(&tap), ["start", "step", "step", "step", "done"], "{}", place.name);
    }
}

#[tokio::test]
async fn a_message_settles_open_questions_and_cancels_their_runs_in_one_commit() {
    for place in both() {
        let ask = |id: &str| vec![call(id, "danger", json!({})), done()];
        let model = Fake::new(vec![ask("c1"), ask("c2"), vec![text("Never mind."), done()]]);
        let tools = || vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&place.store, LlmAgent { tools: tools(), ..root(&model) }).await;
        agent.run_and_collect(say("one")).await.unwrap();
        // Asked once more, it leaves a second question beside the first, in a run of its own.
        agent.run_and_collect(RunRequest { input: Input::Again, ..say("") }).await.unwrap();
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, LlmAgent { tools: tools(), ..root(&model) }).await;
        agent.run_and_collect(say("two")).await.unwrap();
        let commits = tap.commits();
        assert_eq!(commits.iter().map(change).collect::<Vec<_>>(), ["start", "done"], "{}", place.name);
        assert_eq!(commits[0].messages.len(), 3, "both questions and the message are one commit");
        let ended: Vec<_> = runs(&store).await.into_iter().map(|run| (run.status, run.error)).collect();
        let superseded = || (RunStatus::Cancelled, Some(session::run::SUPERSEDED.to_owned()));
        assert_eq!(ended, [superseded(), superseded(), (RunStatus::Done, None)], "{}", place.name);
    }
}

#[tokio::test]
async fn a_run_is_running_until_then() {
    for place in both() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&place.store, root(&model)).await;
        let sent = tokio::spawn(async move { agent.run_and_collect(say("hello")).await });
        until(async || model.requests().len() == 1).await;
        assert_eq!(runs(&place.store).await[0].status, RunStatus::Running, "{}", place.name);
        gate.add_permits(1);
        sent.await.unwrap().unwrap();
        assert_eq!(runs(&place.store).await[0].status, RunStatus::Done);
    }
}

#[tokio::test]
async fn a_run_whose_model_fails_has_failed_in_the_step_that_tells_of_it() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::new(vec![vec![failure("on fire")]]))).await;
        agent.run_and_collect(say("hello")).await.unwrap_err();
        assert_eq!(changes(&tap), ["start", "failed"], "{}", place.name);
        assert_eq!(runs(&store).await[0].error.as_deref(), Some("on fire"));
        // The next message works.
        assert_eq!(agent.run_and_collect(say("again")).await.unwrap(), "re: again");
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_says_so_and_its_calls_are_settled() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&place.store, LlmAgent { tools, ..root(&model) }).await;
        let cancel = CancellationToken::new();
        let sent = tokio::spawn({
            let (agent, cancel) = (agent.clone(), cancel.clone());
            async move { agent.run_and_collect(RunRequest { cancel, ..say("wait") }).await }
        });
        until(async || log(&place.store).await.len() == 2).await;
        cancel.cancel();
        assert!(matches!(sent.await.unwrap(), Err(RunError::Cancelled)), "{}", place.name);
        assert_eq!(runs(&place.store).await[0].status, RunStatus::Cancelled);
        assert!(log(&place.store).await[2].contains("interrupted, outcome unknown"));
        assert_eq!(agent.run_and_collect(say("again")).await.unwrap(), "re: again");
    }
}

#[tokio::test]
async fn a_run_that_finds_nothing_to_do_is_done() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        agent.run_and_collect(say("hello")).await.unwrap();
        let state = json!({"n": 1}).as_object().cloned().unwrap();
        agent
            .run_and_collect(RunRequest { input: Input::Again, state_delta: state, ..say("") })
            .await
            .unwrap();
        assert_eq!(log(&place.store).await.len(), 3, "{}", place.name);
        assert!(runs(&place.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

/// Selects the commits with a message of this role, `times` times.
fn first_commits_with(role: &'static str, times: usize) -> impl Fn(&Commit) -> bool + Send + Sync + 'static {
    let left = std::sync::atomic::AtomicUsize::new(times);
    move |commit| {
        let is_one = commit.messages.iter().any(|message| message.role == role);
        is_one && left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_retried_until_it_is_stored() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        tap.fail(first_commits_with("assistant", 40));
        assert_eq!(agent.run_and_collect(say("one")).await.unwrap(), "re: one", "{}", place.name);
        assert_eq!(agent.run_and_collect(say("two")).await.unwrap(), "re: two");
        let expected = ["user: one", "root: re: one", "user: two", "root: re: two"];
        assert_eq!(log(&store).await, expected, "{}", place.name);
        assert!(runs(&store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_stored_for_long_ends_the_run_and_nothing_else() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "clock", json!({}))]);
        let tools = vec![stub(json!({"name": "clock"}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        tap.fail(|commit| commit.messages.iter().any(|message| message.role == "assistant"));
        let failed = agent.run_and_collect(say("one")).await;
        assert!(
            matches!(failed, Err(RunError::Service(ServiceError::Store(_)))),
            "{}: {failed:?}",
            place.name
        );
        tap.fail_nothing();
        assert_eq!(agent.run_and_collect(say("two")).await.unwrap(), "re: two");
        assert_eq!(log(&store).await, ["user: one", "user: two", "root: re: two"], "{}", place.name);
        let statuses: Vec<_> = runs(&store).await.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Failed, RunStatus::Done]);
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_stored_is_refused_and_leaves_nothing() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        tap.fail(|_| true);
        let failed = agent.run_and_collect(say("one")).await;
        assert!(
            matches!(failed, Err(RunError::Service(ServiceError::Store(_)))),
            "{}: {failed:?}",
            place.name
        );
        assert!(runs(&store).await.is_empty() && log(&store).await.is_empty(), "{}", place.name);
        tap.fail_nothing();
        assert_eq!(agent.run_and_collect(say("one")).await.unwrap(), "re: one");
    }
}

#[tokio::test]
async fn an_event_that_was_not_stored_is_not_shown() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let service = SessionServiceAdapter::new(store.clone(), "root", Budget::default());
        let mut session = service.create(key(), Map::new()).await.unwrap();
        tap.fail(|_| true);
        let mut event = Event { content: Some(Content::user("hello")), ..Event::new("e-1", "user") };
        event.actions.state_delta.insert("n".into(), json!(1));
        service.append(&mut session, event.clone()).await.unwrap_err();
        assert!(session.events().is_empty() && session.state().is_empty(), "{}", place.name);
        tap.fail_nothing();
        service.append(&mut session, event).await.unwrap();
        assert_eq!((session.events().len(), &session.state()["n"]), (1, &json!(1)));
    }
}

#[tokio::test]
async fn state_reaches_as_far_as_its_scope_and_outlives_the_process() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "note", json!({}))]);
        let state = json!({"own": 1, "user:lang": "de", "app:version": 2, "temp:draft": 3});
        let tools = vec![stub(json!({"name": "note", "state": state}))];
        let agent = start(&place.store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("note it")).await.unwrap();
        drop(agent);
        let service = SessionServiceAdapter::new(place.again(), "root", Budget::default());
        let of =
            async |key: &adk::session::SessionKey| service.get_or_create(key).await.unwrap().state().clone();
        let others = adk::session::SessionKey::new("app", "bob", "s1");
        let everything = json!({"own": 1, "app:version": 2, "user:lang": "de"});
        assert_eq!(&of(&key()).await, everything.as_object().unwrap(), "{}", place.name);
        let shared = json!({"app:version": 2, "user:lang": "de"});
        assert_eq!(&of(&session_key("s2")).await, shared.as_object().unwrap());
        assert_eq!(&of(&others).await, json!({"app:version": 2}).as_object().unwrap());
    }
}

#[tokio::test]
async fn an_instruction_is_filled_from_the_state_that_a_message_brings() {
    for place in both() {
        let model = Fake::echo();
        let agent = LlmAgent { instruction: "Answer in {user:lang}.".into(), ..root(&model) };
        let agent = start(&place.store, agent).await;
        let state_delta = json!({"user:lang": "Danish"}).as_object().cloned().unwrap();
        agent.run_and_collect(RunRequest { state_delta, ..say("hi") }).await.unwrap();
        assert_eq!(asked(&model)[0], "system: Answer in Danish.", "{}", place.name);
    }
}

#[tokio::test]
async fn a_file_that_a_tool_saves_is_there_for_the_next_process() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "write", json!({"name": "a.txt"}))]);
        let tools = vec![stub(json!({
            "name": "write",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
            "artifact": {"name": "{name}", "text": "the body"},
            "response": {"version": "{artifact.version}"},
        }))];
        let agent = start(&place.store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("write")).await.unwrap();
        assert!(
            log(&place.store).await.contains(&r#"root: ←write#c1{"version":0}"#.to_owned()),
            "{}",
            place.name
        );
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let deltas: Vec<_> = session.events().iter().map(|event| &event.actions.artifact_delta).collect();
        assert_eq!(deltas[2]["a.txt"], 0);
        let artifacts = ArtifactAdapter::new(place.again());
        let Some(Part { data: Data::InlineData(blob), .. }) =
            artifacts.load(&key(), "a.txt", None).await.unwrap()
        else {
            panic!("no file")
        };
        assert_eq!((blob.data.as_str(), blob.mime_type.as_deref()), ("dGhlIGJvZHk=", Some("text/plain")));
        assert!(artifacts.load(&key(), "b.txt", None).await.unwrap().is_none());
        assert_eq!(artifacts.save(&key(), "a.txt", Part::text("new")).await.unwrap(), 1);
        assert_eq!(artifacts.load(&key(), "a.txt", Some(1)).await.unwrap(), Some(Part::text("new")));
    }
}

#[tokio::test]
async fn the_first_words_of_the_user_are_the_title() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let long = "word ".repeat(40);
        agent.run_and_collect(say(&format!("\n  {long}\nsecond line"))).await.unwrap();
        agent.run_and_collect(say("another")).await.unwrap();
        let rows = place.store.list(ListQuery { limit: 10, ..ListQuery::default() }).await.unwrap();
        assert_eq!(rows[0].title.as_deref(), Some(&long[..80]), "{}", place.name);
    }
}

#[tokio::test]
async fn a_model_that_says_nothing_does_not_spoil_the_next_request() {
    for place in both() {
        let model = Fake::new(vec![vec![done()], vec![text(""), done()], vec![text("  "), done()]]);
        let agent = start(&place.store, root(&model)).await;
        for text in ["one", "two", "three"] {
            assert_eq!(agent.run_and_collect(say(text)).await.unwrap().trim(), "", "{}", place.name);
        }
        assert_eq!(agent.run_and_collect(say("four")).await.unwrap(), "re: four");
        let sent = asked(&model);
        assert!(!sent.iter().any(|line| line.starts_with("assistant")), "{sent:?}");
        assert_eq!(runs(&place.store).await.len(), 4);
    }
}

#[tokio::test]
async fn a_turn_stores_the_same_steps_in_a_long_session_as_in_a_short_one() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        agent.run_and_collect(say("first")).await.unwrap();
        let short = tap.commits().len();
        for _ in 0..30 {
            agent.run_and_collect(say("more")).await.unwrap();
        }
        tap.commits();
        agent.run_and_collect(say("last")).await.unwrap();
        assert_eq!(tap.commits().len(), short, "{}", place.name);
    }
}

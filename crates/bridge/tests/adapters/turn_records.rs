//! The records of a turn: its run, state of every scope, artifacts, the title.

use crate::common::{
    Fake, RecordingStore, Shared, backends, call, calls, done, failure, key, last_request, log, root, runs,
    say, session_key, start, stub, team, text, until,
};
use adk::{
    agent::LlmAgent,
    content::{Content, Data, Part},
    error::{RunError, ServiceError},
    event::Event,
    runner::{Input, RunRequest},
    session::{ArtifactService, Session, SessionService},
};
use bridge::{ArtifactAdapter, Budget, ModelAdapter, SessionServiceAdapter, model::Retries};
use serde_json::{Map, json};
use session::{Commit, ListQuery, RunStatus, TurnChange};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use tokio_util::sync::CancellationToken;

/// The effect of a commit on its run, as one word.
fn change(commit: &Commit) -> &'static str {
    match &commit.turn {
        TurnChange::None => "none",
        TurnChange::Start(_) => "start",
        TurnChange::Step(_) => "step",
        TurnChange::Finish { status, .. } => status.as_str(),
        TurnChange::Cancel { .. } => "cancel",
    }
}

fn changes(recording: &RecordingStore) -> Vec<&'static str> {
    recording.commits().iter().map(change).collect()
}

#[tokio::test]
async fn run_starts_and_ends_with_the_commits_of_its_first_and_last_event() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let model = Fake::new(vec![calls("c1", "clock", json!({})), vec![text("Noon."), done()]]);
        let tools = vec![stub(json!({"name": "clock"}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("time?")).await.unwrap();
        let commits = recording.commits();
        let changes: Vec<_> = commits.iter().map(change).collect();
        assert_eq!(changes, ["start", "step", "step", "done"], "{}", backend.name);
        assert!(commits.iter().all(|commit| commit.messages.len() == 1));
        let run = runs(&store).await.remove(0);
        assert_eq!((run.status, run.started_after.0, run.last_seq.0), (RunStatus::Done, 0, 4));
    }
}

#[tokio::test]
async fn run_becomes_waiting_with_the_commit_of_its_question() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        let commits = recording.commits();
        let changes: Vec<_> = commits.iter().map(change).collect();
        assert_eq!(changes, ["start", "step", "waiting"], "{}", backend.name);
        // The message; the call; the question with its pending response.
        assert_eq!(commits.iter().map(|commit| commit.messages.len()).collect::<Vec<_>>(), [1, 1, 2]);
    }
}

#[tokio::test]
async fn run_with_an_open_question_waits_after_its_correction() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let nowhere = call("c2", "transfer_to_agent", json!({"agent_name": "ghost"}));
        let model = Fake::new(vec![
            vec![call("c1", "danger", json!({})), nowhere, done()],
            vec![text("Corrected."), done()],
        ]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&store, LlmAgent { tools, ..team(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        assert_eq!(changes(&recording), ["start", "step", "step", "step", "waiting"], "{}", backend.name);
    }
}

#[tokio::test]
async fn message_settles_open_questions_and_cancels_their_runs_in_one_commit() {
    for backend in backends() {
        let ask = |id: &str| vec![call(id, "danger", json!({})), done()];
        let model = Fake::new(vec![ask("c1"), ask("c2"), vec![text("Never mind."), done()]]);
        let tools = || vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&backend.store, LlmAgent { tools: tools(), ..root(&model) }).await;
        agent.run_and_collect(say("one")).await.unwrap();
        // Asked again, the agent leaves a second question beside the first, in another run.
        agent.run_and_collect(RunRequest { input: Input::Again, ..say("") }).await.unwrap();
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start(&store, LlmAgent { tools: tools(), ..root(&model) }).await;
        agent.run_and_collect(say("two")).await.unwrap();
        let commits = recording.commits();
        assert_eq!(commits.iter().map(change).collect::<Vec<_>>(), ["start", "done"], "{}", backend.name);
        assert_eq!(commits[0].messages.len(), 3, "both questions and the message are one commit");
        let ended: Vec<_> = runs(&store).await.into_iter().map(|run| (run.status, run.error)).collect();
        let superseded = || (RunStatus::Cancelled, Some(session::run::SUPERSEDED.to_owned()));
        assert_eq!(ended, [superseded(), superseded(), (RunStatus::Done, None)], "{}", backend.name);
    }
}

#[tokio::test]
async fn run_status_is_running_during_the_turn() {
    for backend in backends() {
        let (model, gate) = Fake::gated(Vec::new());
        let agent = start(&backend.store, root(&model)).await;
        let sent = tokio::spawn(async move { agent.run_and_collect(say("hello")).await });
        until(async || model.requests().len() == 1).await;
        assert_eq!(runs(&backend.store).await[0].status, RunStatus::Running, "{}", backend.name);
        gate.add_permits(1);
        sent.await.unwrap().unwrap();
        assert_eq!(runs(&backend.store).await[0].status, RunStatus::Done);
    }
}

#[tokio::test]
async fn run_fails_with_the_commit_of_the_models_error() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start(&store, root(&Fake::new(vec![vec![failure("on fire")]]))).await;
        agent.run_and_collect(say("hello")).await.unwrap_err();
        assert_eq!(changes(&recording), ["start", "failed"], "{}", backend.name);
        assert_eq!(runs(&store).await[0].error.as_deref(), Some("on fire"));
        // The next message works.
        assert_eq!(agent.run_and_collect(say("again")).await.unwrap(), "re: again");
    }
}

#[tokio::test]
async fn cancelled_run_has_status_cancelled_and_its_calls_are_settled() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&backend.store, LlmAgent { tools, ..root(&model) }).await;
        let cancel = CancellationToken::new();
        let sent = tokio::spawn({
            let (agent, cancel) = (agent.clone(), cancel.clone());
            async move { agent.run_and_collect(RunRequest { cancel, ..say("wait") }).await }
        });
        until(async || log(&backend.store).await.len() == 2).await;
        cancel.cancel();
        assert!(matches!(sent.await.unwrap(), Err(RunError::Cancelled)), "{}", backend.name);
        assert_eq!(runs(&backend.store).await[0].status, RunStatus::Cancelled);
        assert!(log(&backend.store).await[2].contains("interrupted, outcome unknown"));
        assert_eq!(agent.run_and_collect(say("again")).await.unwrap(), "re: again");
    }
}

#[tokio::test]
async fn resumed_run_without_work_is_done() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        agent.run_and_collect(say("hello")).await.unwrap();
        let state = json!({"n": 1}).as_object().cloned().unwrap();
        agent
            .run_and_collect(RunRequest { input: Input::Again, state_delta: state, ..say("") })
            .await
            .unwrap();
        assert_eq!(log(&backend.store).await.len(), 3, "{}", backend.name);
        assert!(runs(&backend.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

/// Selects the first `times` commits with a message of this role.
fn first_commits_with(role: &'static str, times: usize) -> impl Fn(&Commit) -> bool + Send + Sync + 'static {
    let left = std::sync::atomic::AtomicUsize::new(times);
    move |commit| {
        let is_one = commit.messages.iter().any(|message| message.role == role);
        is_one && left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn commit_that_ends_a_run_is_retried_until_it_is_stored() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        recording.fail(first_commits_with("assistant", 40));
        assert_eq!(agent.run_and_collect(say("one")).await.unwrap(), "re: one", "{}", backend.name);
        assert_eq!(agent.run_and_collect(say("two")).await.unwrap(), "re: two");
        let expected = ["user: one", "root: re: one", "user: two", "root: re: two"];
        assert_eq!(log(&store).await, expected, "{}", backend.name);
        assert!(runs(&store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

#[tokio::test(start_paused = true)]
async fn step_that_cannot_be_stored_fails_the_run() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let model = Fake::new(vec![calls("c1", "clock", json!({}))]);
        let tools = vec![stub(json!({"name": "clock"}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        recording.fail(|commit| commit.messages.iter().any(|message| message.role == "assistant"));
        let failed = agent.run_and_collect(say("one")).await;
        assert!(
            matches!(failed, Err(RunError::Service(ServiceError::Store(_)))),
            "{}: {failed:?}",
            backend.name
        );
        recording.fail_nothing();
        assert_eq!(agent.run_and_collect(say("two")).await.unwrap(), "re: two");
        assert_eq!(log(&store).await, ["user: one", "user: two", "root: re: two"], "{}", backend.name);
        let statuses: Vec<_> = runs(&store).await.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Failed, RunStatus::Done]);
    }
}

#[tokio::test]
async fn message_that_cannot_be_stored_is_refused() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        recording.fail(|_| true);
        let failed = agent.run_and_collect(say("one")).await;
        assert!(
            matches!(failed, Err(RunError::Service(ServiceError::Store(_)))),
            "{}: {failed:?}",
            backend.name
        );
        assert!(runs(&store).await.is_empty() && log(&store).await.is_empty(), "{}", backend.name);
        recording.fail_nothing();
        assert_eq!(agent.run_and_collect(say("one")).await.unwrap(), "re: one");
    }
}

#[tokio::test]
async fn event_that_is_not_stored_is_not_visible() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let service = SessionServiceAdapter::new(store.clone(), "root", Budget::default());
        let mut session = service.create(key(), Map::new()).await.unwrap();
        recording.fail(|_| true);
        let mut event = Event { content: Some(Content::user("hello")), ..Event::new("e-1", "user") };
        event.actions.state_delta.insert("n".into(), json!(1));
        service.append(&mut session, event.clone()).await.unwrap_err();
        assert!(session.events().is_empty() && session.state().is_empty(), "{}", backend.name);
        recording.fail_nothing();
        service.append(&mut session, event).await.unwrap();
        assert_eq!((session.events().len(), &session.state()["n"]), (1, &json!(1)));
    }
}

#[tokio::test]
async fn state_is_visible_in_its_scope_and_survives_a_restart() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "note", json!({}))]);
        let state = json!({"own": 1, "user:lang": "de", "app:version": 2, "temp:draft": 3});
        let tools = vec![stub(json!({"name": "note", "state": state}))];
        let agent = start(&backend.store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("note it")).await.unwrap();
        drop(agent);
        let service = SessionServiceAdapter::new(backend.again(), "root", Budget::default());
        let of =
            async |key: &adk::session::SessionKey| service.get_or_create(key).await.unwrap().state().clone();
        let others = adk::session::SessionKey::new("app", "bob", "s1");
        let everything = json!({"own": 1, "app:version": 2, "user:lang": "de"});
        assert_eq!(&of(&key()).await, everything.as_object().unwrap(), "{}", backend.name);
        let shared = json!({"app:version": 2, "user:lang": "de"});
        assert_eq!(&of(&session_key("s2")).await, shared.as_object().unwrap());
        assert_eq!(&of(&others).await, json!({"app:version": 2}).as_object().unwrap());
    }
}

#[tokio::test]
async fn instruction_is_filled_from_the_state_delta_of_the_message() {
    for backend in backends() {
        let model = Fake::echo();
        let agent = LlmAgent { instruction: "Answer in {user:lang}.".into(), ..root(&model) };
        let agent = start(&backend.store, agent).await;
        let state_delta = json!({"user:lang": "Danish"}).as_object().cloned().unwrap();
        agent.run_and_collect(RunRequest { state_delta, ..say("hi") }).await.unwrap();
        assert_eq!(last_request(&model)[0], "system: Answer in Danish.", "{}", backend.name);
    }
}

#[tokio::test]
async fn artifact_saved_by_a_tool_survives_a_restart() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "write", json!({"name": "a.txt"}))]);
        let tools = vec![stub(json!({
            "name": "write",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
            "artifact": {"name": "{name}", "text": "the body"},
            "response": {"version": "{artifact.version}"},
        }))];
        let agent = start(&backend.store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("write")).await.unwrap();
        assert!(
            log(&backend.store).await.contains(&r#"root: ←write#c1{"version":0}"#.to_owned()),
            "{}",
            backend.name
        );
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let deltas: Vec<_> = session.events().iter().map(|event| &event.actions.artifact_delta).collect();
        assert_eq!(deltas[2]["a.txt"], 0);
        let artifacts = ArtifactAdapter::new(backend.again());
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
async fn first_user_message_becomes_the_title() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        let long = "word ".repeat(40);
        agent.run_and_collect(say(&format!("\n  {long}\nsecond line"))).await.unwrap();
        agent.run_and_collect(say("another")).await.unwrap();
        let rows = backend.store.list(ListQuery { limit: 10, ..ListQuery::default() }).await.unwrap();
        assert_eq!(rows[0].title.as_deref(), Some(&long[..80]), "{}", backend.name);
    }
}

#[tokio::test]
async fn empty_model_response_leaves_the_next_request_legal() {
    for backend in backends() {
        let model = Fake::new(vec![vec![done()], vec![text(""), done()], vec![text("  "), done()]]);
        let retries = Retries { attempts: 1, ..Retries::default() };
        let adapter = ModelAdapter::new(model.clone(), "small", Budget::default()).with_retries(retries);
        let agent = start(&backend.store, LlmAgent { model: Arc::new(adapter), ..root(&model) }).await;
        for text in ["one", "two", "three"] {
            let error = agent.run_and_collect(say(text)).await.unwrap_err();
            assert!(error.to_string().ends_with("sent an empty answer"), "{}: {error}", backend.name);
        }
        assert_eq!(agent.run_and_collect(say("four")).await.unwrap(), "re: four");
        let sent = last_request(&model);
        assert!(!sent.iter().any(|line| line.starts_with("assistant")), "{sent:?}");
        assert_eq!(runs(&backend.store).await.len(), 4);
    }
}

#[tokio::test]
async fn turn_has_the_same_commits_in_long_and_short_sessions() {
    for backend in backends() {
        let recording = RecordingStore::on(&backend.store);
        let store: Shared = recording.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        agent.run_and_collect(say("first")).await.unwrap();
        let short = recording.commits().len();
        for _ in 0..30 {
            agent.run_and_collect(say("more")).await.unwrap();
        }
        recording.commits();
        agent.run_and_collect(say("last")).await.unwrap();
        assert_eq!(recording.commits().len(), short, "{}", backend.name);
    }
}

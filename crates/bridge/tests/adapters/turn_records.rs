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
use session::{Append, ListQuery, RunStatus};
use tokio_util::sync::CancellationToken;

fn status(step: &Append) -> Option<RunStatus> {
    step.run.as_ref().map(|run| run.status)
}

#[tokio::test]
async fn a_run_ends_in_the_step_that_stores_its_last_event() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "clock", json!({})), vec![text("Noon."), done()]]);
        let tools = vec![stub(json!({"name": "clock"}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("time?")).await.unwrap();
        let steps = tap.steps();
        let statuses: Vec<_> = steps.iter().map(status).collect();
        assert_eq!(statuses, [None, None, None, Some(RunStatus::Done)], "{}", place.name);
        assert!(steps.iter().all(|step| step.message.is_some()));
        // It begins, and is written down as begun, in its first.
        assert!(steps.iter().map(|step| step.epoch.is_some()).eq([false, true, true, true]));
        assert!(steps.iter().map(|step| step.enters.is_some()).eq([true, false, false, false]));
        assert!(steps.iter().map(|step| step.starts.is_some()).eq([true, false, false, false]));
        // The turn is given back in it too.
        assert!(steps.iter().map(|step| step.release).eq([false, false, false, true]));
        assert_eq!(tap.releases(), 0);
        let run = runs(&store).await.remove(0);
        assert_eq!((run.status, run.started_after.0, run.last_seq.0), (RunStatus::Done, 0, 4));
    }
}

#[tokio::test]
async fn a_run_that_asks_a_person_ends_with_the_answers_of_its_step() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&store, LlmAgent { tools, ..root(&model) }).await;
        agent.run_and_collect(say("go")).await.unwrap();
        let steps = tap.steps();
        let statuses: Vec<_> = steps.iter().map(status).collect();
        // The message, the call, the question, the answer for now.
        assert_eq!(statuses, [None, None, None, Some(RunStatus::Waiting)], "{}", place.name);
        assert!(steps.iter().map(|step| step.release).eq([false, false, false, true]));
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
        let (last, before) =
            tap.steps().split_last().map(|(last, before)| (last.clone(), before.to_vec())).unwrap();
        assert!(before.iter().all(|step| status(step).is_none() && !step.release), "{}", place.name);
        assert_eq!((status(&last), last.release), (Some(RunStatus::Done), true));
        // The turn was one, and its own all the time.
        assert!(before.iter().skip(1).chain([&last]).all(|step| step.epoch.is_some()));
    }
}

#[tokio::test]
async fn what_is_settled_before_a_message_ends_no_run() {
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
        let statuses: Vec<_> = tap.steps().iter().map(status).collect();
        assert_eq!(statuses.len(), 4, "both questions, the message, the answer");
        let (last, before) = statuses.split_last().unwrap();
        assert_eq!(*last, Some(RunStatus::Done), "{}", place.name);
        assert!(before.iter().all(Option::is_none), "{}: {statuses:?}", place.name);
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
        let statuses: Vec<_> = tap.steps().iter().map(status).collect();
        assert_eq!(statuses, [None, Some(RunStatus::Failed)], "{}", place.name);
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
        agent.run_and_collect(RunRequest { input: Input::Resume, ..say("") }).await.unwrap();
        assert_eq!(log(&place.store).await.len(), 2, "{}", place.name);
        assert!(runs(&place.store).await.iter().all(|run| run.status == RunStatus::Done));
    }
}

#[tokio::test]
async fn a_step_that_cannot_be_stored_ends_the_run_and_nothing_else() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let agent = start(&store, root(&Fake::echo())).await;
        assert_eq!(agent.run_and_collect(say("one")).await.unwrap(), "re: one");
        tap.refuse(|step| step.message.as_ref().is_some_and(|message| message.role == "assistant"));
        let failed = agent.run_and_collect(say("two")).await;
        assert!(
            matches!(failed, Err(RunError::Service(ServiceError::Store(_)))),
            "{}: {failed:?}",
            place.name
        );
        tap.refuse_nothing();
        assert_eq!(agent.run_and_collect(say("three")).await.unwrap(), "re: three");
        let expected = ["user: one", "root: re: one", "user: two", "user: three", "root: re: three"];
        assert_eq!(log(&store).await, expected);
        let statuses: Vec<_> = runs(&store).await.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Done, RunStatus::Failed, RunStatus::Done]);
    }
}

#[tokio::test]
async fn an_event_that_was_not_stored_is_not_shown() {
    for place in both() {
        let tap = Tap::on(&place.store);
        let store: Shared = tap.clone();
        let service = SessionServiceAdapter::new(store.clone(), "root", Budget::default());
        let mut session = service.create(key(), Map::new()).await.unwrap();
        tap.refuse(|_| true);
        let mut event = Event { content: Some(Content::user("hello")), ..Event::new("e-1", "user") };
        event.actions.state_delta.insert("n".into(), json!(1));
        service.append(&mut session, event.clone()).await.unwrap_err();
        assert!(session.events().is_empty() && session.state().is_empty(), "{}", place.name);
        tap.refuse_nothing();
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
        let short = tap.steps().len();
        for _ in 0..30 {
            agent.run_and_collect(say("more")).await.unwrap();
        }
        tap.steps();
        agent.run_and_collect(say("last")).await.unwrap();
        assert_eq!(tap.steps().len(), short, "{}", place.name);
    }
}

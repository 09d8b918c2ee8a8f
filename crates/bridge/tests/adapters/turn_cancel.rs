//! Cancelling runs that wait for a person, and runs of other processes.

use crate::common::{
    Elsewhere, Fake, Shared, asked, both, call, calls, done, enqueue, key, log, root, runs, say, start, stub,
    text, until,
};
use adk::{
    agent::LlmAgent,
    content::{Content, FunctionResponse, Part},
    error::RunError,
    pending::REQUEST_CONFIRMATION,
    runner::RunRequest,
    session::{Session, SessionService},
};
use bridge::{
    Agent, Runs,
    runs::{CancelOutcome, Cursor, RunOutcome, RunStatus, StartError, StartOptions},
};
use provider::StreamEvent;
use serde_json::{Value, json};
use std::sync::Arc;

fn says(words: &str) -> Vec<StreamEvent> {
    vec![text(words), done()]
}

/// An agent with a tool that asks, one that runs long, and one that answers at once.
fn busy(model: &Arc<Fake>) -> LlmAgent {
    let tools = vec![
        stub(json!({"name": "danger", "confirm": true, "response": {"done": true}})),
        stub(json!({"name": "job", "pending": true, "response": {"ticket": 7}})),
        stub(json!({"name": "clock", "response": {"time": "noon"}})),
    ];
    LlmAgent { tools, ..root(model) }
}

async fn started(store: &Shared, model: &Arc<Fake>) -> (Runs, Agent) {
    let runs = Runs::new(store.clone());
    let agent = start(store, busy(model)).await.with_turns(runs.turns().clone());
    (runs, agent)
}

fn answer(id: &str, name: &str, response: Value) -> RunRequest {
    let part = Part::from(FunctionResponse::new(id, name, response));
    RunRequest::message(key(), Content::new("user", vec![part]))
}

async fn questions(agent: &Agent) -> Vec<String> {
    let session = agent.sessions().get(&key()).await.unwrap().unwrap();
    session.pending().questions.iter().map(|question| question.id.clone()).collect()
}

async fn statuses(store: &Shared) -> Vec<RunStatus> {
    runs(store).await.iter().map(|run| run.status).collect()
}

/// Runs to the end; answers with the id of the run.
async fn run(runs: &Runs, agent: &Agent, request: RunRequest) -> String {
    let reader = runs.start(agent, request, StartOptions::default()).await.unwrap();
    runs.idle().await;
    reader.id().to_owned()
}

#[tokio::test]
async fn a_waiting_run_is_cancelled_and_its_question_is_settled() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let (runs, agent) = started(&place.store, &model).await;
        let id = run(&runs, &agent, say("clean up")).await;
        let question = questions(&agent).await.remove(0);
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Over, "{}", place.name);
        assert_eq!(statuses(&place.store).await, [RunStatus::Cancelled]);
        assert!(questions(&agent).await.is_empty());
        assert_eq!(log(&place.store).await.last().unwrap(), "root: ←answer");
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let [.., asked_by, _, settled] = session.events() else { panic!("{:?}", session.events()) };
        assert_eq!(settled.node_info.path, asked_by.node_info.path);
        assert_eq!(settled.invocation_id, asked_by.invocation_id);

        let late = answer(&question, REQUEST_CONFIRMATION, json!({"confirmed": true}));
        let late = runs.start(&agent, late, StartOptions::default()).await;
        assert!(matches!(late, Err(StartError::Run(RunError::UnknownCall { .. }))), "{late:?}");
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Over);
        run(&runs, &agent, say("and now?")).await;
        let error = r#"{"error":"This tool call requires confirmation, please approve or reject."}"#;
        let expected = [
            "user: clean up".to_owned(),
            "assistant: →danger#c1{}".to_owned(),
            format!("tool: ←danger#c1{error}"),
            "user: and now?".to_owned(),
        ];
        assert_eq!(asked(&model), expected);
    }
}

#[tokio::test]
async fn readers_of_a_waiting_run_that_is_cancelled_see_the_withdrawal_and_the_end() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let (runs, agent) = started(&place.store, &model).await;
        let id = run(&runs, &agent, say("clean up")).await;
        runs.cancel(&key(), &id).await.unwrap();
        let mut reader = runs.reader(&key(), &id, Cursor::default()).await.unwrap().unwrap();
        let mut seen = Vec::new();
        let end = loop {
            match reader.next().await.unwrap() {
                Ok(entry) => seen.push(entry.event),
                Err(end) => break end,
            }
        };
        assert_eq!((seen.len(), end), (4, RunOutcome::Cancelled), "{}", place.name);
        assert_eq!(seen[3].responses().next().unwrap().name, REQUEST_CONFIRMATION);
    }
}

/// The event that withdraws a question belongs to the run that asked, whichever run stores it.
#[tokio::test]
async fn a_superseded_question_is_settled_for_the_readers_of_its_own_run() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let (runs, agent) = started(&place.store, &model).await;
        let asked = run(&runs, &agent, say("clean up")).await;
        let next = run(&runs, &agent, say("never mind")).await;
        assert_eq!(statuses(&place.store).await, [RunStatus::Cancelled, RunStatus::Done], "{}", place.name);
        let events = async |id: &str| {
            let mut reader = runs.reader(&key(), id, Cursor::default()).await.unwrap().unwrap();
            let mut events = Vec::new();
            while let Ok(entry) = reader.next().await.unwrap() {
                events.push(entry.event);
            }
            events
        };
        let (of_asked, of_next) = (events(&asked).await, events(&next).await);
        assert_eq!((of_asked.len(), of_next.len()), (4, 1), "{}", place.name);
        assert_eq!(of_asked[3].responses().next().unwrap().name, REQUEST_CONFIRMATION);
        assert_eq!(of_asked[3].invocation_id, of_asked[2].invocation_id);
        assert!(of_next[0].responses().next().is_none(), "{:?}", of_next[0]);
    }
}

/// The result of long work is a run of its own, and leaves the question of another run open.
#[tokio::test]
async fn a_run_waits_for_answers_to_its_own_questions_only() {
    for place in both() {
        let clock = || calls("c3", "clock", json!({}));
        let model = Fake::new(vec![
            calls("c1", "job", json!({})),
            says("It runs."),
            calls("c2", "danger", json!({})),
            clock(),
            says("It is noon."),
        ]);
        let (runs, agent) = started(&place.store, &model).await;
        run(&runs, &agent, say("work")).await;
        run(&runs, &agent, say("clean up")).await;
        run(&runs, &agent, answer("c1", "job", json!({"result": 42}))).await;
        assert_eq!(log(&place.store).await.last().unwrap(), "root: It is noon.", "{}", place.name);
        let ended = [RunStatus::Done, RunStatus::Waiting, RunStatus::Done];
        assert_eq!(statuses(&place.store).await, ended, "{}", place.name);
        assert_eq!(questions(&agent).await.len(), 1);
    }
}

#[tokio::test]
async fn a_waiting_run_is_not_cancelled_while_another_run_of_its_session_goes_on() {
    for place in both() {
        let both_calls = vec![call("c1", "job", json!({})), call("c2", "danger", json!({})), done()];
        let (model, gate) = Fake::gated(vec![both_calls, says("Fine.")]);
        gate.add_permits(1);
        let (runs, agent) = started(&place.store, &model).await;
        let id = run(&runs, &agent, say("work")).await;
        let result = answer("c1", "job", json!({"result": 42}));
        let late = runs.start(&agent, result, StartOptions::default()).await.unwrap();
        until(async || model.requests().len() == 2).await;
        assert_ne!(late.id(), id);
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Busy, "{}", place.name);
        gate.add_permits(1);
        runs.idle().await;
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Over, "{}", place.name);
        assert_eq!(statuses(&place.store).await, [RunStatus::Cancelled, RunStatus::Done]);
    }
}

#[tokio::test]
async fn a_run_of_another_process_is_not_cancelled_here() {
    for place in both() {
        let (runs, _agent) = started(&place.store, &Fake::echo()).await;
        let elsewhere = Elsewhere::new(&place);
        enqueue(&place.store, elsewhere.name(), "there").await;
        assert_eq!(runs.cancel(&key(), "there").await.unwrap(), CancelOutcome::Elsewhere, "{}", place.name);
        assert_eq!(statuses(&place.store).await, [RunStatus::Queued]);
    }
}

//! Cancellation of runs that wait for a person, and of runs of other processes.

use crate::common::{
    Elsewhere, Fake, Shared, backends, call, calls, done, enqueue, key, last_request, log, root, runs, say,
    start, stub, text, until,
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
    runs::{CancelOutcome, Cursor, ReaderItem, RunOutcome, RunStatus, StartError, StartOptions},
};
use provider::StreamEvent;
use serde_json::{Value, json};
use std::sync::Arc;

fn says(words: &str) -> Vec<StreamEvent> {
    vec![text(words), done()]
}

/// An agent with a tool that requires approval, a long-running tool, and a tool that returns at once.
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

/// Runs to the end and returns the id of the run.
async fn run(runs: &Runs, agent: &Agent, request: RunRequest) -> String {
    let reader = runs.start(agent, request, StartOptions::default()).await.unwrap();
    runs.idle().await;
    reader.id().to_owned()
}

#[tokio::test]
async fn cancelling_a_waiting_run_settles_its_question() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let (runs, agent) = started(&backend.store, &model).await;
        let id = run(&runs, &agent, say("clean up")).await;
        let question = questions(&agent).await.remove(0);
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Over, "{}", backend.name);
        assert_eq!(statuses(&backend.store).await, [RunStatus::Cancelled]);
        assert!(questions(&agent).await.is_empty());
        assert_eq!(log(&backend.store).await.last().unwrap(), "root: ←answer");
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
        assert_eq!(last_request(&model), expected);
    }
}

#[tokio::test]
async fn readers_of_a_cancelled_waiting_run_see_the_withdrawal_and_the_end() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let (runs, agent) = started(&backend.store, &model).await;
        let id = run(&runs, &agent, say("clean up")).await;
        runs.cancel(&key(), &id).await.unwrap();
        let mut reader = runs.reader(&key(), &id, Cursor::default()).await.unwrap().unwrap();
        let mut seen = Vec::new();
        let end = loop {
            match reader.next().await.unwrap() {
                ReaderItem::Entry(entry) => seen.push(entry.event),
                ReaderItem::End(end) => break end,
            }
        };
        assert_eq!((seen.len(), end), (4, RunOutcome::Cancelled), "{}", backend.name);
        assert_eq!(seen[3].responses().next().unwrap().name, REQUEST_CONFIRMATION);
    }
}

/// The event that withdraws a question belongs to the asking run, although another run stores it.
#[tokio::test]
async fn readers_of_the_asking_run_see_its_question_superseded() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "danger", json!({}))]);
        let (runs, agent) = started(&backend.store, &model).await;
        let asked = run(&runs, &agent, say("clean up")).await;
        let next = run(&runs, &agent, say("never mind")).await;
        assert_eq!(
            statuses(&backend.store).await,
            [RunStatus::Cancelled, RunStatus::Done],
            "{}",
            backend.name
        );
        let events = async |id: &str| {
            let mut reader = runs.reader(&key(), id, Cursor::default()).await.unwrap().unwrap();
            let mut events = Vec::new();
            while let ReaderItem::Entry(entry) = reader.next().await.unwrap() {
                events.push(entry.event);
            }
            events
        };
        let (of_asked, of_next) = (events(&asked).await, events(&next).await);
        assert_eq!((of_asked.len(), of_next.len()), (4, 1), "{}", backend.name);
        assert_eq!(of_asked[3].responses().next().unwrap().name, REQUEST_CONFIRMATION);
        assert_eq!(of_asked[3].invocation_id, of_asked[2].invocation_id);
        assert!(of_next[0].responses().next().is_none(), "{:?}", of_next[0]);
    }
}

/// The result of a long-running call is a separate run, and leaves the question of the other run open.
#[tokio::test]
async fn run_waits_for_answers_to_its_own_questions_only() {
    for backend in backends() {
        let clock = || calls("c3", "clock", json!({}));
        let model = Fake::new(vec![
            calls("c1", "job", json!({})),
            says("It runs."),
            calls("c2", "danger", json!({})),
            clock(),
            says("It is noon."),
        ]);
        let (runs, agent) = started(&backend.store, &model).await;
        run(&runs, &agent, say("work")).await;
        run(&runs, &agent, say("clean up")).await;
        run(&runs, &agent, answer("c1", "job", json!({"result": 42}))).await;
        assert_eq!(log(&backend.store).await.last().unwrap(), "root: It is noon.", "{}", backend.name);
        let ended = [RunStatus::Done, RunStatus::Waiting, RunStatus::Done];
        assert_eq!(statuses(&backend.store).await, ended, "{}", backend.name);
        assert_eq!(questions(&agent).await.len(), 1);
    }
}

#[tokio::test]
async fn waiting_run_cannot_be_cancelled_while_another_run_holds_the_lease() {
    for backend in backends() {
        let both_calls = vec![call("c1", "job", json!({})), call("c2", "danger", json!({})), done()];
        let (model, gate) = Fake::gated(vec![both_calls, says("Fine.")]);
        gate.add_permits(1);
        let (runs, agent) = started(&backend.store, &model).await;
        let id = run(&runs, &agent, say("work")).await;
        let result = answer("c1", "job", json!({"result": 42}));
        let late = runs.start(&agent, result, StartOptions::default()).await.unwrap();
        until(async || model.requests().len() == 2).await;
        assert_ne!(late.id(), id);
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Busy, "{}", backend.name);
        gate.add_permits(1);
        runs.idle().await;
        assert_eq!(runs.cancel(&key(), &id).await.unwrap(), CancelOutcome::Over, "{}", backend.name);
        assert_eq!(statuses(&backend.store).await, [RunStatus::Cancelled, RunStatus::Done]);
    }
}

#[tokio::test]
async fn run_of_another_process_cannot_be_cancelled() {
    for backend in backends() {
        let (runs, _agent) = started(&backend.store, &Fake::echo()).await;
        let elsewhere = Elsewhere::new(&backend);
        enqueue(&backend.store, elsewhere.name(), "there").await;
        assert_eq!(runs.cancel(&key(), "there").await.unwrap(), CancelOutcome::Elsewhere, "{}", backend.name);
        assert_eq!(statuses(&backend.store).await, [RunStatus::Queued]);
    }
}

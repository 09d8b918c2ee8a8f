//! Questions to people and long-running calls: the answer may arrive after a restart, and after the call has left the
//! window.

use crate::common::{
    Fake, Recorder, Shared, backends, call, calls, done, key, last_request, log, named_within, root, runs,
    say, start, start_within, stub, team, text,
};
use adk::{
    agent::LlmAgent,
    content::{Content, FunctionResponse, Part},
    error::RunError,
    event::Event,
    pending::REQUEST_CONFIRMATION,
    runner::RunRequest,
    session::{Session, SessionService},
};
use bridge::{
    Agent, Budget, Runs,
    runs::{ReaderItem, StartError, StartOptions},
};
use serde_json::{Map, Value, json};
use session::RunStatus;
use std::sync::Arc;

fn answer(id: &str, name: &str, response: Value) -> RunRequest {
    let part = Part::from(FunctionResponse::new(id, name, response));
    RunRequest::message(key(), Content::new("user", vec![part]))
}

/// The ids of the open questions, in order.
async fn questions(agent: &Agent) -> Vec<String> {
    let session = agent.sessions().get(&key()).await.unwrap().unwrap();
    session.pending().questions.iter().map(|question| question.id.clone()).collect()
}

fn dangerous(model: &Arc<Fake>) -> LlmAgent {
    let tools = vec![
        stub(json!({"name": "danger", "confirm": true, "response": {"done": "{what}"}})),
        stub(json!({"name": "clock", "response": {"time": "noon"}})),
    ];
    LlmAgent { tools, ..root(model) }
}

async fn statuses(store: &Shared) -> Vec<RunStatus> {
    runs(store).await.iter().map(|run| run.status).collect()
}

#[tokio::test]
async fn confirmation_of_a_call_survives_a_restart() {
    for (confirmed, outcome) in
        [(true, r#"{"done":"rm"}"#), (false, r#"{"error":"This tool call is rejected."}"#)]
    {
        for backend in backends() {
            let model = Fake::new(vec![calls("c1", "danger", json!({"what": "rm"}))]);
            let agent = start(&backend.store, dangerous(&model)).await;
            assert_eq!(agent.run_and_collect(say("clean up")).await.unwrap(), "", "{}", backend.name);
            assert_eq!(statuses(&backend.store).await, [RunStatus::Waiting]);
            drop(agent);

            let model = Fake::new(vec![vec![text("So be it."), done()]]);
            let store = backend.again();
            let agent = start(&store, dangerous(&model)).await;
            let [question] = &questions(&agent).await[..] else { panic!("one question") };
            let request = answer(question, REQUEST_CONFIRMATION, json!({"confirmed": confirmed}));
            assert_eq!(agent.run_and_collect(request).await.unwrap(), "So be it.");
            assert_eq!(
                last_request(&model),
                [
                    "user: clean up".to_owned(),
                    r#"assistant: →danger#c1{"what":"rm"}"#.to_owned(),
                    format!("tool: ←danger#c1{outcome}"),
                ]
            );
            assert_eq!(statuses(&store).await, [RunStatus::Done], "the answer continues the run");
            assert!(questions(&agent).await.is_empty());
        }
    }
}

#[tokio::test]
async fn parallel_calls_need_their_own_confirmations_and_others_run() {
    for backend in backends() {
        let all = vec![
            call("c1", "danger", json!({"what": "a"})),
            call("c2", "clock", json!({})),
            call("c3", "danger", json!({"what": "b"})),
            done(),
        ];
        let model = Fake::new(vec![all]);
        let agent = start(&backend.store, dangerous(&model)).await;
        agent.run_and_collect(say("clean up")).await.unwrap();
        let waiting = questions(&agent).await;
        assert_eq!(waiting.len(), 2, "{}", backend.name);
        assert!(log(&backend.store).await.concat().contains(r#"←clock#c2{"time":"noon"}"#));
        for (question, confirmed) in waiting.iter().zip([true, false]) {
            let request = answer(question, REQUEST_CONFIRMATION, json!({"confirmed": confirmed}));
            agent.run_and_collect(request).await.unwrap();
        }
        let sent = last_request(&model);
        let answers = sent.iter().find(|line| line.starts_with("tool: ")).unwrap();
        assert_eq!(
            answers,
            r#"tool: ←danger#c1{"done":"a"} ←clock#c2{"time":"noon"} ←danger#c3{"error":"This tool call is rejected."}"#
        );
        assert!(questions(&agent).await.is_empty());
    }
}

/// The last request fits the budget and starts with the user request.
fn assert_opens_with_the_task(model: &Fake, budget: Budget, context: &str) {
    let request = model.last_request();
    assert!(bridge::view::cost::of_messages(&request.messages) <= budget.tokens(), "{context}: {request:?}");
    let sent = last_request(model);
    assert_eq!(sent[0], "user: [Earlier messages are not shown.] The request was: list it all", "{context}");
    assert_eq!(sent.concat().matches("list it all").count(), 1, "{context}: {sent:?}");
}

#[tokio::test]
async fn request_of_a_long_turn_is_known_after_an_answer_and_after_a_restart() {
    for backend in backends() {
        let budget = Budget::new(300, None).unwrap();
        let look = |number| calls(&format!("c{number}"), "look", json!({"city": "word ".repeat(50)}));
        let danger = |id: &str| calls(id, "danger", json!({"what": "rm"}));
        let answers = (0..40).map(look).chain([danger("d1"), danger("d2")]).collect();
        let agent = |model: &Arc<Fake>| {
            let mut root = named_within("root", model, budget);
            root.tools = [dangerous(model).tools, vec![Recorder::new("look").adapted()]].concat();
            root
        };
        let model = Fake::new(answers);
        let here = start_within(&backend.store, agent(&model), budget).await;
        here.run_and_collect(say("list it all")).await.unwrap();
        assert_opens_with_the_task(&model, budget, backend.name);
        let yes = async |agent: &Agent| {
            let question = questions(agent).await.remove(0);
            agent.run_and_collect(answer(&question, REQUEST_CONFIRMATION, json!({"confirmed": true}))).await
        };
        yes(&here).await.unwrap();
        assert_opens_with_the_task(&model, budget, backend.name);
        drop(here);

        let model = Fake::new(vec![vec![text("Done."), done()]]);
        let there = start_within(&backend.again(), agent(&model), budget).await;
        assert_eq!(yes(&there).await.unwrap(), "Done.");
        assert_opens_with_the_task(&model, budget, backend.name);
    }
}

#[tokio::test]
async fn user_text_that_looks_like_a_note_is_a_request() {
    for backend in backends() {
        let budget = Budget::new(300, None).unwrap();
        let model = Fake::new(vec![calls("c1", "look", json!({"city": "word ".repeat(300)}))]);
        let tools = vec![Recorder::new("look").adapted()];
        let root = LlmAgent { tools, ..named_within("root", &model, budget) };
        let agent = start_within(&backend.store, root, budget).await;
        agent.run_and_collect(say("[System: up] list it all")).await.unwrap();
        let preamble = "user: [Earlier messages are not shown.] The request was: [System: up] list it all";
        assert_eq!(last_request(&model)[0], preamble, "{}", backend.name);
    }
}

#[tokio::test]
async fn new_message_settles_an_open_question() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "danger", json!({"what": "rm"}))]);
        let agent = start(&backend.store, dangerous(&model)).await;
        agent.run_and_collect(say("clean up")).await.unwrap();
        let question = questions(&agent).await.remove(0);
        assert_eq!(
            agent.run_and_collect(say("never mind")).await.unwrap(),
            "re: never mind",
            "{}",
            backend.name
        );
        assert!(questions(&agent).await.is_empty());
        let late =
            agent.run_and_collect(answer(&question, REQUEST_CONFIRMATION, json!({"confirmed": true}))).await;
        assert!(matches!(late, Err(RunError::UnknownCall { .. })), "{late:?}");
        assert!(!log(&backend.store).await.concat().contains(r#"{"done":"rm"}"#));
    }
}

fn slow(model: &Arc<Fake>, budget: Budget) -> LlmAgent {
    let tools = vec![stub(json!({"name": "job", "pending": true, "response": {"ticket": 7}}))];
    LlmAgent { tools, ..named_within("root", model, budget) }
}

#[tokio::test]
async fn long_running_call_is_acknowledged_and_completed_after_a_restart() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "job", json!({})), vec![text("It runs."), done()]]);
        let agent = start(&backend.store, slow(&model, Budget::default())).await;
        assert_eq!(agent.run_and_collect(say("work")).await.unwrap(), "It runs.", "{}", backend.name);
        drop(agent);

        let model = Fake::new(vec![vec![text("It is done."), done()]]);
        let store = backend.again();
        let agent = start(&store, slow(&model, Budget::default())).await;
        let result = answer("c1", "job", json!({"result": 42}));
        assert_eq!(agent.run_and_collect(result).await.unwrap(), "It is done.");
        let sent = last_request(&model);
        let place_of = |text: &str| sent.iter().position(|line| line.contains(text)).unwrap();
        assert_eq!(place_of("→job#c1"), place_of(r#"←job#c1{"result":42}"#) - 1, "{sent:?}");
        assert!(!sent.concat().contains("ticket"), "the newest answer counts: {sent:?}");
    }
}

#[tokio::test]
async fn late_result_finds_its_call_outside_the_window() {
    for backend in backends() {
        let budget = Budget::new(300, None).unwrap();
        let model = Fake::new(vec![calls("c1", "job", json!({})), vec![text("It runs."), done()]]);
        let agent = start_within(&backend.store, slow(&model, budget), budget).await;
        agent.run_and_collect(say("work")).await.unwrap();
        for number in 0..12 {
            agent.run_and_collect(say(&format!("{number} {}", "words ".repeat(30)))).await.unwrap();
        }
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let calls = session.events().iter().flat_map(|event| event.calls()).count();
        assert_eq!(calls, 0, "{}: the call is out of sight", backend.name);
        agent.run_and_collect(answer("c1", "job", json!({"result": 42}))).await.unwrap();
        let sent = last_request(&model);
        // The call is repeated as the last message of the assistant.
        let [.., call, result] = &sent[..] else { panic!("{sent:?}") };
        assert!(call.starts_with("assistant: ") && call.ends_with("→job#c1{}"), "{}: {call}", backend.name);
        assert_eq!(result, r#"tool: ←job#c1{"result":42}"#);
    }
}

#[tokio::test]
async fn late_result_finds_its_call_although_the_id_was_reused() {
    for backend in backends() {
        let job = |number: u8| calls("call_0", "job", json!({"number": number}));
        let says = |words: &str| vec![text(words), done()];
        let answers = vec![
            job(1),
            says("It runs."),
            job(2),
            says("It runs, too."),
            calls("call_0", "clock", json!({})),
        ];
        let model = Fake::new(answers);
        let mut root = slow(&model, Budget::default());
        root.tools.push(stub(json!({"name": "clock", "response": {"time": "noon"}})));
        let agent = start(&backend.store, root).await;
        for words in ["work", "more work", "what time is it?"] {
            agent.run_and_collect(say(words)).await.unwrap();
        }
        agent.run_and_collect(answer("call_0", "job", json!({"result": 42}))).await.unwrap();
        let sent = last_request(&model);
        let [.., call, result] = &sent[..] else { panic!("{sent:?}") };
        assert!(call.ends_with(r#"→job#call_0{"number":1}"#), "{}: {call}", backend.name);
        assert_eq!(result, r#"tool: ←job#call_0{"result":42}"#);
        let again = agent.run_and_collect(answer("call_0", "job", json!({"result": 43}))).await;
        assert!(matches!(again, Err(RunError::UnknownCall { .. })), "{}: {again:?}", backend.name);
    }
}

#[tokio::test]
async fn answer_to_an_unknown_call_is_refused_and_stores_nothing() {
    for backend in backends() {
        let agent = start(&backend.store, root(&Fake::echo())).await;
        let refused = agent.run_and_collect(answer("c9", "job", json!({}))).await;
        assert!(matches!(refused, Err(RunError::UnknownCall { id }) if id == "c9"), "{}", backend.name);
        assert!(log(&backend.store).await.is_empty());
        assert_eq!(statuses(&backend.store).await, []);
    }
}

#[tokio::test]
async fn active_sub_agent_survives_a_restart() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "transfer_to_agent", json!({"agent_name": "helper"}))]);
        let agent = start(&backend.store, team(&model)).await;
        agent.run_and_collect(say("help")).await.unwrap();
        drop(agent);
        let store = backend.again();
        let agent = start(&store, team(&Fake::echo())).await;
        agent.run_and_collect(say("more")).await.unwrap();
        assert_eq!(log(&store).await.last().unwrap(), "helper: re: more", "{}", backend.name);
    }
}

#[tokio::test]
async fn interrupted_calls_are_settled_in_order() {
    for backend in backends() {
        let ids: Vec<String> = (0..12).map(|n| format!("c{}", (n * 7) % 12)).collect();
        let all = ids.iter().map(|id| call(id, "wait", json!({}))).chain([done()]).collect();
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&backend.store, LlmAgent { tools, ..root(&Fake::new(vec![all])) }).await;
        let cut_off = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run_and_collect(say("wait")).await }
        });
        crate::common::until(async || log(&backend.store).await.len() == 2).await;
        cut_off.abort();
        agent.run_and_collect(say("and?")).await.unwrap();
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let settled: Vec<_> =
            session.events()[2].responses().filter_map(|answer| answer.id.clone()).collect();
        assert_eq!(settled, ids, "{}", backend.name);
    }
}

#[tokio::test]
async fn call_interrupted_by_a_crash_has_an_unknown_outcome_after_the_restart() {
    for backend in backends() {
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&backend.store, LlmAgent { tools, ..root(&model) }).await;
        let cut_off = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run_and_collect(say("wait")).await }
        });
        crate::common::until(async || log(&backend.store).await.len() == 2).await;
        cut_off.abort();
        drop(agent);
        let (store, model) = (backend.again(), Fake::echo());
        let tool = Recorder::new("wait");
        let agent = start(&store, LlmAgent { tools: vec![tool.adapted()], ..root(&model) }).await;
        agent.run_and_collect(say("and?")).await.unwrap();
        assert!(tool.calls().is_empty(), "{}: it must not run twice", backend.name);
        let sent = last_request(&model);
        assert!(sent[2].starts_with(r#"tool: ←wait#c1{"error":"interrupted, outcome unknown"#), "{sent:?}");
        assert_eq!(sent[3], "user: and?");
    }
}

#[tokio::test]
async fn last_author_of_imported_events_is_the_active_agent() {
    for backend in backends() {
        let imported =
            |author: &str, content: Content| Event { content: Some(content), ..Event::new("e-1", author) };
        let asks = json!([{"functionCall": {"id": "c1", "name": "danger", "args": {}}}]);
        let events = [
            imported("user", Content::user("hi")),
            imported("helper", Content::model("I am the helper.")),
            imported("helper", Content::new("model", serde_json::from_value(asks).unwrap())),
        ];
        let archive = bridge::Archive::new(Arc::clone(&backend.store));
        archive.create(&key(), &Map::new(), &events, None).await.unwrap();
        let agent = Agent::new(Arc::clone(&backend.store), team(&Fake::echo()), Budget::default()).unwrap();
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        // An imported call is not run.
        assert!(session.pending().open_calls.is_empty(), "{}", backend.name);
        agent.run_and_collect(say("who are you?")).await.unwrap();
        assert_eq!(log(&backend.store).await.last().unwrap(), "helper: re: who are you?");
    }
}

/// Two answers arrive while the run waits, a third one while it is in progress.
#[tokio::test]
async fn second_answer_to_one_question_is_refused() {
    for backend in backends() {
        let (model, gate) = Fake::gated(vec![calls("c1", "danger", json!({"what": "rm"}))]);
        gate.add_permits(1);
        let runs = Runs::new(backend.store.clone());
        let agent = start(&backend.store, dangerous(&model)).await.with_turns(runs.turns().clone());
        let asking = runs.start(&agent, say("clean up"), StartOptions::default()).await.unwrap();
        runs.idle().await;
        let [question] = &questions(&agent).await[..] else { panic!("one question") };
        let yes = || answer(question, REQUEST_CONFIRMATION, json!({"confirmed": true}));
        let (first, second) = tokio::join!(
            runs.start(&agent, yes(), StartOptions::default()),
            runs.start(&agent, yes(), StartOptions::default())
        );
        let ((Ok(mut continued), Err(_)) | (Err(_), Ok(mut continued))) = (first, second) else {
            panic!("{}: one of them is refused", backend.name)
        };
        assert_eq!(continued.id(), asking.id(), "{}", backend.name);
        assert!(runs.is_running(&key()), "the refused answer does not hide the run");
        // The run that asked is in progress: a third answer would have to wait for it.
        let third = runs.start(&agent, yes(), StartOptions::default()).await;
        assert!(
            matches!(third, Err(StartError::Run(RunError::UnknownCall { .. }))),
            "{}: {third:?}",
            backend.name
        );
        gate.add_permits(1);
        while matches!(continued.next().await.unwrap(), ReaderItem::Entry(_)) {}
        assert_eq!(statuses(&backend.store).await, [RunStatus::Done], "{}", backend.name);
    }
}

/// A client that got no response repeats its answer while the run that asked is in progress.
#[tokio::test]
async fn repeated_answer_with_its_idempotency_key_becomes_the_run_that_asked() {
    for backend in backends() {
        let (model, gate) = Fake::gated(vec![calls("c1", "danger", json!({"what": "rm"}))]);
        gate.add_permits(1);
        let runs = Runs::new(backend.store.clone());
        let agent = start(&backend.store, dangerous(&model)).await.with_turns(runs.turns().clone());
        let asking = runs.start(&agent, say("clean up"), StartOptions::default()).await.unwrap();
        runs.idle().await;
        let [question] = &questions(&agent).await[..] else { panic!("one question") };
        let answer_with_key = async || {
            let yes = answer(question, REQUEST_CONFIRMATION, json!({"confirmed": true}));
            let options = StartOptions { idempotency_key: Some("k".to_owned()), ..StartOptions::default() };
            runs.start(&agent, yes, options).await
        };
        let first = answer_with_key().await.unwrap();
        let repeated = answer_with_key().await.unwrap();
        assert_eq!((first.id(), repeated.id()), (asking.id(), asking.id()), "{}", backend.name);
        gate.add_permits(1);
        runs.idle().await;
        assert_eq!(statuses(&backend.store).await, [RunStatus::Done], "{}", backend.name);
    }
}

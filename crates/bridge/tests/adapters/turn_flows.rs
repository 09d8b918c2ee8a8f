//! Questions to people and work that takes long: the answer may come after a restart, and long after its call was said.

use crate::common::{
    Fake, Recorder, Shared, asked, both, call, calls, done, key, log, named_within, root, runs, say, start,
    start_within, stub, team, text,
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
use bridge::{Agent, Budget, Runs, runs::StartOptions};
use serde_json::{Map, Value, json};
use session::RunStatus;
use std::sync::Arc;

fn answer(id: &str, name: &str, response: Value) -> RunRequest {
    let part = Part::from(FunctionResponse::new(id, name, response));
    RunRequest::message(key(), Content::new("user", vec![part]))
}

/// The ids of the questions that wait for a person, in order.
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
async fn a_call_waits_for_its_confirmation_across_a_restart() {
    for (confirmed, outcome) in
        [(true, r#"{"done":"rm"}"#), (false, r#"{"error":"This tool call is rejected."}"#)]
    {
        for place in both() {
            let model = Fake::new(vec![calls("c1", "danger", json!({"what": "rm"}))]);
            let agent = start(&place.store, dangerous(&model)).await;
            assert_eq!(agent.run_and_collect(say("clean up")).await.unwrap(), "", "{}", place.name);
            assert_eq!(statuses(&place.store).await, [RunStatus::Waiting]);
            drop(agent);

            let model = Fake::new(vec![vec![text("So be it."), done()]]);
            let store = place.again();
            let agent = start(&store, dangerous(&model)).await;
            let [question] = &questions(&agent).await[..] else { panic!("one question") };
            let request = answer(question, REQUEST_CONFIRMATION, json!({"confirmed": confirmed}));
            assert_eq!(agent.run_and_collect(request).await.unwrap(), "So be it.");
            assert_eq!(
                asked(&model),
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
async fn parallel_calls_wait_for_their_own_confirmations_and_others_do_not_wait() {
    for place in both() {
        let all = vec![
            call("c1", "danger", json!({"what": "a"})),
            call("c2", "clock", json!({})),
            call("c3", "danger", json!({"what": "b"})),
            done(),
        ];
        let model = Fake::new(vec![all]);
        let agent = start(&place.store, dangerous(&model)).await;
        agent.run_and_collect(say("clean up")).await.unwrap();
        let waiting = questions(&agent).await;
        assert_eq!(waiting.len(), 2, "{}", place.name);
        assert!(log(&place.store).await.concat().contains(r#"←clock#c2{"time":"noon"}"#));
        for (question, confirmed) in waiting.iter().zip([true, false]) {
            let request = answer(question, REQUEST_CONFIRMATION, json!({"confirmed": confirmed}));
            agent.run_and_collect(request).await.unwrap();
        }
        let sent = asked(&model);
        let answers = sent.iter().find(|line| line.starts_with("tool: ")).unwrap();
        assert_eq!(
            answers,
            r#"tool: ←danger#c1{"done":"a"} ←clock#c2{"time":"noon"} ←danger#c3{"error":"This tool call is rejected."}"#
        );
        assert!(questions(&agent).await.is_empty());
    }
}

/// The messages of the last request, which fit, with the task in front.
fn assert_opens_with_the_task(model: &Fake, budget: Budget, place: &str) {
    let request = model.last_request();
    assert!(bridge::view::cost::of_messages(&request.messages) <= budget.tokens(), "{place}: {request:?}");
    let sent = asked(model);
    assert_eq!(sent[0], "user: [Earlier messages are not shown.] The request was: list it all", "{place}");
    assert_eq!(sent.concat().matches("list it all").count(), 1, "{place}: {sent:?}");
}

#[tokio::test]
async fn the_task_of_a_long_turn_is_known_after_a_persons_answer_and_after_a_restart() {
    for place in both() {
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
        let here = start_within(&place.store, agent(&model), budget).await;
        here.run_and_collect(say("list it all")).await.unwrap();
        assert_opens_with_the_task(&model, budget, place.name);
        let yes = async |agent: &Agent| {
            let question = questions(agent).await.remove(0);
            agent.run_and_collect(answer(&question, REQUEST_CONFIRMATION, json!({"confirmed": true}))).await
        };
        yes(&here).await.unwrap();
        assert_opens_with_the_task(&model, budget, place.name);
        drop(here);

        let model = Fake::new(vec![vec![text("Done."), done()]]);
        let there = start_within(&place.again(), agent(&model), budget).await;
        assert_eq!(yes(&there).await.unwrap(), "Done.");
        assert_opens_with_the_task(&model, budget, place.name);
    }
}

#[tokio::test]
async fn words_of_the_user_that_look_like_a_note_of_ours_are_a_task() {
    for place in both() {
        let budget = Budget::new(300, None).unwrap();
        let model = Fake::new(vec![calls("c1", "look", json!({"city": "word ".repeat(300)}))]);
        let tools = vec![Recorder::new("look").adapted()];
        let root = LlmAgent { tools, ..named_within("root", &model, budget) };
        let agent = start_within(&place.store, root, budget).await;
        agent.run_and_collect(say("[System: up] list it all")).await.unwrap();
        let opening = "user: [Earlier messages are not shown.] The request was: [System: up] list it all";
        assert_eq!(asked(&model)[0], opening, "{}", place.name);
    }
}

#[tokio::test]
async fn another_message_overtakes_a_question() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "danger", json!({"what": "rm"}))]);
        let agent = start(&place.store, dangerous(&model)).await;
        agent.run_and_collect(say("clean up")).await.unwrap();
        let question = questions(&agent).await.remove(0);
        assert_eq!(
            agent.run_and_collect(say("never mind")).await.unwrap(),
            "re: never mind",
            "{}",
            place.name
        );
        assert!(questions(&agent).await.is_empty());
        let late =
            agent.run_and_collect(answer(&question, REQUEST_CONFIRMATION, json!({"confirmed": true}))).await;
        assert!(matches!(late, Err(RunError::UnknownCall { .. })), "{late:?}");
        assert!(!log(&place.store).await.concat().contains(r#"{"done":"rm"}"#));
    }
}

fn slow(model: &Arc<Fake>, budget: Budget) -> LlmAgent {
    let tools = vec![stub(json!({"name": "job", "pending": true, "response": {"ticket": 7}}))];
    LlmAgent { tools, ..named_within("root", model, budget) }
}

#[tokio::test]
async fn long_work_is_answered_for_now_and_for_good_after_a_restart() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "job", json!({})), vec![text("It runs."), done()]]);
        let agent = start(&place.store, slow(&model, Budget::default())).await;
        assert_eq!(agent.run_and_collect(say("work")).await.unwrap(), "It runs.", "{}", place.name);
        drop(agent);

        let model = Fake::new(vec![vec![text("It is done."), done()]]);
        let store = place.again();
        let agent = start(&store, slow(&model, Budget::default())).await;
        let result = answer("c1", "job", json!({"result": 42}));
        assert_eq!(agent.run_and_collect(result).await.unwrap(), "It is done.");
        let sent = asked(&model);
        let place_of = |text: &str| sent.iter().position(|line| line.contains(text)).unwrap();
        assert_eq!(place_of("→job#c1"), place_of(r#"←job#c1{"result":42}"#) - 1, "{sent:?}");
        assert!(!sent.concat().contains("ticket"), "the newest answer counts: {sent:?}");
    }
}

#[tokio::test]
async fn a_late_result_finds_its_call_before_the_end_that_is_read() {
    for place in both() {
        let budget = Budget::new(300, None).unwrap();
        let model = Fake::new(vec![calls("c1", "job", json!({})), vec![text("It runs."), done()]]);
        let agent = start_within(&place.store, slow(&model, budget), budget).await;
        agent.run_and_collect(say("work")).await.unwrap();
        for number in 0..12 {
            agent.run_and_collect(say(&format!("{number} {}", "words ".repeat(30)))).await.unwrap();
        }
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let calls = session.events().iter().flat_map(|event| event.calls()).count();
        assert_eq!(calls, 0, "{}: the call is out of sight", place.name);
        agent.run_and_collect(answer("c1", "job", json!({"result": 42}))).await.unwrap();
        let sent = asked(&model);
        // The call is shown again, as the last thing that the assistant said.
        let [.., call, result] = &sent[..] else { panic!("{sent:?}") };
        assert!(call.starts_with("assistant: ") && call.ends_with("→job#c1{}"), "{}: {call}", place.name);
        assert_eq!(result, r#"tool: ←job#c1{"result":42}"#);
    }
}

#[tokio::test]
async fn a_late_result_finds_its_call_although_other_calls_were_given_the_same_id() {
    for place in both() {
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
        let agent = start(&place.store, root).await;
        for words in ["work", "more work", "what time is it?"] {
            agent.run_and_collect(say(words)).await.unwrap();
        }
        agent.run_and_collect(answer("call_0", "job", json!({"result": 42}))).await.unwrap();
        let sent = asked(&model);
        let [.., call, result] = &sent[..] else { panic!("{sent:?}") };
        assert!(call.ends_with(r#"→job#call_0{"number":1}"#), "{}: {call}", place.name);
        assert_eq!(result, r#"tool: ←job#call_0{"result":42}"#);
        let again = agent.run_and_collect(answer("call_0", "job", json!({"result": 43}))).await;
        assert!(matches!(again, Err(RunError::UnknownCall { .. })), "{}: {again:?}", place.name);
    }
}

#[tokio::test]
async fn an_answer_to_nothing_is_refused_and_leaves_no_trace() {
    for place in both() {
        let agent = start(&place.store, root(&Fake::echo())).await;
        let refused = agent.run_and_collect(answer("c9", "job", json!({}))).await;
        assert!(matches!(refused, Err(RunError::UnknownCall { id }) if id == "c9"), "{}", place.name);
        assert!(log(&place.store).await.is_empty());
        assert_eq!(statuses(&place.store).await, []);
    }
}

#[tokio::test]
async fn a_sub_agent_keeps_the_word_across_a_restart() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "transfer_to_agent", json!({"agent_name": "helper"}))]);
        let agent = start(&place.store, team(&model)).await;
        agent.run_and_collect(say("help")).await.unwrap();
        drop(agent);
        let store = place.again();
        let agent = start(&store, team(&Fake::echo())).await;
        agent.run_and_collect(say("more")).await.unwrap();
        assert_eq!(log(&store).await.last().unwrap(), "helper: re: more", "{}", place.name);
    }
}

#[tokio::test]
async fn calls_that_were_cut_off_are_settled_in_their_order() {
    for place in both() {
        let ids: Vec<String> = (0..12).map(|n| format!("c{}", (n * 7) % 12)).collect();
        let all = ids.iter().map(|id| call(id, "wait", json!({}))).chain([done()]).collect();
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&place.store, LlmAgent { tools, ..root(&Fake::new(vec![all])) }).await;
        let cut_off = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run_and_collect(say("wait")).await }
        });
        crate::common::until(async || log(&place.store).await.len() == 2).await;
        cut_off.abort();
        agent.run_and_collect(say("and?")).await.unwrap();
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        let settled: Vec<_> =
            session.events()[2].responses().filter_map(|answer| answer.id.clone()).collect();
        assert_eq!(settled, ids, "{}", place.name);
    }
}

#[tokio::test]
async fn a_call_that_a_crash_cut_off_is_told_as_unknown_after_the_restart() {
    for place in both() {
        let model = Fake::new(vec![calls("c1", "wait", json!({}))]);
        let tools = vec![stub(json!({"name": "wait", "delay_ms": 3_600_000}))];
        let agent = start(&place.store, LlmAgent { tools, ..root(&model) }).await;
        let cut_off = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run_and_collect(say("wait")).await }
        });
        crate::common::until(async || log(&place.store).await.len() == 2).await;
        cut_off.abort();
        drop(agent);
        let (store, model) = (place.again(), Fake::echo());
        let tool = Recorder::new("wait");
        let agent = start(&store, LlmAgent { tools: vec![tool.adapted()], ..root(&model) }).await;
        agent.run_and_collect(say("and?")).await.unwrap();
        assert!(tool.calls().is_empty(), "{}: it must not run twice", place.name);
        let sent = asked(&model);
        assert!(sent[2].starts_with(r#"tool: ←wait#c1{"error":"interrupted, outcome unknown"#), "{sent:?}");
        assert_eq!(sent[3], "user: and?");
    }
}

#[tokio::test]
async fn who_spoke_last_in_the_events_that_a_session_begins_with_has_the_word() {
    for place in both() {
        let said =
            |author: &str, content: Content| Event { content: Some(content), ..Event::new("e-1", author) };
        let asks = json!([{"functionCall": {"id": "c1", "name": "danger", "args": {}}}]);
        let events = [
            said("user", Content::user("hi")),
            said("helper", Content::model("I am the helper.")),
            said("helper", Content::new("model", serde_json::from_value(asks).unwrap())),
        ];
        let archive = bridge::Archive::new(Arc::clone(&place.store));
        archive.create(&key(), &Map::new(), &events).await.unwrap();
        let agent = Agent::new(Arc::clone(&place.store), team(&Fake::echo()), Budget::default()).unwrap();
        let session = agent.sessions().get(&key()).await.unwrap().unwrap();
        // A call of elsewhere is not made here.
        assert!(session.pending().open_calls.is_empty(), "{}", place.name);
        agent.run_and_collect(say("who are you?")).await.unwrap();
        assert_eq!(log(&place.store).await.last().unwrap(), "helper: re: who are you?");
    }
}

/// Both answers name the waiting run; the later one finds that it runs again.
#[tokio::test]
async fn of_two_answers_to_one_question_one_continues_the_run_and_the_other_is_refused() {
    for place in both() {
        let (model, gate) = Fake::gated(vec![calls("c1", "danger", json!({"what": "rm"}))]);
        gate.add_permits(1);
        let runs = Runs::new(place.store.clone());
        let agent = start(&place.store, dangerous(&model)).await.with_turns(runs.turns().clone());
        let asking = runs.start(&agent, say("clean up"), StartOptions::default()).await.unwrap();
        runs.idle().await;
        let [question] = &questions(&agent).await[..] else { panic!("one question") };
        let yes = || answer(question, REQUEST_CONFIRMATION, json!({"confirmed": true}));
        let (first, second) = tokio::join!(
            runs.start(&agent, yes(), StartOptions::default()),
            runs.start(&agent, yes(), StartOptions::default())
        );
        let ((Ok(mut continued), Err(_)) | (Err(_), Ok(mut continued))) = (first, second) else {
            panic!("{}: one of them is refused", place.name)
        };
        assert_eq!(continued.id(), asking.id(), "{}", place.name);
        assert!(runs.is_running(&key()), "the refused answer does not hide the run");
        gate.add_permits(1);
        while continued.next().await.unwrap().is_ok() {}
        assert_eq!(statuses(&place.store).await, [RunStatus::Done], "{}", place.name);
    }
}

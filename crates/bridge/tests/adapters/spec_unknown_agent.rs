//! Spec G: one correction after an unknown agent name.

use crate::common::{
    Fake, backends, call, calls, done, failure, last_request, log, named, root, runs, say, say_streaming,
    start, stub, team, text,
};
use adk::{
    agent::{IncludeContents, LlmAgent},
    error::RunError,
    notes::CORRECTION,
    runner::{RunConfig, RunRequest},
    session::{Session, SessionService},
};
use provider::StreamEvent;
use serde_json::json;
use session::RunStatus;
use std::{error::Error as _, sync::Arc};

const CORRECTED: &str = "[System: Agent \"ghost\" does not exist. Valid agents: helper. Please retry using one of the valid agent names listed above.]";

fn to_ghost(id: &str) -> Vec<StreamEvent> {
    calls(id, "transfer_to_agent", json!({"agent_name": "ghost"}))
}

#[tokio::test]
async fn spec_g1_unknown_agent_is_corrected_and_retried_once() {
    for backend in backends() {
        let model = Fake::new(vec![to_ghost("c1"), vec![text("Sorry."), done()]]);
        let agent = start(&backend.store, team(&model)).await;
        agent.run_and_collect(say("help")).await.unwrap();
        assert_eq!(model.requests().len(), 2, "{}", backend.name);
        assert_eq!(last_request(&model).last().unwrap(), &format!("user: {CORRECTED}"));
        assert_eq!(
            log(&backend.store).await,
            [
                "user: help",
                r#"root: →transfer_to_agent#c1{"agent_name":"ghost"}"#,
                r#"root: ←transfer_to_agent#c1{"error":"failed to find agent: ghost"}"#,
                &format!("user: {CORRECTED}"),
                "root: Sorry.",
            ]
        );
    }
}

#[tokio::test]
async fn spec_g2_collected_text_is_that_of_the_retry_alone() {
    for backend in backends() {
        for request in [say("help"), say_streaming("help")] {
            let nowhere = call("c1", "transfer_to_agent", json!({"agent_name": "ghost"}));
            let model =
                Fake::new(vec![vec![text("One moment."), nowhere, done()], vec![text("Hello."), done()]]);
            let agent = start(&backend.store, team(&model)).await;
            assert_eq!(agent.run_and_collect(request).await.unwrap(), "Hello.", "{}", backend.name);
        }
    }
}

#[tokio::test]
async fn spec_g1_retry_uses_the_remaining_limits_of_the_run() {
    for backend in backends() {
        let model =
            Fake::new(vec![calls("c0", "clock", json!({})), to_ghost("c1"), vec![text("Sorry."), done()]]);
        let tools = vec![stub(json!({"name": "clock"}))];
        let agent = start(&backend.store, LlmAgent { tools, ..team(&model) }).await;
        let config = RunConfig { max_llm_calls: 2, ..RunConfig::default() };
        let error = agent.run_and_collect(RunRequest { config, ..say("help") }).await.unwrap_err();
        let RunError::RetryFailed { retry, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(**retry, RunError::TooManyModelCalls { limit: 2 }), "{}: {error:?}", backend.name);
        assert_eq!(model.requests().len(), 2);
    }
}

/// Three levels: root, its children first and second, and deep below second.
fn three_levels(model: &Arc<Fake>) -> LlmAgent {
    let second = LlmAgent { sub_agents: vec![named("deep", model)], ..named("second", model) };
    LlmAgent { sub_agents: vec![named("first", model), second], ..root(model) }
}

fn to(id: &str, name: &str) -> Vec<StreamEvent> {
    calls(id, "transfer_to_agent", json!({"agent_name": name}))
}

#[tokio::test]
async fn spec_g1_correction_lists_the_agents_that_the_asked_agent_may_transfer_to() {
    for (path, valid) in [
        (&[][..], "first, second"),
        (&["first"], "root, second"),
        (&["second"], "deep, root, first"),
        (&["second", "deep"], "second"),
    ] {
        let transfers = path.iter().enumerate().map(|(at, name)| to(&format!("t{at}"), name));
        let model = Fake::new(transfers.chain([to_ghost("c1")]).collect());
        let agent = start(&backends()[0].store, three_levels(&model)).await;
        agent.run_and_collect(say("help")).await.unwrap();
        let sent = last_request(&model);
        assert!(
            sent.last().unwrap().contains(&format!("Valid agents: {valid}. Please")),
            "{path:?}: {sent:?}"
        );
    }
}

#[tokio::test]
async fn spec_g5_agent_that_may_transfer_to_nobody_is_not_corrected() {
    let model = Fake::new(vec![to("t", "leaf"), to_ghost("c1")]);
    let isolated = LlmAgent {
        disallow_transfer_to_parent: true,
        disallow_transfer_to_peers: true,
        ..named("leaf", &model)
    };
    let family = LlmAgent { sub_agents: vec![isolated], ..root(&model) };
    let agent = start(&backends()[0].store, family).await;
    let error = agent.run_and_collect(say("help")).await.unwrap_err();
    assert!(matches!(error, RunError::AgentNotFound { .. }), "{error:?}");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn spec_g1_correction_is_not_a_message_of_the_user_for_include_contents() {
    for backend in backends() {
        let model = Fake::new(vec![to_ghost("c1"), vec![text("Sorry."), done()]]);
        let forgetful = LlmAgent { include_contents: IncludeContents::None, ..team(&model) };
        let agent = start(&backend.store, forgetful).await;
        agent.run_and_collect(say("help")).await.unwrap();
        let sent = last_request(&model);
        assert!(sent.contains(&"user: help".to_owned()), "{}: {sent:?}", backend.name);
        assert_eq!(sent.last().unwrap(), &format!("user: {CORRECTED}"));
    }
}

#[tokio::test]
async fn spec_g1_correction_does_not_change_the_active_agent() {
    for backend in backends() {
        let (of_root, of_leaf) =
            (Fake::new(vec![to("t", "leaf")]), Fake::new(vec![to_ghost("c1"), vec![text("Here."), done()]]));
        // Its turns end with the turn, so the root would answer the next message of the user.
        let leaf = LlmAgent { disallow_transfer_to_parent: true, ..named("leaf", &of_leaf) };
        let sibling = named("helper", &of_leaf);
        let family = LlmAgent { sub_agents: vec![leaf, sibling], ..root(&of_root) };
        let agent = start(&backend.store, family).await;
        assert_eq!(agent.run_and_collect(say("help")).await.unwrap(), "Here.", "{}", backend.name);
        assert_eq!(log(&backend.store).await.last().unwrap(), "leaf: Here.");
    }
}

#[tokio::test]
async fn spec_g1_correction_keeps_the_questions_of_its_run() {
    for backend in backends() {
        let both = vec![
            call("c1", "danger", json!({})),
            call("c2", "transfer_to_agent", json!({"agent_name": "ghost"})),
            done(),
        ];
        let model = Fake::new(vec![both, vec![text("May I?"), done()]]);
        let tools = vec![stub(json!({"name": "danger", "confirm": true}))];
        let agent = start(&backend.store, LlmAgent { tools, ..team(&model) }).await;
        agent.run_and_collect(say("help")).await.unwrap();
        let session = agent.sessions().get(&crate::common::key()).await.unwrap().unwrap();
        assert_eq!(session.pending().questions.len(), 1, "{}", backend.name);
        assert_eq!(runs(&backend.store).await[0].status, RunStatus::Waiting, "{}", backend.name);
    }
}

#[tokio::test]
async fn spec_g1_correction_is_a_marked_user_event_streaming_or_not() {
    for backend in backends() {
        for (request, round) in [(say("help"), 1), (say_streaming("help"), 2)] {
            let model = Fake::new(vec![to_ghost("c1"), vec![text("So"), text("rry."), done()]]);
            let agent = start(&backend.store, team(&model)).await;
            assert_eq!(agent.run_and_collect(request).await.unwrap(), "Sorry.", "{}", backend.name);
            let session = agent.sessions().get(&crate::common::key()).await.unwrap().unwrap();
            let marked = session.events().iter().filter(|event| {
                event
                    .custom_metadata
                    .as_ref()
                    .is_some_and(|marks| marks.get(CORRECTION) == Some(&json!(true)))
            });
            let marked: Vec<_> = marked.collect();
            assert_eq!(marked.len(), round);
            assert!(marked.iter().all(|event| event.is_from_user()));
        }
    }
}

#[tokio::test]
async fn spec_g1_siblings_of_a_transfer_to_an_unknown_agent_get_results() {
    for backend in backends() {
        let both_calls = vec![
            call("c1", "clock", json!({})),
            call("c2", "transfer_to_agent", json!({"agent_name": "ghost"})),
            done(),
        ];
        let model = Fake::new(vec![both_calls, vec![text("Sorry."), done()]]);
        let tools = vec![stub(json!({"name": "clock", "response": {"time": "noon"}}))];
        let agent = start(&backend.store, LlmAgent { tools, ..team(&model) }).await;
        agent.run_and_collect(say("help")).await.unwrap();
        let answered = &log(&backend.store).await[2];
        assert_eq!(
            answered,
            r#"root: ←clock#c1{"time":"noon"} ←transfer_to_agent#c2{"error":"failed to find agent: ghost"}"#,
            "{}",
            backend.name
        );
    }
}

#[tokio::test]
async fn spec_g2_successful_retry_is_the_answer() {
    for backend in backends() {
        let to_helper = calls("c2", "transfer_to_agent", json!({"agent_name": "helper"}));
        let model = Fake::new(vec![to_ghost("c1"), to_helper, vec![text("I am helper."), done()]]);
        let agent = start(&backend.store, team(&model)).await;
        assert_eq!(agent.run_and_collect(say("help")).await.unwrap(), "I am helper.", "{}", backend.name);
        assert_eq!(log(&backend.store).await.last().unwrap(), "helper: I am helper.");
        let runs = runs(&backend.store).await;
        assert_eq!((runs.len(), runs[0].status), (1, RunStatus::Done));
    }
}

#[tokio::test]
async fn spec_g3_failed_retry_is_the_error_and_the_first_error_its_source() {
    for backend in backends() {
        let model = Fake::new(vec![to_ghost("c1"), vec![failure("the model is on fire")]]);
        let agent = start(&backend.store, team(&model)).await;
        let error = agent.run_and_collect(say("help")).await.unwrap_err();
        assert_eq!(error.to_string(), "the model is on fire", "{}", backend.name);
        assert_eq!(error.source().unwrap().to_string(), "failed to find agent: ghost");
        let runs = runs(&backend.store).await;
        assert_eq!((runs.len(), runs[0].status), (1, RunStatus::Failed));
    }
}

#[tokio::test]
async fn spec_g3_second_unknown_agent_is_not_corrected() {
    for backend in backends() {
        let model = Fake::new(vec![to_ghost("c1"), to_ghost("c2")]);
        let agent = start(&backend.store, team(&model)).await;
        let error = agent.run_and_collect(say("help")).await.unwrap_err();
        assert!(matches!(error, RunError::RetryFailed { .. }), "{}: {error:?}", backend.name);
        assert_eq!(error.to_string(), "failed to find agent: ghost");
        assert_eq!(model.requests().len(), 2);
        let log = log(&backend.store).await;
        let errors: Vec<&String> = log.iter().filter(|line| line.contains(": !")).collect();
        assert_eq!(errors, ["root: !AGENT_NOT_FOUND"], "{}: {log:?}", backend.name);
        assert_eq!(log.last(), errors.first().copied(), "the last event reports the error");
    }
}

#[tokio::test]
async fn spec_g4_other_errors_are_returned_at_once() {
    for backend in backends() {
        let model = Fake::new(vec![vec![failure("failed to find the key")]]);
        let agent = start(&backend.store, team(&model)).await;
        let error = agent.run_and_collect(say("help")).await.unwrap_err();
        assert!(matches!(error, RunError::Model(_)), "{}: {error:?}", backend.name);
        assert_eq!(model.requests().len(), 1);
        assert_eq!(log(&backend.store).await, ["user: help", "root: !BROKEN"]);
    }
}

#[tokio::test]
async fn spec_g5_agent_without_sub_agents_is_not_corrected() {
    for backend in backends() {
        let model = Fake::new(vec![to_ghost("c1")]);
        let agent = start(&backend.store, root(&model)).await;
        let error = agent.run_and_collect(say("help")).await.unwrap_err();
        assert_eq!(error.to_string(), "failed to find agent: ghost", "{}", backend.name);
        assert!(matches!(error, RunError::AgentNotFound { .. }));
        assert_eq!(model.requests().len(), 1);
        assert_eq!(runs(&backend.store).await[0].status, RunStatus::Failed);
        assert_eq!(log(&backend.store).await.last().unwrap(), "root: !AGENT_NOT_FOUND", "{}", backend.name);
        // The call has a result, so the next request is legal.
        assert_eq!(agent.run_and_collect(say("again")).await.unwrap(), "re: again");
    }
}

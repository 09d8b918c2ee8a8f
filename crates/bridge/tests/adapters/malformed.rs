//! Calls with malformed arguments: stored unchanged, answered with an error and not run; sibling calls run.

use crate::common::{Fake, Recorder, backends, call, done, last_request, log, root, say, start};
use adk::agent::LlmAgent;
use bridge::store::row::Restorer;
use provider::{StreamEvent, ToolCall};
use serde_json::json;
use session::{PageRequest, Seq};

fn oops() -> StreamEvent {
    let (id, name) = ("c1".to_owned(), "look".to_owned());
    let malformed = Some(r#"{"city": Zurich"#.to_owned());
    StreamEvent::ToolCall(ToolCall { id, name, malformed, ..ToolCall::default() })
}

#[tokio::test]
async fn malformed_call_gets_an_error_and_its_sibling_runs() {
    for backend in backends() {
        let model = Fake::new(vec![vec![oops(), call("c2", "look", json!({"city": "Oslo"})), done()]]);
        let tool = Recorder::new("look");
        let agent = start(&backend.store, LlmAgent { tools: vec![tool.adapted()], ..root(&model) }).await;
        agent.run_and_collect(say("look")).await.unwrap();
        assert_eq!(tool.calls(), [("c2".to_owned(), json!({"city": "Oslo"}))], "{}", backend.name);
        let stored = log(&backend.store).await.join("\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(stored, @r#"
            user: look
            root: →look#c1{} →look#c2{"city":"Oslo"}
            root: ←look#c1{"error":"the arguments are not a JSON object, so the tool was not run; send them again as a JSON object. Received: {\"city\": Zurich"} ←look#c2{"given":{"city":"Oslo"}}
            root: re: look
            "#);
            insta::assert_snapshot!(last_request(&model).join("\n"), @r#"
            user: look
            assistant: →look#c1{} →look#c2{"city":"Oslo"}
            tool: ←look#c1{"error":"the arguments are not a JSON object, so the tool was not run; send them again as a JSON object. Received: {\"city\": Zurich"} ←look#c2{"given":{"city":"Oslo"}}
            "#);
        }
    }
}

#[tokio::test]
async fn malformed_arguments_survive_a_restart() {
    for backend in backends() {
        let model = Fake::new(vec![vec![oops(), done()]]);
        let tool = Recorder::new("look");
        let agent = start(&backend.store, LlmAgent { tools: vec![tool.adapted()], ..root(&model) }).await;
        agent.run_and_collect(say("look")).await.unwrap();
        drop(agent);
        let page = PageRequest { after: Seq::START, limit: 100, max_bytes: usize::MAX };
        let rows = backend.again().read(&crate::common::key(), page).await.unwrap();
        let event = Restorer::new("root").restore(&rows[1]);
        let call = event.calls().next().unwrap();
        assert_eq!(call.malformed_args(), Some(r#"{"city": Zurich"#), "{}", backend.name);
        assert_eq!(call.args, Some(serde_json::Map::new()));
    }
}

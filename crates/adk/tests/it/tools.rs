//! Tool calls: every call gets a response.

use crate::common::{App, Fake, FakeTool, app, call, call_as, contents_shape, key, parts, text, tool};
use adk::{
    agent::{AgentTree, LlmAgent},
    content::{Content, FunctionCall, Part},
    error::{ToolError, TreeError},
    pending::REQUEST_CONFIRMATION,
    runner::RunRequest,
    tool::{Tool, ToolOutcome, Toolset},
};
use futures::future::BoxFuture;
use insta::assert_snapshot;
use serde_json::json;
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn weather() -> FakeTool {
    let body =
        |_, args: serde_json::Map<_, _>| async move { Ok(ToolOutcome::Done(json!({"in": args["city"]}))) };
    tool("weather", body).takes(json!({"city": {"type": "string"}}))
}

fn failing() -> FakeTool {
    tool("failing", |_, _| async { Err(ToolError::Failed("no luck".to_owned())) })
}

fn panicking() -> FakeTool {
    tool("panicking", |_, _| async { panic!("a bug in a tool") })
}

fn sleeping() -> FakeTool {
    tool("sleeping", |_, _| std::future::pending())
}

/// An agent that makes these calls in one step, then answers "done".
fn agent(calls: Vec<Part>) -> (Fake, LlmAgent) {
    let model = Fake::says([parts(calls), text("done")]);
    let mut root = model.agent("root");
    root.tools = vec![weather().arc(), failing().arc(), panicking().arc(), sleeping().arc()];
    (model, root)
}

async fn after(calls: Vec<Part>) -> App {
    let app = app(agent(calls).1).await;
    app.say("hi").await.result.unwrap();
    app
}

/// A toolset that lists one more tool each time, and one with the name of an agent's own tool.
#[derive(Default)]
struct Growing(AtomicUsize);

impl Toolset for Growing {
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>> {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let body = |_, _| async { Ok(ToolOutcome::Done(json!("from the set"))) };
        let grown = (1..=count).map(move |at| tool(&format!("grown_{at}"), body).arc());
        Box::pin(async move { grown.chain([tool("weather", body).arc()]).collect() })
    }

    fn known(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
}

#[tokio::test]
async fn toolsets_are_listed_before_each_request() {
    let first = call("grown_1", json!({}));
    let both = vec![call("weather", json!({"city": "Oslo"})), call("gone", json!({}))];
    let model = Fake::says([parts(vec![first]), parts(both), text("done")]);
    let mut root = model.agent("root");
    root.tools = vec![weather().arc()];
    root.toolsets = vec![Arc::new(Growing::default())];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    let offered =
        |at: usize| -> Vec<String> { model.asked()[at].tools.iter().map(|tool| tool.name.clone()).collect() };
    assert_eq!(offered(0), ["weather", "grown_1"]);
    // The lookup of a called tool lists the toolset, too.
    assert_eq!(offered(1), ["weather", "grown_1", "grown_2", "grown_3"]);
    let shown = contents_shape(&model.asked()[2].contents);
    assert!(shown.contains("from the set") && shown.contains("Oslo"), "{shown}");
    assert!(shown.contains("grown_1, grown_2"), "{shown}");
}

#[tokio::test]
async fn the_response_of_a_call_is_in_the_next_request() {
    let (model, root) = agent(vec![Part::text("Let me see."), call("weather", json!({"city": "Oslo"}))]);
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   Let me see. | → weather#1(city="Oslo")
    02 root   ← weather#1 {in="Oslo"}
    03 root   done
    "#);
    assert_snapshot!(contents_shape(&model.last_asked().contents), @r#"
    00 user   hi
    01 model  Let me see. | → weather#1(city="Oslo")
    02 user   ← weather#1 {in="Oslo"}
    "#);
    assert_eq!(app.log()[1].long_running_tool_ids, Some(vec![]));
    assert_eq!(app.log()[2].long_running_tool_ids, None);
}

#[tokio::test(start_paused = true)]
async fn calls_run_concurrently_and_their_responses_share_an_event_in_order() {
    let slow = tool("slow", |_, args| async move {
        tokio::time::sleep(Duration::from_secs(args["s"].as_u64().unwrap())).await;
        Ok(ToolOutcome::Done(args["s"].clone()))
    });
    let calls = [3, 1, 2].map(|s| call("slow", json!({"s": s})));
    let mut root = Fake::says([parts(calls.to_vec()), text("done")]).agent("root");
    root.tools = vec![slow.arc()];
    let app = app(root).await;
    let start = tokio::time::Instant::now();
    app.say("hi").await.result.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   → slow#1(s=3) | → slow#2(s=1) | → slow#3(s=2)
    02 root   ← slow#1 {result=3} | ← slow#2 {result=1} | ← slow#3 {result=2}
    03 root   done
    ");
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_responds_with_its_error_and_siblings_succeed() {
    let app = after(vec![
        call("failing", json!({})),
        call("panicking", json!({})),
        call("sleeping", json!({})),
        call("nothing", json!({})),
        call("weather", json!({"city": 3})),
        call("weather", json!({})),
        call("weather", json!({"city": "Oslo"})),
    ])
    .await;
    let log = app.log();
    let answers: Vec<String> = log[2].responses().map(|answer| json!(answer.response).to_string()).collect();
    assert_snapshot!(answers.join("\n"), @r#"
    {"error":"no luck"}
    {"error":"the tool panicked during the call"}
    {"error":"the tool did not answer within 120s"}
    {"error":"there is no tool named nothing; the tools are: weather, failing, panicking, sleeping"}
    {"error":"the arguments do not match the tool's schema: 3 is not of type \"string\""}
    {"error":"the arguments do not match the tool's schema: \"city\" is a required property"}
    {"in":"Oslo"}
    "#);
    assert_eq!(log.len(), 4);
}

#[tokio::test]
async fn a_call_with_malformed_arguments_gets_an_error_and_is_not_run() {
    let oops = |name: &str, written: &str| {
        Part::from(FunctionCall::malformed(Some(name.to_owned()), name, written.to_owned()))
    };
    let long = tool("job", |_, _| async { Ok(ToolOutcome::Pending(None)) }).long_running();
    let calls = vec![
        oops("weather", r#"{"city": Oslo"#),
        oops("job", &"x".repeat(1_000)),
        oops("transfer_to_agent", "helper"),
        call("weather", json!({"city": "Oslo"})),
    ];
    let (model, mut root) = agent(calls);
    root.tools.push(long.arc());
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    let log = app.log();
    let answers: Vec<String> = log[2].responses().map(|answer| json!(answer.response).to_string()).collect();
    let quoted = "x".repeat(400) + "…";
    assert_snapshot!(answers.join("\n").replace(&quoted, "xxx…"), @r#"
    {"error":"the arguments are not a JSON object, so the tool was not run; send them again as a JSON object. Received: {\"city\": Oslo"}
    {"error":"the arguments are not a JSON object, so the tool was not run; send them again as a JSON object. Received: xxx…"}
    {"error":"the arguments are not a JSON object, so the tool was not run; send them again as a JSON object. Received: helper"}
    {"in":"Oslo"}
    "#);
    assert_eq!(log[1].long_running_tool_ids, Some(vec![]), "it has not begun");
    assert_eq!(log.len(), 4, "the model gets the error and continues");
    assert_eq!(model.asked().len(), 2);
}

#[tokio::test]
async fn missing_and_duplicate_call_ids_are_replaced() {
    let oslo = || json!({"city": "Oslo"});
    let app = after(vec![
        call("weather", oslo()),
        call_as("call_0", "weather", oslo()),
        call_as("call_0", "weather", oslo()),
        call_as("", "weather", oslo()),
    ])
    .await;
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → weather#1(city="Oslo") | → weather#call_0(city="Oslo") | → weather#2(city="Oslo") | → weather#3(city="Oslo")
    02 root   ← weather#1 {in="Oslo"} | ← weather#call_0 {in="Oslo"} | ← weather#2 {in="Oslo"} | ← weather#3 {in="Oslo"}
    03 root   done
    "#);
    let log = app.log();
    let ids: HashSet<&String> = log[1].calls().filter_map(|call| call.id.as_ref()).collect();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn the_id_of_an_acknowledged_call_is_not_reused() {
    let long = tool("long", |_, _| async { Ok(ToolOutcome::Done(json!("pending"))) }).long_running();
    let same = |name: &str| parts(vec![call_as("call_0", name, json!({}))]);
    let mut root = Fake::says([same("long"), text("wait"), same("failing"), text("done")]).agent("root");
    root.tools = vec![long.arc(), failing().arc()];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    app.say("ho").await.result.unwrap();
    assert_eq!(app.id_of("long", 0), "call_0");
    assert!(app.id_of("failing", 0).starts_with("adk-"));
}

#[tokio::test]
async fn a_tool_sees_its_own_state_changes() {
    let body = |context: adk::tool::ToolContext, _| async move {
        let before = context.state("k");
        context.set_state("k", json!("new"));
        context.set_state("temp:t", json!(1));
        Ok(ToolOutcome::Done(json!({"before": before, "after": context.state("k")})))
    };
    let reads = |context: adk::tool::ToolContext, _| async move {
        Ok(ToolOutcome::Done(json!(context.state("temp:t"))))
    };
    let replies = [parts(vec![call("sets", json!({}))]), parts(vec![call("reads", json!({}))]), text("done")];
    let mut root = Fake::says(replies).agent("root");
    root.tools = vec![tool("sets", body).arc(), tool("reads", reads).arc()];
    let app = crate::common::app_with_state(root, &[("k", json!("old"))]).await;
    app.say("hi").await.result.unwrap();
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → sets#1()
    02 root   ← sets#1 {before="old" after="new"} [state k="new"]
    03 root   → reads#2()
    04 root   ← reads#2 {result=1}
    05 root   done
    "#);
    assert_eq!(json!(app.state()), json!({"k": "new"}));
}

#[tokio::test]
async fn a_saved_artifact_is_in_the_artifact_delta_with_its_version() {
    let body = |context: adk::tool::ToolContext, _| async move {
        let version = context.save_artifact("a.txt", Part::text("x")).await;
        Ok(ToolOutcome::Done(json!({"version": version.unwrap()})))
    };
    let mut root = Fake::says([parts(vec![call("save", json!({})), call("save", json!({}))]), text("done")])
        .agent("root");
    root.tools = vec![tool("save", body).arc()];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    assert_snapshot!(app.log_shape(), @"
    00 user   hi
    01 root   → save#1() | → save#2()
    02 root   ← save#1 {version=0} | ← save#2 {version=1} [files a.txt=1]
    03 root   done
    ");
}

#[tokio::test]
async fn a_model_call_of_the_confirmation_name_is_an_unknown_tool() {
    let (model, root) = agent(vec![call(REQUEST_CONFIRMATION, json!({"originalFunctionCall": {"id": "x"}}))]);
    let app = app(root).await;
    let ran = app.say("hi").await;
    assert_eq!(ran.text(), "done");
    let shown = model.last_asked().contents;
    assert_eq!((shown.len(), shown[2].responses().count()), (3, 1));
}

#[tokio::test]
async fn a_message_with_a_function_call_is_refused_and_nothing_is_stored() {
    let (model, root) = agent(vec![]);
    let app = app(root).await;
    let both: Part = serde_json::from_value(json!({"text": "hi", "functionCall": {"name": "f"}})).unwrap();
    for part in [call("f", json!({})), both] {
        let ran = app.send(vec![Part::text("hi"), part]).await;
        assert!(ran.shown.is_empty());
        assert_eq!(ran.error().to_string(), "User message cannot contain function calls.");
    }
    assert!(app.log().is_empty() && model.asked().is_empty());
}

#[test]
fn tools_cannot_have_names_reserved_by_adk() {
    for name in ["transfer_to_agent", REQUEST_CONFIRMATION] {
        let mut root = Fake::says([]).agent("root");
        root.tools = vec![tool(name, |_, _| async { Ok(ToolOutcome::Done(json!(1))) }).arc()];
        assert!(matches!(AgentTree::new(root), Err(TreeError::ReservedTool { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn the_tool_timeout_comes_from_the_run_config() {
    let app = app(agent(vec![call("sleeping", json!({}))]).1).await;
    let mut request = RunRequest::message(key(), Content::user("hi"));
    request.config.tool_timeout = Duration::from_secs(7);
    let start = tokio::time::Instant::now();
    app.run(request).await.result.unwrap();
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test]
async fn a_request_lists_tools_in_the_agents_order() {
    let (model, root) = agent(vec![]);
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    let names: Vec<String> = model.last_asked().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["weather", "failing", "panicking", "sleeping"]);
}

//! Calls that require a confirmation: asked, confirmed, rejected, withdrawn.

use crate::common::{App, Fake, FakeTool, app, call, contents_shape, parts, text, tool};
use adk::{error::RunError, event::ToolConfirmation, pending::REQUEST_CONFIRMATION, tool::ToolOutcome};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// A tool that requires a confirmation.
fn danger() -> FakeTool {
    let body = |context: adk::tool::ToolContext, args: serde_json::Map<String, Value>| async move {
        let hint = "Sure?".to_owned();
        Ok(match context.confirmation {
            None => ToolOutcome::Ask(ToolConfirmation { hint, ..ToolConfirmation::default() }),
            Some(answer) => ToolOutcome::Done(json!({"done": args["what"], "payload": answer.payload})),
        })
    };
    tool("danger", body).takes(json!({"what": {"type": "string"}}))
}

fn dangers(what: &[&str]) -> crate::common::Reply {
    parts(what.iter().map(|what| call("danger", json!({"what": what}))).collect())
}

async fn asked(what: &[&str]) -> (Fake, App) {
    let model = Fake::says([dangers(what), text("done"), text("more")]);
    let mut root = model.agent("root");
    let sure = tool("sure", |_, _| async { Ok(ToolOutcome::Done(json!("yes"))) });
    root.tools = vec![danger().arc(), sure.arc()];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    (model, app)
}

#[tokio::test]
async fn the_question_precedes_the_provisional_response() {
    let (model, app) = asked(&["rm"]).await;
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → danger#1(what="rm")
    02 root   ? #2 [long]
    03 root   ← danger#1 {error="This tool call requires confirmation, please approve or reject."} [skip]
    "#);
    assert_eq!(model.asked().len(), 1);
    let log = app.log();
    let question = log[2].calls().next().unwrap();
    let original = log[1].calls().next().unwrap();
    assert_eq!(question.name, REQUEST_CONFIRMATION);
    assert_eq!(
        json!(question.args),
        json!({"originalFunctionCall": original, "toolConfirmation": {"hint": "Sure?", "confirmed": false}})
    );
    assert_eq!(log[2].long_running_tool_ids, Some(vec![question.id.clone().unwrap()]));
    let requested = &log[3].actions.requested_tool_confirmations;
    assert_eq!(requested[original.id.as_ref().unwrap()], json!({"hint": "Sure?", "confirmed": false}));
}

#[tokio::test]
async fn a_confirmed_call_runs_in_the_invocation_of_its_question() {
    let (model, app) = asked(&["rm"]).await;
    let answer = json!({"confirmed": true, "payload": {"depth": 1}});
    let ran = app.send(vec![app.confirm(0, answer)]).await;
    assert_snapshot!(ran.shape(), @r#"
    00 root   ← danger#1 {done="rm" payload={"depth":1}}
    01 root   done
    "#);
    let log = app.log();
    assert!(log.iter().all(|event| event.invocation_id == log[0].invocation_id));
    assert_snapshot!(contents_shape(&model.last_asked().contents), @r#"
    00 user   hi
    01 model  → danger#1(what="rm")
    02 user   ← danger#1 {done="rm" payload={"depth":1}}
    "#);
}

#[tokio::test]
async fn a_confirmation_wrapped_by_adks_web_page_is_accepted() {
    let (_, app) = asked(&["rm"]).await;
    let ran = app.send(vec![app.confirm(0, json!({"response": "{\"confirmed\": true}"}))]).await;
    assert_snapshot!(ran.shape(), @r#"
    00 root   ← danger#1 {done="rm" payload=null}
    01 root   done
    "#);
}

#[tokio::test]
async fn a_rejected_call_does_not_run_and_responds_with_an_error() {
    for refusal in
        [json!({"confirmed": false}), json!({"confirmed": "maybe"}), json!({}), json!({"response": "{"})]
    {
        let (_, app) = asked(&["rm"]).await;
        let ran = app.send(vec![app.confirm(0, refusal)]).await;
        let answer = ran.shown[0].responses().next().unwrap().response.clone();
        assert_eq!(json!(answer), json!({"error": "This tool call is rejected."}));
        assert_eq!(ran.text(), "done");
    }
}

#[tokio::test]
async fn the_model_is_called_after_both_of_two_questions_have_a_reply() {
    let (model, app) = asked(&["one", "two"]).await;
    let ran = app.send(vec![app.confirm(1, json!({"confirmed": true}))]).await;
    assert_snapshot!(ran.shape(), @r#"00 root   ← danger#1 {done="two" payload=null}"#);
    assert_eq!(model.asked().len(), 1);
    let ran = app.send(vec![app.confirm(0, json!({"confirmed": false}))]).await;
    assert_snapshot!(ran.shape(), @r#"
    00 root   ← danger#1 {error="This tool call is rejected."}
    01 root   done
    "#);
    assert_snapshot!(contents_shape(&model.last_asked().contents), @r#"
    00 user   hi
    01 model  → danger#1(what="one") | → danger#2(what="two")
    02 user   ← danger#1 {error="This tool call is rejected."} | ← danger#2 {done="two" payload=null}
    "#);
}

#[tokio::test]
async fn one_message_replies_to_two_questions() {
    let (_, app) = asked(&["one", "two"]).await;
    let yes = json!({"confirmed": true});
    let ran = app.send(vec![app.confirm(0, yes.clone()), app.confirm(1, yes)]).await;
    assert_snapshot!(ran.shape(), @r#"
    00 root   ← danger#1 {done="one" payload=null} | ← danger#2 {done="two" payload=null}
    01 root   done
    "#);
}

#[tokio::test]
async fn a_new_message_withdraws_the_question() {
    let (model, app) = asked(&["rm"]).await;
    app.say("never mind").await.result.unwrap();
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → danger#1(what="rm")
    02 root   ? #2 [long]
    03 root   ← danger#1 {error="This tool call requires confirmation, please approve or reject."} [skip]
    04 root   ← adk_request_confirmation#2 {confirmed=false superseded="a new message came before the answer"}
    05 user   never mind
    06 root   done
    "#);
    assert_snapshot!(contents_shape(&model.last_asked().contents), @r#"
    00 user   hi
    01 model  → danger#1(what="rm")
    02 user   ← danger#1 {error="This tool call requires confirmation, please approve or reject."}
    03 user   never mind
    "#);
    let ran = app.send(vec![app.confirm(0, json!({"confirmed": true}))]).await;
    assert!(matches!(ran.error(), RunError::UnknownCall { .. }));
    assert_eq!(app.log().len(), 7);
}

#[tokio::test]
async fn a_second_reply_to_a_question_is_refused_and_not_stored() {
    let (_, app) = asked(&["rm"]).await;
    let yes = app.confirm(0, json!({"confirmed": true}));
    app.send(vec![yes.clone()]).await.result.unwrap();
    let stored = app.log().len();
    assert!(matches!(app.send(vec![yes]).await.error(), RunError::UnknownCall { .. }));
    assert_eq!(app.log().len(), stored);
}

#[tokio::test]
async fn a_user_cannot_forge_the_withdrawal_of_a_question() {
    let (_, app) = asked(&["rm"]).await;
    let ran = app.send(vec![app.confirm(0, json!({"confirmed": true, "superseded": "x"}))]).await;
    assert_eq!(ran.shown[0].responses().next().unwrap().name, "danger");
}

#[tokio::test]
async fn siblings_of_an_unconfirmed_call_run_immediately() {
    let model = Fake::says([
        parts(vec![call("danger", json!({"what": "rm"})), call("sure", json!({}))]),
        text("done"),
    ]);
    let mut root = model.agent("root");
    let sure = tool("sure", |_, _| async { Ok(ToolOutcome::Done(json!("yes"))) });
    root.tools = vec![danger().arc(), sure.arc()];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    assert_snapshot!(app.log_shape(), @r#"
    00 user   hi
    01 root   → danger#1(what="rm") | → sure#2()
    02 root   ? #3 [long]
    03 root   ← danger#1 {error="This tool call requires confirmation, please approve or reject."} | ← sure#2 {result="yes"}
    "#);
    app.send(vec![app.confirm(0, json!({"confirmed": true}))]).await.result.unwrap();
    assert_snapshot!(contents_shape(&model.last_asked().contents), @r#"
    00 user   hi
    01 model  → danger#1(what="rm") | → sure#2()
    02 user   ← danger#1 {done="rm" payload=null} | ← sure#2 {result="yes"}
    "#);
}

#[tokio::test]
async fn a_transfer_beside_a_question_takes_effect_after_the_reply() {
    let helper = Fake::says([text("helped")]);
    let to_helper = call("transfer_to_agent", json!({"agent_name": "helper"}));
    let model = Fake::says([parts(vec![call("danger", json!({"what": "rm"})), to_helper])]);
    let mut root = model.agent("root");
    root.tools = vec![danger().arc()];
    root.sub_agents = vec![helper.agent("helper")];
    let app = app(root).await;
    app.say("hi").await.result.unwrap();
    assert_eq!(helper.asked().len(), 0);
    let ran = app.send(vec![app.confirm(0, json!({"confirmed": true}))]).await;
    assert_snapshot!(ran.shape(), @r#"
    00 root   ← danger#1 {done="rm" payload=null}
    01 helper helped
    "#);
}

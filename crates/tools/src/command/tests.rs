//! Shell scripts as configured commands.

use std::{sync::Arc, time::Instant};

use serde_json::json;

use super::*;
use crate::{Effect, Safety, testing};

struct TestCommand {
    _dir: tempfile::TempDir,
    tool: CommandTool,
}

/// A tool that runs a shell script.
fn script_tool(script: &str) -> TestCommand {
    let dir = tempfile::tempdir().unwrap();
    let parameters = json!({"type": "object", "properties": {}});
    let spec = Spec::new("mine", "Does mine.", parameters, Safety::Execute, Effect::Once);
    let config = CommandConfig {
        spec,
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: dir.path().to_owned(),
        env: vec![("MINE".to_owned(), "yes".to_owned())],
        time: Duration::from_secs(20),
        sandboxed: false,
    };
    let env = CommandEnv {
        env: EnvVars {
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            home: dir.path().display().to_string(),
            lang: "C.UTF-8".to_owned(),
            tmp: dir.path().join("tmp"),
        },
        outputs: OutputStore::new(&dir.path().join("outputs")),
        grace: Duration::from_millis(300),
        watchdog: Watchdog::disabled(),
        sandbox: crate::exec::Sandbox::unrestricted("a test").into(),
    };
    TestCommand { tool: CommandTool::new(config, env), _dir: dir }
}

async fn call_tool(command: &TestCommand, args: Value) -> Result<Value, String> {
    testing::call_tool(&command.tool, args).await
}

#[tokio::test]
async fn arguments_are_json_on_stdin_and_a_json_object_is_the_result() {
    let command = script_tool(r#"printf '{"got": %s}' "$(cat)""#);
    assert_eq!(call_tool(&command, json!({"n": 1})).await.unwrap(), json!({"got": {"n": 1}}));
}

#[tokio::test]
async fn text_is_returned_as_output_and_stdin_may_stay_unread() {
    let command = script_tool("echo hello; echo aside >&2");
    let args = json!({"long": "x".repeat(200_000)});
    assert_eq!(call_tool(&command, args).await.unwrap(), json!({"bytes": 6, "output": "hello\n"}));
}

#[tokio::test]
async fn failure_quotes_stderr_or_else_stdout() {
    let command = script_tool("echo some; echo 'no such customer' >&2; exit 3");
    assert_eq!(
        call_tool(&command, json!({})).await.unwrap_err(),
        "`mine` failed with exit code 3: no such customer"
    );
    let command = script_tool("echo only this; exit 1");
    assert_eq!(
        call_tool(&command, json!({})).await.unwrap_err(),
        "`mine` failed with exit code 1: only this"
    );
    let command = script_tool("kill -9 $$");
    assert_eq!(call_tool(&command, json!({})).await.unwrap_err(), "`mine` was killed by signal 9");
}

#[tokio::test]
async fn environment_has_configured_variables_and_the_call_id_only() {
    let command = script_tool("echo $MINE $LANGO_CALL_ID ${CARGO_MANIFEST_DIR:-clean}");
    assert_eq!(call_tool(&command, json!({})).await.unwrap()["output"], "yes call-1 clean\n");
}

#[tokio::test]
async fn timeout_terminates_the_process_group() {
    let mut command = script_tool("sleep 60 & sleep 60");
    command.tool.config.time = Duration::from_millis(100);
    let started = Instant::now();
    assert_eq!(call_tool(&command, json!({})).await.unwrap_err(), "`mine` was terminated after 0.1 s");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn call_fails_when_the_turn_is_cancelled() {
    let command = script_tool("sleep 60");
    let host = Arc::new(testing::RecordingHost { cancelled: true, ..testing::RecordingHost::default() });
    let outcome = command.tool.call(testing::request(&host, json!({}))).await;
    assert!(matches!(outcome, Err(ToolsError::Cancelled)));
}

#[tokio::test]
async fn long_output_is_truncated_and_stored() {
    let command = script_tool("seq 1 20000");
    let answer = call_tool(&command, json!({})).await.unwrap();
    assert!(answer["handle"].as_str().unwrap().starts_with("out-"), "{answer}");
    assert!(answer["output"].as_str().unwrap().len() < 60_000);
}

#[tokio::test]
async fn missing_program_is_named_in_the_error() {
    let mut command = script_tool("");
    command.tool.config.argv = vec!["no-such-program".to_owned()];
    let error = call_tool(&command, json!({})).await.unwrap_err();
    assert!(
        error.starts_with("`mine` cannot run `no-such-program`: the command could not be started"),
        "{error}"
    );
}

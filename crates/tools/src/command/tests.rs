//! Commands of the shell as tools.

use std::{sync::Arc, time::Instant};

use serde_json::json;

use super::*;
use crate::{Effect, Safety, testing};

struct Made {
    _dir: tempfile::TempDir,
    tool: OwnCommand,
}

/// A command that is a line for the shell.
fn command(script: &str) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let parameters = json!({"type": "object", "properties": {}});
    let spec = Spec::new("mine", "Does mine.", parameters, Safety::Execute, Effect::Once);
    let config = CommandConfig {
        spec,
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: dir.path().to_owned(),
        env: vec![("MINE".to_owned(), "yes".to_owned())],
        time: Duration::from_secs(20),
    };
    let ground = Ground {
        environment: Environment {
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            home: dir.path().display().to_string(),
            lang: "C.UTF-8".to_owned(),
            tmp: dir.path().join("tmp"),
        },
        outputs: OutputStore::new(&dir.path().join("kept")),
        grace: Duration::from_millis(300),
        watchdog: Watchdog::none(),
    };
    Made { tool: OwnCommand::new(config, ground), _dir: dir }
}

async fn call_tool(made: &Made, args: Value) -> Result<Value, String> {
    testing::call_tool(&made.tool, args).await
}

#[tokio::test]
async fn arguments_go_in_as_json_and_an_object_comes_back_as_it_is() {
    let made = command(r#"printf '{"got": %s}' "$(cat)""#);
    assert_eq!(call_tool(&made, json!({"n": 1})).await.unwrap(), json!({"got": {"n": 1}}));
}

#[tokio::test]
async fn text_is_an_output_and_a_command_may_leave_its_arguments_unread() {
    let made = command("echo hello; echo aside >&2");
    let args = json!({"long": "x".repeat(200_000)});
    assert_eq!(call_tool(&made, args).await.unwrap(), json!({"bytes": 6, "output": "hello\n"}));
}

#[tokio::test]
async fn a_failure_is_told_in_the_commands_own_words() {
    let made = command("echo some; echo 'no such customer' >&2; exit 3");
    assert_eq!(
        call_tool(&made, json!({})).await.unwrap_err(),
        "`mine` failed with exit code 3: no such customer"
    );
    let made = command("echo only this; exit 1");
    assert_eq!(call_tool(&made, json!({})).await.unwrap_err(), "`mine` failed with exit code 1: only this");
    let made = command("kill -9 $$");
    assert_eq!(call_tool(&made, json!({})).await.unwrap_err(), "`mine` was ended by signal 9");
}

#[tokio::test]
async fn it_has_a_clean_environment_and_the_key_of_its_call() {
    let made = command("echo $MINE $LANGO_CALL_ID ${CARGO_MANIFEST_DIR:-clean}");
    assert_eq!(call_tool(&made, json!({})).await.unwrap()["output"], "yes call-1 clean\n");
}

#[tokio::test]
async fn its_time_is_limited_and_what_it_started_ends_with_it() {
    let mut made = command("sleep 60 & sleep 60");
    made.tool.config.time = Duration::from_millis(100);
    let began = Instant::now();
    assert_eq!(call_tool(&made, json!({})).await.unwrap_err(), "`mine` was ended after 0.1 s");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn it_ends_with_the_turn() {
    let made = command("sleep 60");
    let host = Arc::new(testing::RecordingHost { cancelled: true, ..testing::RecordingHost::default() });
    let outcome = made.tool.call(testing::request(&host, json!({}))).await;
    assert!(matches!(outcome, Err(ToolsError::Cancelled)));
}

#[tokio::test]
async fn a_long_output_is_cut_and_kept() {
    let made = command("seq 1 20000");
    let answer = call_tool(&made, json!({})).await.unwrap();
    assert!(answer["handle"].as_str().unwrap().starts_with("out-"), "{answer}");
    assert!(answer["output"].as_str().unwrap().len() < 60_000);
}

#[tokio::test]
async fn a_program_that_is_missing_is_named() {
    let mut made = command("");
    made.tool.config.argv = vec!["no-such-program".to_owned()];
    let told = call_tool(&made, json!({})).await.unwrap_err();
    assert!(told.starts_with("`mine` runs `no-such-program`: the command could not be started"), "{told}");
}

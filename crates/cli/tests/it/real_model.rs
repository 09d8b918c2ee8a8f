//! A real language model behind llama.cpp's server, in three wire formats. Its text varies, so these tests check structure, ids,
//! finish reasons and counts. `cargo xtask check` installs it and sets `LANGO_TEST_LLAMA`.

use crate::common::{StoredLog, TestEnv, fixtures, text_of};
use adk::event::Event;
use session::SessionKey;
use std::{
    env,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

const WIRES: [&str; 3] = ["chat", "responses", "anthropic"];

/// The model server. Dropping it kills the process.
struct Llama {
    process: Child,
    port: u16,
}

impl Llama {
    /// Returns `None` if the model is not installed. In CI it must be.
    fn start() -> Option<Self> {
        let Some(dir) = env::var_os("LANGO_TEST_LLAMA") else {
            assert!(
                env::var_os("CI").is_none(),
                "`cargo xtask check` installs the model and sets LANGO_TEST_LLAMA"
            );
            return None;
        };
        let dir = Path::new(&dir);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new(dir.join("venv/bin/python"))
            .arg(fixtures().join("peers/llama_server.py"))
            .arg(dir.join("model.gguf"))
            .arg(port.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.is_ok_and(|line| line.contains("listening"))),
            "the model server ended"
        );
        Some(Self { process, port })
    }

    /// An environment with one provider for each wire format, all on this server.
    fn test_env(&self) -> TestEnv {
        let env = TestEnv::new();
        let provider = |api: &str| {
            let url = format!("http://127.0.0.1:{}", self.port);
            format!("[providers.{api}]\napi = \"{api}\"\nbase_url = \"{url}/v1\"\nkey = \"none\"\n")
        };
        let stub = "[stubs.get_weather]\ndescription = \"The weather in a city\"\nresponse = { sky = \"clear\" }\n\
                    parameters = { type = \"object\", properties = { city = { type = \"string\" } }, required = [\"city\"] }\n";
        env.file("lango.toml", format!("app = \"weather\"\n{}{stub}", WIRES.map(provider).concat()));
        env
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes the agent's file for the next message.
fn agent(env: &TestEnv, more: &str) {
    let agent = format!(
        "name: weather\ninstruction: Answer in one short sentence.\ngenerate_content_config:\n  max_output_tokens: 48\n  temperature: 0\n{more}"
    );
    env.file("agents/weather/root_agent.yaml", agent);
}

const SILENT: &str = "tools: []\n";
const FORCED: &str = "  tool_config: {function_calling_config: {mode: ANY}}\ntools: [{name: get_weather}]\n";

fn log(env: &TestEnv) -> StoredLog {
    StoredLog::read(&env.database(), &SessionKey::new("weather", "user", "s"))
}

/// Checks that the event has usage and a finish reason.
#[track_caller]
fn assert_counted(event: &Event, wire: &str) {
    let usage = event.usage_metadata.as_ref().unwrap_or_else(|| panic!("{wire}: no usage in {event:?}"));
    assert!(
        usage.prompt_token_count > Some(0) && usage.candidates_token_count > Some(0),
        "{wire}: {usage:?}"
    );
    assert!(event.finish_reason.is_some(), "{wire}: {event:?}");
}

fn last_answer(log: &StoredLog) -> &Event {
    log.events.iter().rfind(|event| !event.is_from_user() && event.responses().next().is_none()).unwrap()
}

#[test]
fn real_model_answers_and_calls_tools_in_every_wire_format() {
    let Some(llama) = Llama::start() else { return };
    for (turn, wire) in WIRES.into_iter().enumerate() {
        let env = llama.test_env();
        let model = format!("{wire}/smollm2");
        let run = |message: &str| env.lango(&["run", "--session", "s", "--model", &model, message]);

        agent(&env, SILENT);
        let streamed =
            env.lango(&["run", "--json", "--session", "s", "--model", &model, "Say hello."]).success();
        let partials = streamed.out.lines().filter(|line| line.contains("\"partial\":true")).count();
        assert!(partials > 1, "{wire}: streamed in {partials} chunks");
        assert_counted(last_answer(&log(&env)), wire);

        agent(&env, FORCED);
        let limited = ["run", "--session", "s", "--model", &model, "What is the weather in Paris?"];
        let ended = env.run(env.command(limited).env("LANGO_LIMITS_MODEL_CALLS", "1")).failure();
        assert!(ended.err.contains("limit of 1 model calls reached"), "{wire}: {}", ended.err);
        let stored = log(&env);
        stored.assert_consistent();
        let call = stored.events.iter().find(|event| event.calls().next().is_some()).unwrap();
        assert_eq!(call.calls().next().unwrap().name, "get_weather", "{wire}");
        assert_counted(call, wire);

        // The session continues in the next wire format, without the tool.
        agent(&env, SILENT);
        let next = format!("{}/smollm2", WIRES[(turn + 1) % WIRES.len()]);
        env.lango(&["run", "--session", "s", "--model", &next, "So how is it?"]).success();
        run("Thank you.").success();
        let stored = log(&env);
        stored.assert_consistent();
        let answer = last_answer(&stored);
        assert!(!text_of(answer).trim().is_empty(), "{wire}");
        assert_counted(answer, wire);
        assert_eq!(stored.user_messages().len(), 4, "{wire}");
    }
}

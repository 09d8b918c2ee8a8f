//! A real language model behind a real server, llama.cpp's, in three wire formats. What it says is its own affair: these tests
//! look at structure, ids, reasons and counts. `cargo xtask check` installs it and says where.

use crate::common::{Log, Place, fixtures, said};
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

/// The server, while it is needed.
struct Llama {
    process: Child,
    port: u16,
}

impl Llama {
    /// `None` where it is not installed. In CI it has to be.
    fn start() -> Option<Self> {
        let Some(place) = env::var_os("LANGO_TEST_LLAMA") else {
            assert!(
                env::var_os("CI").is_none(),
                "`cargo xtask check` installs the model and sets LANGO_TEST_LLAMA"
            );
            return None;
        };
        let place = Path::new(&place);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new(place.join("venv/bin/python"))
            .arg(fixtures().join("peers/llama_server.py"))
            .arg(place.join("model.gguf"))
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

    /// A machine with one provider for each wire format, all of them this server.
    fn place(&self) -> Place {
        let place = Place::new();
        let provider = |api: &str| {
            let url = format!("http://127.0.0.1:{}", self.port);
            format!("[providers.{api}]\napi = \"{api}\"\nbase_url = \"{url}/v1\"\nkey = \"none\"\n")
        };
        let stub = "[stubs.get_weather]\ndescription = \"The weather in a city\"\nresponse = { sky = \"clear\" }\n\
                    parameters = { type = \"object\", properties = { city = { type = \"string\" } }, required = [\"city\"] }\n";
        place.file("lango.toml", format!("app = \"weather\"\n{}{stub}", WIRES.map(provider).concat()));
        place
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The agent as it is for the next message.
fn agent(place: &Place, more: &str) {
    let agent = format!(
        "name: weather\ninstruction: Answer in one short sentence.\ngenerate_content_config:\n  max_output_tokens: 48\n  temperature: 0\n{more}"
    );
    place.file("agents/weather/root_agent.yaml", agent);
}

const SILENT: &str = "tools: []\n";
const FORCED: &str = "  tool_config: {function_calling_config: {mode: ANY}}\ntools: [{name: get_weather}]\n";

fn log(place: &Place) -> Log {
    Log::read(&place.database(), &SessionKey::new("weather", "user", "s"))
}

/// What every answer of a model has.
#[track_caller]
fn assert_counted(event: &Event, wire: &str) {
    let usage = event.usage_metadata.as_ref().unwrap_or_else(|| panic!("{wire}: no usage in {event:?}"));
    assert!(
        usage.prompt_token_count > Some(0) && usage.candidates_token_count > Some(0),
        "{wire}: {usage:?}"
    );
    assert!(event.finish_reason.is_some(), "{wire}: {event:?}");
}

fn last_answer(log: &Log) -> &Event {
    log.events.iter().rfind(|event| !event.is_from_user() && event.responses().next().is_none()).unwrap()
}

#[test]
fn a_real_model_talks_calls_a_tool_and_goes_on_in_every_wire_format() {
    let Some(llama) = Llama::start() else { return };
    for (turn, wire) in WIRES.into_iter().enumerate() {
        let place = llama.place();
        let model = format!("{wire}/smollm2");
        let run = |message: &str| place.lango(&["run", "--session", "s", "--model", &model, message]);

        agent(&place, SILENT);
        let streamed =
            place.lango(&["run", "--json", "--session", "s", "--model", &model, "Say hello."]).well();
        let partials = streamed.out.lines().filter(|line| line.contains("\"partial\":true")).count();
        assert!(partials > 1, "{wire}: streamed in {partials} pieces");
        assert_counted(last_answer(&log(&place)), wire);

        agent(&place, FORCED);
        let limited = ["run", "--session", "s", "--model", &model, "What is the weather in Paris?"];
        let ended = place.said(place.command(limited).env("LANGO_LIMITS_MODEL_CALLS", "1")).badly();
        assert!(ended.err.contains("limit of 1 model calls reached"), "{wire}: {}", ended.err);
        let stored = log(&place);
        stored.assert_sound();
        let call = stored.events.iter().find(|event| event.calls().next().is_some()).unwrap();
        assert_eq!(call.calls().next().unwrap().name, "get_weather", "{wire}");
        assert_counted(call, wire);

        // The same session goes on in the next wire format, without the tool.
        agent(&place, SILENT);
        let next = format!("{}/smollm2", WIRES[(turn + 1) % WIRES.len()]);
        place.lango(&["run", "--session", "s", "--model", &next, "So how is it?"]).well();
        run("Thank you.").well();
        let stored = log(&place);
        stored.assert_sound();
        let answer = last_answer(&stored);
        assert!(!said(answer).trim().is_empty(), "{wire}");
        assert_counted(answer, wire);
        assert_eq!(stored.asked().len(), 4, "{wire}");
    }
}

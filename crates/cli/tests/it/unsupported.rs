//! Requests that a server rejects for a part that it does not support, or for their length: recovered, reported, and
//! remembered by later processes.

use crate::common::{CliOutput, REST, TestEnv, api_name, provider};
use adk::event::Event;
use bridge::model::{Notice, NoticeKind};
use insta::assert_snapshot;
use serde_json::Value;
use std::{sync::Mutex, thread};
use testkit::{
    ProviderApi,
    fakeprov::{FakeProvider, Rejection},
};

/// The number of concurrent cases.
const WORKERS: usize = 4;

/// Format, status, what is unsupported, and the message.
const UNSUPPORTED: &str = include_str!("../../../provider/src/unsupported/phrasings.txt");
/// Status and message.
const TOO_LONG: &str = include_str!("../../../provider/src/classify/too_long/phrasings.txt");

/// Settings that use every optional part of a request.
const SETTINGS: &str = "
[generate]
temperature = 0.2
topP = 0.9
seed = 1
maxOutputTokens = 8000
stopSequences = [\"END\"]
responseSchema = { type = \"object\" }
thinkingConfig = { thinkingLevel = \"LOW\" }
toolConfig = { functionCallingConfig = { mode = \"AUTO\" } }
";

/// One pixel.
const IMAGE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const IMAGE_BASE64: &str = "iVBORw0KGgo";

fn api(name: &str) -> ProviderApi {
    *ProviderApi::ALL.iter().find(|api| api_name(**api) == name).unwrap()
}

/// Whether a body has the part that an omission's key names.
fn has_part(body: &Value, key: &str) -> bool {
    let text = body.to_string();
    match key.split_once('.') {
        None if key == "tools" => body.get("tools").is_some(),
        None => {
            ["system", "instructions", "systemInstruction"].iter().any(|place| body.get(place).is_some())
                || text.contains("\"system\"")
        }
        Some(("media", _)) => text.contains(IMAGE_BASE64),
        Some((_, path)) => {
            let at_path = body.pointer(&format!("/{}", path.replace('.', "/"))).is_some();
            at_path || (path == "cache_control" && text.contains(path))
        }
    }
}

fn environment(fake: &FakeProvider, api: ProviderApi, scenario: &str, settings: &str) -> TestEnv {
    let env = TestEnv::new();
    let provider = provider("fake", fake, api, scenario);
    env.file("lango.toml", format!("model = \"fake/gemini-2.5-flash\"\n{provider}{settings}{REST}"));
    env.file("cat.png", IMAGE);
    env
}

fn bodies(fake: &FakeProvider, scenario: &str) -> Vec<Value> {
    fake.requests()
        .into_iter()
        .filter(|request| request.scenario == scenario && !request.body.is_null())
        .map(|request| request.body)
        .collect()
}

fn events(output: &CliOutput) -> Vec<Event> {
    output.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The kinds of the notices, and of the notice of the answer.
fn kinds(output: &CliOutput) -> (Vec<NoticeKind>, Option<NoticeKind>) {
    let events = events(output);
    let (partial, last): (Vec<&Event>, Vec<&Event>) = events.iter().partition(|event| event.is_partial());
    let kind = |event: &&Event| Notice::from_event(event).map(|notice| notice.kind);
    (partial.iter().filter_map(kind).collect(), last.last().and_then(kind))
}

/// Runs the cases concurrently and reports those that fail.
fn check_all(cases: &[&str], check: impl Fn(&FakeProvider, usize, &str) -> Result<(), String> + Sync) {
    let fake = FakeProvider::start_blocking();
    let (next, wrong) = (Mutex::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let number = {
            let mut next = next.lock().unwrap();
            *next += 1;
            *next - 1
        };
        let Some(case) = cases.get(number) else { return };
        if let Err(message) = check(&fake, number, case) {
            wrong.lock().unwrap().push(format!("{case}\n  {message}"));
        }
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

#[test]
fn unsupported_parts_are_left_out_reported_and_remembered_after_a_restart() {
    let cases: Vec<&str> = UNSUPPORTED.lines().collect();
    assert!(cases.len() >= 20);
    check_all(&cases, |fake, number, case| {
        let [format, status, key, message] = case.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{case}")
        };
        let scenario = format!("unsupported{number}");
        let part = key.to_owned();
        fake.reject(
            &scenario,
            Rejection {
                status: status.parse().unwrap(),
                message: message.to_owned(),
                when: Box::new(move |body| has_part(body, &part)),
            },
        );
        let env = environment(fake, api(format), &scenario, SETTINGS);
        let args = ["run", "--json", "--file", "cat.png", "--session", "a", "What is it?"];
        let output = env.lango_with_key(&args);
        ensure(output.code == Some(0), || format!("{output:?}"))?;
        let expected = (vec![NoticeKind::Unsupported], Some(NoticeKind::Unsupported));
        let seen = kinds(&output);
        ensure(
            seen.0.iter().filter(|kind| **kind != NoticeKind::Warning).eq(&expected.0)
                && seen.1 == expected.1,
            || format!("{seen:?}"),
        )?;
        let again =
            env.lango_with_key(&["run", "--json", "--file", "cat.png", "--session", "b", "What is it?"]);
        ensure(again.code == Some(0), || format!("{again:?}"))?;
        let sent: Vec<bool> = bodies(fake, &scenario).iter().map(|body| has_part(body, key)).collect();
        ensure(sent == [true, false, false], || format!("{sent:?}"))
    });
}

#[test]
fn context_sizes_are_learned_from_any_phrasing_and_remembered_after_a_restart() {
    let cases: Vec<&str> = TOO_LONG.lines().collect();
    assert!(cases.len() >= 40);
    check_all(&cases, |fake, number, case| {
        let (status, message) = case.split_once(' ').unwrap();
        let scenario = format!("long{number}");
        fake.reject(
            &scenario,
            Rejection {
                status: status.parse().unwrap(),
                message: message.to_owned(),
                when: Box::new(|body| body.to_string().len() > 80_000),
            },
        );
        let format = ProviderApi::ALL[number % ProviderApi::ALL.len()];
        let env = environment(fake, format, &scenario, "");
        let text = "word ".repeat(20_000);
        let output = env.lango_with_key(&["run", "--json", "--session", "a", &text]);
        ensure(output.code == Some(0), || format!("{output:?}"))?;
        let seen = kinds(&output).0;
        ensure(seen.contains(&NoticeKind::Shorter), || format!("{seen:?}"))?;
        let again = env.lango_with_key(&["run", "--json", "--session", "b", &text]);
        ensure(again.code == Some(0), || format!("{again:?}"))?;
        let sizes: Vec<usize> = bodies(fake, &scenario).iter().map(|body| body.to_string().len()).collect();
        ensure(sizes.len() == 3, || format!("{sizes:?}"))
    });
}

/// An environment whose server does not support temperatures.
fn without_temperature(fake: &FakeProvider) -> TestEnv {
    fake.reject(
        "cold",
        Rejection {
            status: 400,
            message: "Unsupported parameter: 'temperature' is not supported with this model.".to_owned(),
            when: Box::new(|body| body.get("temperature").is_some()),
        },
    );
    environment(fake, ProviderApi::OpenAi, "cold", "[generate]\ntemperature = 0.2\n")
}

#[test]
fn user_is_told_what_was_left_out() {
    let fake = FakeProvider::start_blocking();
    let env = without_temperature(&fake);
    assert_snapshot!(env.lango_with_key(&["run", "--session", "k", "hello"]).success().snapshot(), @r#"
    Grüß dich 🌍
    fake does not support `temperature`; retrying without it
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
    assert_snapshot!(env.lango_with_key(&["run", "--session", "k", "again"]).success().snapshot(), @r#"
    Grüß dich 🌍
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
    assert_snapshot!(env.lango_with_key(&["sessions", "show", "k"]).success().out, @"
           user  hello
    lango-agent  (thought) Let me think.
    lango-agent  Grüß dich 🌍
    lango-agent  [fake/gemini-2.5-flash answered without `temperature`, which it does not support]
                 [fake/gemini-2.5-flash: 100 tokens in (64 cached), 20 out (5 reasoning)]
           user  again
    lango-agent  (thought) Let me think.
    lango-agent  Grüß dich 🌍
                 [fake/gemini-2.5-flash: 100 tokens in (64 cached), 20 out (5 reasoning)]
                 [total: 200 tokens in (128 cached), 40 out (10 reasoning)]
    ");
}

#[test]
fn models_shows_and_forgets_what_is_remembered() {
    let fake = FakeProvider::start_blocking();
    let env = without_temperature(&fake);
    env.lango_with_key(&["run", "hello"]).success();
    assert_snapshot!(env.lango_with_key(&["models", "fake"]).success().out, @"
    fake answers (chat) and offers 2 models
      fake/gpt-x
      fake/gpt-x-mini
    remembered for a week (lango models --forget deletes it):
      fake/gemini-2.5-flash: does not support `temperature`
    ");
    assert_snapshot!(env.lango_with_key(&["models", "fake", "--json"]).success().out, @r#"{"provider":"fake","api":"chat","answers":true,"models":[{"id":"gpt-x","context":null},{"id":"gpt-x-mini","context":null}],"problem":null,"remembered":[{"id":"gemini-2.5-flash","unsupported":["field.temperature"],"context":null}]}"#);
    assert_snapshot!(env.lango_with_key(&["models", "--forget", "fake/other"]).success().out, @"nothing is remembered of fake/other");
    assert_snapshot!(env.lango_with_key(&["models", "--forget", "fake/gemini-2.5-flash"]).success().out, @"forgot what its server said about 1 model");
    env.lango_with_key(&["run", "hello"]).success();
    let sent: Vec<bool> =
        bodies(&fake, "cold").iter().map(|body| body.get("temperature").is_some()).collect();
    assert_eq!(sent, [true, false, true, false]);
    assert_snapshot!(env.lango_with_key(&["models", "--forget"]).success().out, @"forgot what its server said about 1 model");
    assert_snapshot!(env.lango_with_key(&["models", "--forget"]).success().out, @"nothing is remembered of any model");
}

#[test]
fn damaged_memory_is_reported_and_replaced() {
    let fake = FakeProvider::start_blocking();
    let env = without_temperature(&fake);
    std::fs::create_dir_all(env.home()).unwrap();
    std::fs::write(env.home().join("model-memory.json"), "{").unwrap();
    let output = env.lango_with_key(&["run", "hello"]).success();
    assert!(output.err.contains("model-memory.json is damaged and ignored"), "{output:?}");
    let output = env.lango_with_key(&["run", "hello"]).success();
    assert!(!output.err.contains("damaged"), "{output:?}");
    assert_eq!(bodies(&fake, "cold").len(), 3);
}

/// A model whose server rejects every request, with a fallback in another wire format.
fn rejected_with_fallback(fake: &FakeProvider, status: u16, message: &str) -> TestEnv {
    let rejection = Rejection { status, message: message.to_owned(), when: Box::new(|_| true) };
    fake.reject("never", rejection);
    let env = TestEnv::new();
    let providers = provider("one", fake, ProviderApi::OpenAi, "never")
        + &provider("two", fake, ProviderApi::Gemini, "text");
    env.file("lango.toml", format!("model = \"one/small\"\nfallback = [\"two/large\"]\n{providers}{REST}"));
    env
}

#[test]
fn fallback_answers_for_a_retired_model_and_for_one_without_tools() {
    let fake = FakeProvider::start_blocking();
    let env = rejected_with_fallback(&fake, 400, "The model `small` has been decommissioned.");
    assert_snapshot!(env.lango_with_key(&["run", "--session", "k", "hello"]).success().err, @r#"
    one rejected the request; asking two/large instead
    (to continue: lango run --session k "…")
    "#);
    let env = rejected_with_fallback(&fake, 400, "small does not support tools");
    assert_snapshot!(env.lango_with_key(&["run", "--session", "k", "hello"]).success().err, @r#"
    one does not support tool use; asking two/large instead
    (to continue: lango run --session k "…")
    "#);
    // The second process asks the fallback at once.
    let before = bodies(&fake, "never").len();
    assert_snapshot!(env.lango_with_key(&["run", "--session", "k", "hello"]).success().err, @r#"
    one does not support tool use; asking two/large instead
    (to continue: lango run --session k "…")
    "#);
    assert_eq!(bodies(&fake, "never").len(), before);
}

//! Every scenario of the fake providers in every wire format, through the binary: no silent loss, no hang.

use crate::common::{CliOutput, TestEnv, api_name, text_of};
use adk::{content::FunctionCall, event::Event};
use bridge::model::{Notice, NoticeKind};
use std::{
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};
use testkit::{
    ProviderApi,
    fakeprov::{FakeProvider, SCENARIOS},
};

/// The number of concurrent scenarios; most of them wait.
const WORKERS: usize = 8;

/// Timeout, longer than any scenario takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The expected notices, calls, and answer or error. `=` repeats the cell to its left.
///
/// `calls` are the fake's two calls, complete and in order; `malformed` is a call whose arguments are not JSON, which gets an
/// error and is not run.
/// A failure after the first shown text is not retried.
const TABLE: &str = "
            | chat                                 | responses       | anthropic         | gemini                        | ollama
ok          | calls answer                         | =               | =                 | =                             | =
text        | answer                               | =               | =                 | =                             | =
think       | report                               | =               | =                 | =                             | =
two         | calls report                         | =               | =                 | =                             | =
slowtext    | ticks                                | =               | =                 | =                             | =
bytes1      | calls answer                         | =               | =                 | =                             | =
crlf        | calls answer                         | =               | =                 | =                             | =
nospace     | calls answer                         | =               | =                 | =                             | =
comment     | calls answer                         | =               | =                 | =                             | =
noblank     | calls answer                         | =               | =                 | =                             | =
big         | 4MB calls answer                     | =               | =                 | =                             | =
sameidx     | calls answer                         | =               | =                 | =                             | =
gapidx      | calls answer                         | =               | =                 | =                             | =
noid        | calls answer                         | =               | =                 | =                             | =
sameid      | calls answer                         | =               | =                 | =                             | =
nodone      | calls answer                         | error TRUNCATED | calls answer      | error TRUNCATED               | =
trunc       | error TRUNCATED                      | =               | =                 | =                             | =
trunctext   | error TRUNCATED                      | =               | =                 | =                             | =
cut         | error TRANSIENT                      | =               | =                 | =                             | =
drop        | error TRANSIENT                      | =               | =                 | =                             | =
errmid      | error TRANSIENT                      | =               | =                 | =                             | =
badjson     | error PROTOCOL                       | =               | =                 | =                             | =
badargs     | malformed call answer                | =               | =                 | error MALFORMED_FUNCTION_CALL | malformed call answer
length      | cut answer MAX_TOKENS                | =               | =                 | =                             | =
refuse      | error content_filter                 | =               | error REFUSAL     | error SAFETY                  | calls answer
refuse0     | error refusal                        | =               | error REFUSAL     | error PROHIBITED_CONTENT      | calls answer
empty       | retry retry error TRUNCATED          | =               | =                 | =                             | =
html        | error PROTOCOL                       | =               | =                 | =                             | =
json200     | retry retry error TRANSIENT          | =               | =                 | =                             | =
hang        | error STALLED                        | retry retry error STALLED | =         | error STALLED                 | =
hanghead    | retry retry error STALLED            | =               | =                 | =                             | =
r429        | error RATE_LIMITED                   | =               | =                 | =                             | =
r429ms      | error RATE_LIMITED                   | =               | =                 | =                             | =
r429date    | error RATE_LIMITED                   | =               | =                 | =                             | =
quota       | error QUOTA                          | =               | =                 | =                             | =
ctx400      | shorter error CONTEXT_OVERFLOW       | =               | =                 | =                             | =
auth401     | error AUTH                           | =               | =                 | =                             | =
bad400      | error BAD_REQUEST                    | =               | =                 | =                             | =
r500        | retry retry error TRANSIENT          | =               | =                 | =                             | =
r503        | error TRANSIENT                      | =               | =                 | =                             | =
o529        | retry retry error TRANSIENT          | =               | =                 | =                             | =
flaky       | retry retry calls answer             | =               | =                 | =                             | =
ctxonce     | shorter calls answer                 | =               | =                 | =                             | =
echokey     | error AUTH                           | =               | =                 | =                             | =
echokey200  | error AUTH                           | =               | =                 | =                             | error TRANSIENT
redirect    | error SETUP                          | =               | =                 | =                             | =
nothing     | retry retry error EMPTY_ANSWER       | =               | =                 | =                             | =
thinkonly   | retry retry error REASONING_ONLY     | =               | =                 | =                             | =
length0     | error MAX_TOKENS                     | =               | =                 | =                             | =
oddtypes    | calls answer                         | =               | =                 | =                             | =
badbyte     | answer with a bad byte               | =               | =                 | =                             | =
surrogates  | answer                               | =               | =                 | =                             | =
choices     | answer                               | calls answer    | =                 | answer                        | calls answer
eof1        | retry retry error TRUNCATED          | =               | =                 | =                             | =
errthought  | retry retry error TRANSIENT          | =               | =                 | =                             | =
bareerror   | retry retry error TRANSIENT          | =               | =                 | calls answer                  | =
";

fn cells(line: &str) -> Vec<&str> {
    line.split('|').map(str::trim).collect()
}

/// The cell of the table.
fn expected(api: ProviderApi, scenario: &str) -> &'static str {
    let row = TABLE.lines().map(cells).find(|cells| cells[0] == scenario).unwrap();
    let column = 1 + ProviderApi::ALL.iter().position(|one| *one == api).unwrap();
    row[1..=column].iter().rfind(|cell| **cell != "=").unwrap()
}

/// Runs every scenario in a wire format, and reports those with another outcome.
#[track_caller]
fn check(api: ProviderApi) {
    let fake = FakeProvider::start_blocking();
    let (next, wrong) = (Mutex::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(scenario) = take(&next) {
            let (seen, expected) = (outcome(&fake, api, scenario), expected(api, scenario));
            if seen != expected {
                wrong.lock().unwrap().push(format!("{scenario}: {seen}, and not {expected}"));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}:\n{}", api_name(api), wrong.join("\n"));
}

fn take(next: &Mutex<usize>) -> Option<&'static str> {
    let mut next = next.lock().unwrap();
    *next += 1;
    SCENARIOS.get(*next - 1).copied()
}

fn outcome(fake: &FakeProvider, api: ProviderApi, scenario: &str) -> String {
    let env = TestEnv::with_provider(fake, api, scenario);
    // Long enough to be shortened after a context overflow.
    let message = format!("hello {}", "word ".repeat(600));
    let start = Instant::now();
    let output = env.lango_with_key(&["run", "--json", "--session", "k", &message]);
    assert!(start.elapsed() < TIMEOUT, "{scenario} hangs in {}: {output:?}", api_name(api));
    assert!(!output.err.contains("panicked"), "{scenario} in {}: {output:?}", api_name(api));
    summary(&output)
}

/// The notices, the calls, and the answer or error.
fn summary(output: &CliOutput) -> String {
    let events: Vec<Event> = output.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let notices = events.iter().filter(|event| event.is_partial()).filter_map(Notice::from_event);
    let mut words: Vec<String> = Vec::new();
    for notice in notices {
        words.push(match notice.kind {
            NoticeKind::Retry => "retry".to_owned(),
            NoticeKind::Shorter => "shorter".to_owned(),
            NoticeKind::Fallback => "fallback".to_owned(),
            NoticeKind::Unsupported => "without".to_owned(),
            NoticeKind::Cut => "cut".to_owned(),
            NoticeKind::Warning => format!("[{}]", notice.message),
        });
    }
    let finals: Vec<&Event> = events.iter().filter(|event| !event.is_partial()).collect();
    for event in &finals {
        words.extend(calls(event));
    }
    let last = finals.last().copied().cloned().unwrap_or_default();
    words.push(match (&last.error_code, output.code) {
        (Some(code), Some(1)) => format!("error {code}"),
        (None, Some(0)) => answer(&last),
        odd => format!("?? {odd:?} {output:?}"),
    });
    words.join(" ")
}

/// The calls of an event, abbreviated if they are those of the fake.
fn calls(event: &Event) -> Option<String> {
    let describe = |call: &FunctionCall| match call.malformed_args() {
        Some(r#"{"city": Zurich oops"#) => "malformed".to_owned(),
        Some(odd) => format!("malformed({odd})"),
        None => serde_json::to_string(&call.args).unwrap(),
    };
    let calls: Vec<String> = event.calls().map(describe).collect();
    match calls.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        [r#"{"city":"Zürich","n":1}"#, TOKYO] if text_of(event).len() > 4 << 20 => {
            Some("4MB calls".to_owned())
        }
        [r#"{"city":"Zürich","n":1}"#, TOKYO] => Some("calls".to_owned()),
        ["malformed", TOKYO] => Some("malformed call".to_owned()),
        _ => Some(calls.join(" ")),
    }
}

const TOKYO: &str = r#"{"city":"Tōkyō"}"#;

fn answer(event: &Event) -> String {
    let ticks: Vec<String> = (1..=100).map(|tick| format!("tick {tick} ")).collect();
    let whole = match text_of(event).as_str() {
        "" => "nothing".to_owned(),
        "Grüß dich 🌍" => "answer".to_owned(),
        "Grüß\u{fffd}dich 🌍" => "answer with a bad byte".to_owned(),
        "Zürich 21°, Tōkyō 28°." => "report".to_owned(),
        other if other == ticks.concat() => "ticks".to_owned(),
        other => format!("{other:?}"),
    };
    match event.finish_reason.as_deref() {
        Some("STOP") | None => whole,
        Some(reason) => format!("{whole} {reason}"),
    }
}

#[test]
fn chat_completions_scenarios_have_the_expected_outcomes() {
    check(ProviderApi::OpenAi);
}

#[test]
fn responses_scenarios_have_the_expected_outcomes() {
    check(ProviderApi::Responses);
}

#[test]
fn anthropic_scenarios_have_the_expected_outcomes() {
    check(ProviderApi::Anthropic);
}

#[test]
fn gemini_scenarios_have_the_expected_outcomes() {
    check(ProviderApi::Gemini);
}

#[test]
fn ollama_scenarios_have_the_expected_outcomes() {
    check(ProviderApi::Ollama);
}

#[test]
fn table_has_every_scenario() {
    let rows: Vec<&str> =
        TABLE.lines().filter(|line| !line.is_empty()).skip(1).map(|line| cells(line)[0]).collect();
    assert_eq!(rows, SCENARIOS);
}

//! Ctrl-C and SIGKILL in the middle of an answer of `lango run` and `lango chat`.

use super::{GatedProvider, LATER, SHOWN, THOUGHT, WHOLE, interrupted, key, line};
use crate::{
    common::{CTRL_C, CliOutput, Terminal},
    round_trip::conversation,
};
use adk::notes::CONTINUE_NOTE;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::Read as _,
    process::{Child, Output, Stdio},
};
use testkit::ProviderApi;

/// A `lango run` process that is streaming an answer.
struct StreamingRun {
    child: Child,
    out: Vec<u8>,
}

impl StreamingRun {
    fn start(gated: &GatedProvider, args: &[&str]) -> Self {
        let mut command = gated.env.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, out: Vec::new() }
    }

    /// Waits until the standard output ends with `end`.
    #[track_caller]
    fn wait_for_output(&mut self, end: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.out.ends_with(end.as_bytes()) {
            let count = stdout.read(&mut byte).unwrap();
            assert_eq!(count, 1, "it ended before {end:?}: {:?}", String::from_utf8_lossy(&self.out));
            self.out.extend(byte);
        }
    }

    /// Sends a signal and waits for the exit.
    fn stop(mut self, gated: &GatedProvider, signal: Signal) -> CliOutput {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let (mut stdout, mut stderr) = (std::mem::take(&mut self.out), Vec::new());
        self.child.stdout.as_mut().unwrap().read_to_end(&mut stdout).unwrap();
        self.child.stderr.as_mut().unwrap().read_to_end(&mut stderr).unwrap();
        gated.env.cli_output(&Output { status: self.child.wait().unwrap(), stdout, stderr })
    }
}

impl Drop for StreamingRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The messages of a request with `next` after the interrupted answer.
fn presented(next: &str) -> Vec<String> {
    vec!["user: weather?".to_owned(), format!("assistant: {SHOWN}"), format!("user: {next}")]
}

#[test]
fn ctrl_c_stores_the_partial_answer_and_the_next_request_contains_it() {
    let mut sent = Vec::new();
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN]);
        let mut run = StreamingRun::start(&gated, &["run", "--session", "k", "weather?"]);
        run.wait_for_output(SHOWN);
        let stopped = run.stop(&gated, Signal::INT);
        assert_eq!(stopped.code, Some(130), "{stopped:?}");
        assert_eq!(stopped.out, format!("{SHOWN}\n"), "{api:?}");
        assert_eq!(stopped.err, "lango: stopped; everything so far is stored\n");
        let stored = ["user: \"weather?\"".to_owned(), interrupted()];
        assert_eq!(gated.log(&key("k")), stored, "{api:?}");
        assert!(gated.drafts().is_empty());
        let show = gated.env.lango(&["sessions", "show", "k"]).success().out;
        let marked =
            format!("lango-agent  (thought) {THOUGHT}\n lango-agent  {SHOWN}\n lango-agent  [interrupted]\n");
        assert_eq!(show, format!("        user  weather?\n {marked}"), "{api:?}");

        gated.set_scenario("text");
        let continued = gated.env.lango(&["run", "--continue", "and now?"]).success();
        assert_eq!(continued.out, format!("{LATER}\n"));
        assert_eq!(gated.requests()[1..], [presented("and now?")], "{api:?}");
        sent.push(format!("{api:?}\n{}", conversation(&gated.fake.requests()[1].body)));
        let log = gated.log(&key("k"));
        assert_eq!(log[..2], stored, "{api:?}");
        assert_eq!((log.len(), log[2].as_str()), (4, "user: \"and now?\""), "{log:?}");
    }
    insta::assert_snapshot!(sent.join("\n"), @r#"
    OpenAi
    {"role":"user","content":"weather?"}
    {"role":"assistant","content":"Zürich 21°, "}
    {"role":"user","content":"and now?"}
    Responses
    {"type":"message","role":"user","content":[{"type":"input_text","text":"weather?"}]}
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Zürich 21°, "}]}
    {"type":"message","role":"user","content":[{"type":"input_text","text":"and now?"}]}
    Anthropic
    {"role":"user","content":[{"type":"text","text":"weather?","cache_control":{"type":"ephemeral"}}]}
    {"role":"assistant","content":[{"type":"text","text":"Zürich 21°, "}]}
    {"role":"user","content":[{"type":"text","text":"and now?","cache_control":{"type":"ephemeral"}}]}
    Gemini
    {"role":"user","parts":[{"text":"weather?"}]}
    {"role":"model","parts":[{"text":"Zürich 21°, "}]}
    {"role":"user","parts":[{"text":"and now?"}]}
    Ollama
    {"role":"user","content":"weather?"}
    {"role":"assistant","content":"Zürich 21°, "}
    {"role":"user","content":"and now?"}
    "#);
}

#[test]
fn interrupted_thought_is_stored_and_not_sent_as_an_empty_message() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[THOUGHT]);
        let mut run = StreamingRun::start(&gated, &["run", "--json", "--session", "k", "weather?"]);
        run.wait_for_output(THOUGHT);
        run.wait_for_output("\n");
        let stopped = run.stop(&gated, Signal::INT);
        assert_eq!(stopped.code, Some(130), "{stopped:?}");
        let shown: Vec<Value> = stopped.json_lines();
        let (last, partials) = shown.split_last().unwrap();
        assert!(partials.iter().all(|partial| partial["partial"] == true && partial["id"] == last["id"]));
        assert_eq!(line(last), format!("lango-agent: ({THOUGHT}) [interrupted]"), "{api:?}");
        assert_eq!(gated.log(&key("k"))[1..], [line(last)], "{api:?}");

        gated.set_scenario("text");
        gated.env.lango(&["run", "--continue", "and now?"]).success();
        let request = gated.requests()[1].join("\n");
        assert!(!request.contains("assistant"), "{api:?}: {request}");
        assert!(request.contains("weather?") && request.ends_with("and now?"), "{api:?}: {request}");
    }
}

#[test]
fn ctrl_c_in_a_chat_stores_the_partial_answer_and_the_chat_continues() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN]);
        let mut terminal = Terminal::open(&gated.env, &["chat", "--session", "k"]);
        terminal.wait_for("› ");
        terminal.type_line("weather?");
        terminal.wait_for(SHOWN);
        terminal.type_keys(CTRL_C);
        terminal.wait_for("stopped; the session can be continued");
        terminal.wait_for("› ");
        assert_eq!(gated.log(&key("k"))[1..], [interrupted()], "{api:?}");
        terminal.type_line("and now?");
        terminal.wait_for(WHOLE);
        terminal.quit();
        assert_eq!(gated.requests()[1..], [presented("and now?")], "{api:?}");
        let log = gated.log(&key("k"));
        let words = [
            "user: \"weather?\"".to_owned(),
            interrupted(),
            "user: \"and now?\"".to_owned(),
            format!("lango-agent: ({THOUGHT}) {WHOLE:?}"),
        ];
        assert_eq!(log, words, "{api:?}");
        let shown = gated.env.lango(&["sessions", "show", "k"]).success().out;
        assert_eq!(shown.matches("[interrupted]").count(), 1, "{shown}");
    }
}

#[test]
fn killed_run_is_continued_by_the_next_run_after_its_draft() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN]);
        let mut run = StreamingRun::start(&gated, &["run", "--session", "k", "weather?"]);
        run.wait_for_output(SHOWN);
        gated.wait_for_draft(SHOWN);
        let show = || gated.env.lango(&["sessions", "show", "k"]).success().out;
        assert!(show().ends_with(&format!("{SHOWN}\n lango-agent  [in progress]\n")), "{}", show());
        assert_eq!(run.stop(&gated, Signal::KILL).code, None);
        assert!(show().ends_with(&format!("{SHOWN}\n lango-agent  [interrupted]\n")), "{}", show());
        assert_eq!(gated.log(&key("k")), ["user: \"weather?\""], "the partial answer is only in the draft");

        gated.set_scenario("text");
        let continued = gated.env.lango(&["run", "--continue", "and now?"]).success();
        assert_eq!(continued.out, format!("{LATER}\n"));
        let first = "an earlier message of this session was interrupted; it is answered first\n";
        assert!(continued.err.starts_with(first), "{}", continued.err);
        let log = gated.log(&key("k"));
        assert_eq!(log.len(), 5, "{log:?}");
        assert_eq!(log[1], interrupted(), "{api:?}");
        assert!(log[2].starts_with("lango-agent: ") && log[2].ends_with(&format!("{LATER:?}")), "{log:?}");
        assert_eq!(log[3], "user: \"and now?\"");
        assert!(gated.drafts().is_empty());

        let resumed = vec![
            "user: weather?".to_owned(),
            format!("assistant: {SHOWN}"),
            format!("user: {CONTINUE_NOTE}"),
        ];
        let next = vec![format!("assistant: {LATER}"), "user: and now?".to_owned()];
        assert_eq!(gated.requests()[1..], [resumed.clone(), [resumed, next].concat()], "{api:?}");
    }
}
#[test]
fn ctrl_c_while_the_store_is_locked_warns_about_lost_text() {
    let gated = GatedProvider::new(ProviderApi::OpenAi, "think", &[SHOWN]);
    let mut run = StreamingRun::start(&gated, &["run", "--session", "k", "weather?"]);
    run.wait_for_output(SHOWN);
    let lock = rusqlite::Connection::open(gated.env.database()).unwrap();
    lock.busy_timeout(super::TIMEOUT).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let stopped = run.stop(&gated, Signal::INT);
    lock.execute_batch("ROLLBACK").unwrap();
    // The turn is abandoned, so the program must not promise that the text is stored.
    assert_eq!(
        stopped.err,
        "lango: stopped before the end of the answer was stored; the text that was shown last may be lost\n"
    );
    let next = gated.env.lango(&["sessions", "show", "k"]).success().out;
    assert!(next.contains("weather?"), "{next}");
}

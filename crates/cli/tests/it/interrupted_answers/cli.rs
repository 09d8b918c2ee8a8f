//! Ctrl-C and SIGKILL in the middle of an answer of `lango run` and `lango chat`.

use super::{LATER, SHOWN, Stage, THOUGHT, WHOLE, interrupted, key, line};
use crate::{
    common::{CTRL_C, Said, Terminal},
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

/// `lango run` in the middle of an answer.
struct Answering {
    child: Child,
    out: Vec<u8>,
}

impl Answering {
    fn start(stage: &Stage, args: &[&str]) -> Self {
        let mut command = stage.place.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, out: Vec::new() }
    }

    /// Waits until its standard output ends with this.
    #[track_caller]
    fn shows(&mut self, end: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.out.ends_with(end.as_bytes()) {
            let count = stdout.read(&mut byte).unwrap();
            assert_eq!(count, 1, "it ended before {end:?}: {:?}", String::from_utf8_lossy(&self.out));
            self.out.extend(byte);
        }
    }

    /// Sends it a signal and waits for its end.
    fn stop(mut self, stage: &Stage, signal: Signal) -> Said {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let (mut stdout, mut stderr) = (std::mem::take(&mut self.out), Vec::new());
        self.child.stdout.as_mut().unwrap().read_to_end(&mut stdout).unwrap();
        self.child.stderr.as_mut().unwrap().read_to_end(&mut stderr).unwrap();
        stage.place.heard(&Output { status: self.child.wait().unwrap(), stdout, stderr })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request in which this follows the interrupted answer.
fn presented(next: &str) -> Vec<String> {
    vec!["user: weather?".to_owned(), format!("assistant: {SHOWN}"), format!("user: {next}")]
}

#[test]
fn ctrl_c_stores_what_a_run_has_shown_and_the_next_request_presents_it_in_every_format() {
    let mut sent = Vec::new();
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN]);
        let mut run = Answering::start(&stage, &["run", "--session", "k", "weather?"]);
        run.shows(SHOWN);
        let stopped = run.stop(&stage, Signal::INT);
        assert_eq!(stopped.code, Some(130), "{stopped:?}");
        assert_eq!(stopped.out, format!("{SHOWN}\n"), "{api:?}");
        assert_eq!(stopped.err, "lango: stopped; what was said so far is kept\n");
        let stored = ["user: \"weather?\"".to_owned(), interrupted()];
        assert_eq!(stage.log(&key("k")), stored, "{api:?}");
        assert!(stage.drafts().is_empty());
        let show = stage.place.lango(&["sessions", "show", "k"]).well().out;
        let marked =
            format!("lango-agent  (thinks) {THOUGHT}\n lango-agent  {SHOWN}\n lango-agent  [interrupted]\n");
        assert_eq!(show, format!("        user  weather?\n {marked}"), "{api:?}");

        stage.plays("text");
        let continued = stage.place.lango(&["run", "--continue", "and now?"]).well();
        assert_eq!(continued.out, format!("{LATER}\n"));
        assert_eq!(stage.requests()[1..], [presented("and now?")], "{api:?}");
        sent.push(format!("{api:?}\n{}", conversation(&stage.fake.requests()[1].body)));
        let log = stage.log(&key("k"));
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
fn an_interrupted_thought_is_stored_and_no_format_is_sent_an_empty_message_for_it() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[THOUGHT]);
        let mut run = Answering::start(&stage, &["run", "--json", "--session", "k", "weather?"]);
        run.shows(THOUGHT);
        run.shows("\n");
        let stopped = run.stop(&stage, Signal::INT);
        assert_eq!(stopped.code, Some(130), "{stopped:?}");
        let shown: Vec<Value> = stopped.json_lines();
        let (last, pieces) = shown.split_last().unwrap();
        assert!(pieces.iter().all(|piece| piece["partial"] == true && piece["id"] == last["id"]));
        assert_eq!(line(last), format!("lango-agent: ({THOUGHT}) [interrupted]"), "{api:?}");
        assert_eq!(stage.log(&key("k"))[1..], [line(last)], "{api:?}");

        stage.plays("text");
        stage.place.lango(&["run", "--continue", "and now?"]).well();
        let said = stage.requests()[1].join("\n");
        assert!(!said.contains("assistant"), "{api:?}: {said}");
        assert!(said.contains("weather?") && said.ends_with("and now?"), "{api:?}: {said}");
    }
}

#[test]
fn ctrl_c_in_a_chat_stores_what_it_has_shown_and_the_chat_continues_after_it() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN]);
        let mut terminal = Terminal::open(&stage.place, &["chat", "--session", "k"]);
        terminal.sees("› ");
        terminal.says("weather?");
        terminal.sees(SHOWN);
        terminal.types(CTRL_C);
        terminal.sees("stopped; the conversation goes on");
        terminal.sees("› ");
        assert_eq!(stage.log(&key("k"))[1..], [interrupted()], "{api:?}");
        terminal.says("and now?");
        terminal.sees(WHOLE);
        terminal.leaves();
        assert_eq!(stage.requests()[1..], [presented("and now?")], "{api:?}");
        let log = stage.log(&key("k"));
        let words = [
            "user: \"weather?\"".to_owned(),
            interrupted(),
            "user: \"and now?\"".to_owned(),
            format!("lango-agent: ({THOUGHT}) {WHOLE:?}"),
        ];
        assert_eq!(log, words, "{api:?}");
        let shown = stage.place.lango(&["sessions", "show", "k"]).well().out;
        assert_eq!(shown.matches("[interrupted]").count(), 1, "{shown}");
    }
}

#[test]
fn a_killed_run_is_finished_by_the_next_one_after_the_text_it_has_shown() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN]);
        let mut run = Answering::start(&stage, &["run", "--session", "k", "weather?"]);
        run.shows(SHOWN);
        stage.until_draft(SHOWN);
        let show = || stage.place.lango(&["sessions", "show", "k"]).well().out;
        assert!(show().ends_with(&format!("{SHOWN}\n lango-agent  [under way]\n")), "{}", show());
        assert_eq!(run.stop(&stage, Signal::KILL).code, None);
        assert!(show().ends_with(&format!("{SHOWN}\n lango-agent  [interrupted]\n")), "{}", show());
        assert_eq!(stage.log(&key("k")), ["user: \"weather?\""], "only the draft has it");

        stage.plays("text");
        let continued = stage.place.lango(&["run", "--continue", "and now?"]).well();
        assert_eq!(continued.out, format!("{LATER}\n"));
        let first = "an earlier message of this session was interrupted; it is answered first\n";
        assert!(continued.err.starts_with(first), "{}", continued.err);
        let log = stage.log(&key("k"));
        assert_eq!(log.len(), 5, "{log:?}");
        assert_eq!(log[1], interrupted(), "{api:?}");
        assert!(log[2].starts_with("lango-agent: ") && log[2].ends_with(&format!("{LATER:?}")), "{log:?}");
        assert_eq!(log[3], "user: \"and now?\"");
        assert!(stage.drafts().is_empty());

        let resumed = vec![
            "user: weather?".to_owned(),
            format!("assistant: {SHOWN}"),
            format!("user: {CONTINUE_NOTE}"),
        ];
        let next = vec![format!("assistant: {LATER}"), "user: and now?".to_owned()];
        assert_eq!(stage.requests()[1..], [resumed.clone(), [resumed, next].concat()], "{api:?}");
    }
}
#[test]
fn ctrl_c_while_the_store_is_locked_says_that_text_may_be_lost() {
    let stage = Stage::new(ProviderApi::OpenAi, "think", &[SHOWN]);
    let mut run = Answering::start(&stage, &["run", "--session", "k", "weather?"]);
    run.shows(SHOWN);
    let lock = rusqlite::Connection::open(stage.place.database()).unwrap();
    lock.busy_timeout(super::PATIENCE).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let stopped = run.stop(&stage, Signal::INT);
    lock.execute_batch("ROLLBACK").unwrap();
    // The turn is abandoned, so the program must not promise that the text is stored.
    assert_eq!(
        stopped.err,
        "lango: stopped before the end of the answer was stored; the text that was shown last may be lost\n"
    );
    let next = stage.place.lango(&["sessions", "show", "k"]).well().out;
    assert!(next.contains("weather?"), "{next}");
}

//! SIGKILL, SIGTERM, a cancelled run and a broken connection in the middle of an answer of `lango serve`.

use super::{LATER, LATER_SHOWN, SHOWN, Stage, interrupted, line, text};
use crate::serve::client::{Events, Served, Told, message};
use adk::notes::CONTINUE_NOTE;
use serde_json::{Value, json};
use testkit::ProviderApi;

/// Reads until the pieces of the answer end with this text.
#[track_caller]
fn until_text(events: &mut Events, end: &str) -> Vec<Told> {
    let (mut told, mut shown) = (Vec::new(), String::new());
    while !shown.ends_with(end) {
        let Some(event) = events.next() else { panic!("the stream ended before {end:?}: {told:?}") };
        assert_eq!(event.data["partial"], true, "{event:?}");
        shown += &text(&event.data);
        told.push(event);
    }
    told
}

/// The events that are stored, in order: each as its id and its line.
fn stored(told: &[Told]) -> Vec<(String, String)> {
    let whole = told.iter().filter(|told| told.data["partial"] != true && told.data["id"].is_string());
    whole.map(|told| (told.data["id"].as_str().unwrap().to_owned(), line(&told.data))).collect()
}

/// The agent's events in a session, each as its id and its line.
fn of_agent(session: &Value) -> Vec<(String, String)> {
    let events = session["events"].as_array().unwrap().iter().filter(|event| event["author"] != "user");
    events.map(|event| (event["id"].as_str().unwrap().to_owned(), line(event))).collect()
}

/// The request that continues an answer of which this was shown.
fn resumed(shown: &str) -> Vec<String> {
    vec!["user: weather?".to_owned(), format!("assistant: {shown}"), format!("user: {CONTINUE_NOTE}")]
}

/// A run whose answer stops at the gate, and a reader that has the text before it.
struct Reading {
    server: Served,
    session: String,
    run: String,
    events: Events,
    seen: Vec<Told>,
}

impl Reading {
    fn start(stage: &Stage, args: &[&str], end: &str) -> Self {
        let server = Served::with(&stage.place, args);
        let session = server.session("lango", "s");
        let run = server.begin(&session, "weather?");
        let mut events = server.listen(&format!("{run}/events"), None);
        let seen = until_text(&mut events, end);
        Self { server, session, run, events, seen }
    }
}

/// The next server continues the run. A reader that returns gets the interrupted answer before the continuation, each once.
#[track_caller]
fn assert_resumed(stage: &Stage, (session, run): (&str, &str), seen: &[Told], expected: &str) {
    let server = Served::start(&stage.place);
    let last = seen.last().and_then(|told| told.id.as_deref());
    let mut events = server.listen(&format!("{run}/events"), last);
    let mut rest = vec![events.next().unwrap()];
    assert_eq!(line(&rest[0].data), expected, "{:?}", stage.api);
    assert!(seen.iter().all(|piece| piece.data["id"] == rest[0].data["id"]), "it replaces the pieces");
    assert_eq!(server.get(run)["status"], "running", "the continuation is still stopped at the gate");
    stage.gate.open();
    rest.extend(events.all());
    let finished = server.until(run, |run| run["status"] == "done");
    assert_eq!(finished.get("error"), None);
    let kept = of_agent(&server.get(session));
    assert_eq!(stored(&rest), kept);
    assert_eq!(stored(&server.listen(&format!("{run}/events"), None).all()), kept);
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept[1].1.ends_with(&format!("{LATER:?}")), "{kept:?}");
    assert!(stage.drafts().is_empty());
}

#[test]
fn a_killed_server_continues_after_the_text_that_it_has_shown_in_every_format() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN, LATER_SHOWN]);
        let Reading { server, session, run, seen, .. } = Reading::start(&stage, &[], SHOWN);
        stage.until_draft(SHOWN);
        server.kill();
        stage.plays("text");
        assert_resumed(&stage, (&session, &run), &seen, &interrupted());
        assert_eq!(stage.requests()[1..], [resumed(SHOWN)], "{api:?}");
    }
}

#[test]
fn a_draft_that_was_saved_in_pieces_is_one_interrupted_answer() {
    let stage = Stage::new(ProviderApi::OpenAi, "slowtext-0", &["tick 2 ", "tick 4 ", LATER_SHOWN]);
    let mut reading = Reading::start(&stage, &[], "tick 2 ");
    stage.until_draft("tick 2 ");
    stage.gate.open();
    reading.seen.extend(until_text(&mut reading.events, "tick 4 "));
    stage.until_draft("tick 4 ");
    assert!(stage.drafts().len() > 1, "{:?}", stage.drafts());
    let Reading { server, session, run, seen, .. } = reading;
    server.kill();
    stage.plays("text");
    let shown = "tick 1 tick 2 tick 3 tick 4 ";
    assert_resumed(&stage, (&session, &run), &seen, &format!("lango-agent: {shown:?} [interrupted]"));
    assert_eq!(stage.requests()[1..], [resumed(shown)]);
}

#[test]
fn a_cancelled_run_stores_what_it_has_shown_at_once_and_its_reader_gets_it_before_the_end() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN]);
        let Reading { server, session, run, events, seen } = Reading::start(&stage, &[], SHOWN);
        server.ask("POST", &format!("{run}/cancel"), &Value::Null).well();
        server.until(&run, |run| run["status"] == "cancelled");
        let kept = of_agent(&server.get(&session));
        let id = seen[0].data["id"].as_str().unwrap().to_owned();
        assert_eq!(kept, [(id, interrupted())], "{api:?}");
        assert!(stage.drafts().is_empty());
        let rest = events.all();
        assert_eq!(stored(&rest[..1]), kept);
        assert_eq!((rest.len(), &rest[1].data["error"]), (2, &json!("Cancelled: the run was cancelled")));
    }
}

#[test]
fn an_answer_that_breaks_off_reaches_every_reader_before_its_error() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN]);
        let server = Served::start(&stage.place);
        let session = server.session("lango", "s");
        let mut body = message("lango", "s", "weather?");
        body["streaming"] = json!(true);
        let mut sse = server.stream(&body);
        let run = format!("{session}/runs/{}", sse.run);
        let mut reader = server.listen(&format!("{run}/events"), None);
        let (sse_seen, reader_seen) = (until_text(&mut sse, SHOWN), until_text(&mut reader, SHOWN));
        stage.gate.cut();
        let failed = server.until(&run, |run| run["status"] == "failed");
        let kept = of_agent(&server.get(&session));
        let code = "lango-agent: [TRANSIENT]".to_owned();
        let lines: Vec<&String> = kept.iter().map(|(_, line)| line).collect();
        assert_eq!(lines, [&interrupted(), &code], "{api:?}: {failed}");
        for (seen, events) in [(sse_seen, sse), (reader_seen, reader)] {
            assert!(seen.iter().all(|piece| piece.data["id"] == kept[0].0.as_str()), "{api:?}: {seen:?}");
            let rest = events.all();
            assert_eq!(stored(&rest), kept, "{api:?}");
            assert_eq!(rest.len(), 3, "{rest:?}");
            assert!(rest[2].data["error"].as_str().unwrap().starts_with("TRANSIENT: "), "{rest:?}");
        }
        assert_eq!(stage.requests().len(), 1, "what was shown is not asked for again");
    }
}

#[test]
fn a_server_without_grace_saves_what_it_has_shown_before_it_exits() {
    for api in ProviderApi::ALL {
        let stage = Stage::new(api, "think", &[SHOWN, LATER_SHOWN]);
        let Reading { server, session, run, seen, .. } = Reading::start(&stage, &["--grace", "0"], SHOWN);
        server.terminate();
        assert!(server.wait().success());
        assert_eq!(stage.drafts().concat(), SHOWN, "{api:?}");
        stage.plays("text");
        assert_resumed(&stage, (&session, &run), &seen, &interrupted());
        assert_eq!(stage.requests()[1..], [resumed(SHOWN)], "{api:?}");
    }
}

#[test]
fn text_that_is_shown_during_the_grace_period_is_saved_too() {
    let stage = Stage::new(ProviderApi::Anthropic, "slowtext-0", &["tick 2 ", "tick 4 ", LATER_SHOWN]);
    let mut reading = Reading::start(&stage, &["--grace", "600"], "tick 2 ");
    reading.server.terminate();
    reading.server.until_closed();
    stage.gate.open();
    reading.seen.extend(until_text(&mut reading.events, "tick 4 "));
    let Reading { server, session, run, seen, .. } = reading;
    // The second signal ends the grace period.
    server.terminate();
    assert!(server.wait().success());
    let shown = "tick 1 tick 2 tick 3 tick 4 ";
    assert_eq!(stage.drafts().concat(), shown);
    stage.plays("text");
    assert_resumed(&stage, (&session, &run), &seen, &format!("lango-agent: {shown:?} [interrupted]"));
    assert_eq!(stage.requests()[1..], [resumed(shown)]);
}

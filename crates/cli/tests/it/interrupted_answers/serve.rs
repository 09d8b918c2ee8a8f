//! SIGKILL, SIGTERM, a cancelled run and a broken connection in the middle of an answer of `lango serve`.

use super::{GatedProvider, LATER, LATER_SHOWN, SHOWN, interrupted, line, text};
use crate::serve::client::{Events, SseEvent, TestServer, message};
use adk::notes::CONTINUE_NOTE;
use serde_json::{Value, json};
use testkit::ProviderApi;

/// Reads until the text of the partial events ends with `end`.
#[track_caller]
fn read_until_text(events: &mut Events, end: &str) -> Vec<SseEvent> {
    let (mut seen, mut shown) = (Vec::new(), String::new());
    while !shown.ends_with(end) {
        let Some(event) = events.next() else { panic!("the stream ended before {end:?}: {seen:?}") };
        assert_eq!(event.data["partial"], true, "{event:?}");
        shown += &text(&event.data);
        seen.push(event);
    }
    seen
}

/// The id and line of each final event.
fn stored(events: &[SseEvent]) -> Vec<(String, String)> {
    let finals = events.iter().filter(|event| event.data["partial"] != true && event.data["id"].is_string());
    finals.map(|event| (event.data["id"].as_str().unwrap().to_owned(), line(&event.data))).collect()
}

/// The id and line of each event of the agent in a session.
fn of_agent(session: &Value) -> Vec<(String, String)> {
    let events = session["events"].as_array().unwrap().iter().filter(|event| event["author"] != "user");
    events.map(|event| (event["id"].as_str().unwrap().to_owned(), line(event))).collect()
}

/// The request that continues an answer after its shown part.
fn resumed(shown: &str) -> Vec<String> {
    vec!["user: weather?".to_owned(), format!("assistant: {shown}"), format!("user: {CONTINUE_NOTE}")]
}

/// A run whose answer is stopped at the gate, and a reader that has received the text before it.
struct GatedRun {
    server: TestServer,
    session: String,
    run: String,
    events: Events,
    seen: Vec<SseEvent>,
}

impl GatedRun {
    fn start(gated: &GatedProvider, args: &[&str], end: &str) -> Self {
        let server = TestServer::with(&gated.env, args);
        let session = server.create_session("lango", "s");
        let run = server.start_run(&session, "weather?");
        let mut events = server.read_events(&format!("{run}/events"), None);
        let seen = read_until_text(&mut events, end);
        Self { server, session, run, events, seen }
    }
}

/// The next server continues the run. A reader that reconnects gets the interrupted answer and then the continuation, each
/// once.
#[track_caller]
fn assert_resumed(gated: &GatedProvider, (session, run): (&str, &str), seen: &[SseEvent], expected: &str) {
    let server = TestServer::start(&gated.env);
    let last = seen.last().and_then(|event| event.id.as_deref());
    let mut events = server.read_events(&format!("{run}/events"), last);
    let mut rest = vec![events.next().unwrap()];
    assert_eq!(line(&rest[0].data), expected, "{:?}", gated.api);
    assert!(
        seen.iter().all(|chunk| chunk.data["id"] == rest[0].data["id"]),
        "the final event has the id of the partial ones"
    );
    assert_eq!(server.get(run)["status"], "running", "the continuation is still stopped at the gate");
    gated.gate.open();
    rest.extend(events.all());
    let finished = server.wait_until(run, |run| run["status"] == "done");
    assert_eq!(finished.get("error"), None);
    let stored_events = of_agent(&server.get(session));
    assert_eq!(stored(&rest), stored_events);
    assert_eq!(stored(&server.read_events(&format!("{run}/events"), None).all()), stored_events);
    assert_eq!(stored_events.len(), 2, "{stored_events:?}");
    assert!(stored_events[1].1.ends_with(&format!("{LATER:?}")), "{stored_events:?}");
    assert!(gated.drafts().is_empty());
}

#[test]
fn killed_server_continues_its_answers_after_their_drafts() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN, LATER_SHOWN]);
        let GatedRun { server, session, run, seen, .. } = GatedRun::start(&gated, &[], SHOWN);
        gated.wait_for_draft(SHOWN);
        server.kill();
        gated.set_scenario("text");
        assert_resumed(&gated, (&session, &run), &seen, &interrupted());
        assert_eq!(gated.requests()[1..], [resumed(SHOWN)], "{api:?}");
    }
}

#[test]
fn draft_saved_in_chunks_becomes_one_interrupted_answer() {
    let gated = GatedProvider::new(ProviderApi::OpenAi, "slowtext-0", &["tick 2 ", "tick 4 ", LATER_SHOWN]);
    let mut reading = GatedRun::start(&gated, &[], "tick 2 ");
    gated.wait_for_draft("tick 2 ");
    gated.gate.open();
    reading.seen.extend(read_until_text(&mut reading.events, "tick 4 "));
    gated.wait_for_draft("tick 4 ");
    assert!(gated.drafts().len() > 1, "{:?}", gated.drafts());
    let GatedRun { server, session, run, seen, .. } = reading;
    server.kill();
    gated.set_scenario("text");
    let shown = "tick 1 tick 2 tick 3 tick 4 ";
    assert_resumed(&gated, (&session, &run), &seen, &format!("lango-agent: {shown:?} [interrupted]"));
    assert_eq!(gated.requests()[1..], [resumed(shown)]);
}

#[test]
fn cancelled_run_stores_its_partial_answer_and_sends_it_to_its_readers() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN]);
        let GatedRun { server, session, run, events, seen } = GatedRun::start(&gated, &[], SHOWN);
        server.request("POST", &format!("{run}/cancel"), &Value::Null).success();
        server.wait_until(&run, |run| run["status"] == "cancelled");
        let stored_events = of_agent(&server.get(&session));
        let id = seen[0].data["id"].as_str().unwrap().to_owned();
        assert_eq!(stored_events, [(id, interrupted())], "{api:?}");
        assert!(gated.drafts().is_empty());
        let rest = events.all();
        assert_eq!(stored(&rest[..1]), stored_events);
        assert_eq!((rest.len(), &rest[1].data["error"]), (2, &json!("Cancelled: the run was cancelled")));
        assert_request_is_verified(&server, api);
        server.kill();
        assert_request_is_verified(&TestServer::start(&gated.env), api);
    }
}

/// The request of a cancelled call is shown in ADK's page, and its rebuilt body is the one that was sent.
#[track_caller]
fn assert_request_is_verified(server: &TestServer, api: ProviderApi) {
    let spans = server.get("/dev/apps/lango/debug/trace/session/s");
    let call = spans.as_array().unwrap().iter().find(|span| span["logs"][0].is_object());
    let call = call.unwrap_or_else(|| panic!("{api:?}: no model call in {spans}"));
    assert_eq!(call["attributes"]["lango.request.check"], "verified", "{api:?}: {call}");
    let asked = &call["logs"][0]["attributes"]["gen_ai.input.messages"][0]["parts"][0]["content"];
    assert_eq!(asked, "weather?", "{api:?}");
}

#[test]
fn partial_answer_reaches_every_reader_before_its_error() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN]);
        let server = TestServer::start(&gated.env);
        let session = server.create_session("lango", "s");
        let mut body = message("lango", "s", "weather?");
        body["streaming"] = json!(true);
        let mut sse = server.stream(&body);
        let run = format!("{session}/runs/{}", sse.run);
        let mut reader = server.read_events(&format!("{run}/events"), None);
        let (sse_seen, reader_seen) = (read_until_text(&mut sse, SHOWN), read_until_text(&mut reader, SHOWN));
        gated.gate.cut();
        let failed = server.wait_until(&run, |run| run["status"] == "failed");
        let stored_events = of_agent(&server.get(&session));
        let code = "lango-agent: [TRANSIENT]".to_owned();
        let lines: Vec<&String> = stored_events.iter().map(|(_, line)| line).collect();
        assert_eq!(lines, [&interrupted(), &code], "{api:?}: {failed}");
        for (seen, events) in [(sse_seen, sse), (reader_seen, reader)] {
            assert!(
                seen.iter().all(|chunk| chunk.data["id"] == stored_events[0].0.as_str()),
                "{api:?}: {seen:?}"
            );
            let rest = events.all();
            assert_eq!(stored(&rest), stored_events, "{api:?}");
            assert_eq!(rest.len(), 3, "{rest:?}");
            assert!(rest[2].data["error"].as_str().unwrap().starts_with("TRANSIENT: "), "{rest:?}");
        }
        assert_eq!(gated.requests().len(), 1, "an answer with shown text is not retried");
    }
}

#[test]
fn shutdown_without_grace_period_saves_drafts() {
    for api in ProviderApi::ALL {
        let gated = GatedProvider::new(api, "think", &[SHOWN, LATER_SHOWN]);
        let GatedRun { server, session, run, seen, .. } = GatedRun::start(&gated, &["--grace", "0"], SHOWN);
        server.terminate();
        assert!(server.wait().success());
        assert_eq!(gated.drafts().concat(), SHOWN, "{api:?}");
        gated.set_scenario("text");
        assert_resumed(&gated, (&session, &run), &seen, &interrupted());
        assert_eq!(gated.requests()[1..], [resumed(SHOWN)], "{api:?}");
    }
}

#[test]
fn text_shown_during_the_grace_period_is_saved() {
    let gated =
        GatedProvider::new(ProviderApi::Anthropic, "slowtext-0", &["tick 2 ", "tick 4 ", LATER_SHOWN]);
    let mut reading = GatedRun::start(&gated, &["--grace", "600"], "tick 2 ");
    reading.server.terminate();
    reading.server.wait_closed();
    gated.gate.open();
    reading.seen.extend(read_until_text(&mut reading.events, "tick 4 "));
    let GatedRun { server, session, run, seen, .. } = reading;
    // The second signal ends the grace period.
    server.terminate();
    assert!(server.wait().success());
    let shown = "tick 1 tick 2 tick 3 tick 4 ";
    assert_eq!(gated.drafts().concat(), shown);
    gated.set_scenario("text");
    assert_resumed(&gated, (&session, &run), &seen, &format!("lango-agent: {shown:?} [interrupted]"));
    assert_eq!(gated.requests()[1..], [resumed(shown)]);
}

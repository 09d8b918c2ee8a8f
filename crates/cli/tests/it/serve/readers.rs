//! Readers that reconnect, and readers that do not read: each event reaches each of them once, and none of them blocks the run.

use super::client::{SseEvent, TestServer, lines, message};
use crate::common::TestEnv;
use serde_json::json;
use std::{fmt::Write, thread};

const READERS: u64 = 3;
const RESUMES: usize = 50;

/// A pseudorandom number below `below`, from a fixed seed.
fn random(seed: &mut u64, below: u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*seed >> 33) % below).unwrap()
}

fn text(event: &SseEvent) -> &str {
    event.data["content"]["parts"][0]["text"].as_str().unwrap()
}

/// A reader that disconnects at random and resumes after its last event.
struct ReconnectingReader {
    seed: u64,
    most: u64,
    seen: Vec<SseEvent>,
    resumes: usize,
}

impl ReconnectingReader {
    fn new(seed: u64, most: u64) -> Self {
        Self { seed, most, seen: Vec::new(), resumes: 0 }
    }

    /// Reconnects up to `times` times. Returns `false` when the run has no more events.
    fn read(&mut self, server: &TestServer, run: &str, times: usize) -> bool {
        for _ in 0..times {
            let last = self.seen.last().and_then(|event| event.id.clone());
            let mut events = server.read_events(&format!("{run}/events"), last.as_deref());
            let wanted = 1 + random(&mut self.seed, self.most);
            let before = self.seen.len();
            self.seen.extend(std::iter::from_fn(|| events.next()).take(wanted));
            if self.seen.len() < before + wanted {
                return false;
            }
            self.resumes += 1;
        }
        true
    }

    /// The ids of final events.
    fn final_ids(&self) -> Vec<&str> {
        let finals = self.seen.iter().filter(|event| event.data["partial"] != true);
        finals.map(|event| event.data["id"].as_str().unwrap()).collect()
    }
}

/// Lets all readers read concurrently.
fn read_all(readers: &mut [ReconnectingReader], server: &TestServer, run: &str, times: usize) -> Vec<bool> {
    thread::scope(|scope| {
        let reading: Vec<_> =
            readers.iter_mut().map(|reader| scope.spawn(|| reader.read(server, run, times))).collect();
        reading.into_iter().map(|reading| reading.join().unwrap()).collect()
    })
}

#[test]
fn reconnecting_readers_see_each_event_once() {
    let words: Vec<String> = (0..400).map(|number| format!("w{number}")).collect();
    let script = format!("word_delay_ms: 1\nrules: [{{reply: [{{text: '{}'}}]}}]", words.join(" "));
    let env = TestEnv::scripted("", &script);
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "tell");
    let mut readers: Vec<ReconnectingReader> =
        (0..READERS).map(|seed| ReconnectingReader::new(seed, 7)).collect();
    read_all(&mut readers, &server, &run, usize::MAX);
    for reader in &readers {
        assert!(reader.resumes >= RESUMES, "only {} times", reader.resumes);
        let events: Vec<_> = reader.seen.iter().map(|event| (&event.id, &event.data)).collect();
        let first: Vec<_> = readers[0].seen.iter().map(|event| (&event.id, &event.data)).collect();
        assert_eq!(events, first, "all readers see the same events");
        let (last, partials) = reader.seen.split_last().unwrap();
        assert_eq!(partials.len(), words.len());
        assert_eq!(partials.iter().map(text).collect::<String>(), text(last));
    }
}

/// A script of `steps` steps, each with a text and a call.
fn digging(steps: usize) -> String {
    let mut script = "word_delay_ms: 2\nrules:\n".to_owned();
    for step in 0..steps {
        let when = format!("  - when: {{first_word: work, turn: {step}}}\n");
        let reply = format!(
            "    reply: [{{text: 'one two three four five'}}, {{call: {{name: dig, args: {{at: {step}}}}}}}]\n"
        );
        write!(script, "{when}{reply}").unwrap();
    }
    script + "  - reply: [{text: 'that is all'}]\n"
}

#[test]
fn reconnecting_readers_see_each_event_once_across_server_kills() {
    const STEPS: usize = 40;
    let env = TestEnv::scripted("[stubs.dig]\ndelay_ms = 5\n", &digging(STEPS));
    let mut server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let run = server.start_run(&session, "work hard");
    let mut readers: Vec<ReconnectingReader> =
        (0..READERS).map(|seed| ReconnectingReader::new(seed, 2)).collect();
    for kill in 0..4 {
        let more = read_all(&mut readers, &server, &run, 13);
        assert!(more.iter().all(|more| *more), "the run ended before kill {kill}");
        server.kill();
        server = TestServer::start(&env);
    }
    while read_all(&mut readers, &server, &run, RESUMES).contains(&true) {}
    let session_json = server.get(&session);
    let of_agent =
        session_json["events"].as_array().unwrap().iter().filter(|event| event["author"] != "user");
    let ids: Vec<&str> = of_agent.map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(lines(&session_json["events"]).last().unwrap(), "lango-agent: that is all");
    assert!(ids.len() > 2 * STEPS, "{}", ids.len());
    for reader in &readers {
        assert!(reader.resumes >= RESUMES, "only {} times", reader.resumes);
        assert_eq!(reader.final_ids(), ids);
    }
}

#[test]
fn idle_reader_does_not_block_the_run() {
    // More than the buffers of a connection.
    let words: Vec<String> = (0..30_000).map(|number| format!("w{number}")).collect();
    let env = TestEnv::scripted("", &format!("rules: [{{reply: [{{text: '{}'}}]}}]", words.join(" ")));
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    let mut body = message("lango", "s", "tell");
    body["streaming"] = json!(true);
    let mut idle = server.stream(&body);
    let run = format!("{session}/runs/{}", idle.run);
    let finished = server.wait_until(&run, |run| run["status"] == "done");
    assert_eq!(finished.get("error"), None);
    // A new reader gets the final event, and so does the reader that was connected from the beginning.
    let final_event = server.read_events(&format!("{run}/events"), None).all().pop().unwrap();
    let mut streamed = String::new();
    let last = loop {
        let event = idle.next().unwrap();
        if event.data["partial"] != true {
            break event;
        }
        streamed.push_str(text(&event));
    };
    assert_eq!(last.data, final_event.data);
    assert!(text(&last).starts_with(&streamed), "the partial text is a prefix of the final text");
    assert!(idle.next().is_none());
}

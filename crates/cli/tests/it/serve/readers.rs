//! Readers that come and go, and readers that do not read: each event reaches each of them once, and none of them holds the run.

use super::client::{Served, Told, lines, message};
use crate::common::Place;
use serde_json::json;
use std::{fmt::Write, thread};

const READERS: u64 = 3;
const RESUMES: usize = 50;

/// A number between 0 and `below`, always the same ones.
fn some(seed: &mut u64, below: u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*seed >> 33) % below).unwrap()
}

fn text(told: &Told) -> &str {
    told.data["content"]["parts"][0]["text"].as_str().unwrap()
}

/// Somebody who reads a run, leaves at random and comes back to where they were.
struct Restless {
    seed: u64,
    most: u64,
    seen: Vec<Told>,
    resumes: usize,
}

impl Restless {
    fn new(seed: u64, most: u64) -> Self {
        Self { seed, most, seen: Vec::new(), resumes: 0 }
    }

    /// Comes back up to so many times; `false` when there was nothing more to come.
    fn read(&mut self, server: &Served, run: &str, times: usize) -> bool {
        for _ in 0..times {
            let last = self.seen.last().and_then(|told| told.id.clone());
            let mut events = server.listen(&format!("{run}/events"), last.as_deref());
            let wanted = 1 + some(&mut self.seed, self.most);
            let before = self.seen.len();
            self.seen.extend(std::iter::from_fn(|| events.next()).take(wanted));
            if self.seen.len() < before + wanted {
                return false;
            }
            self.resumes += 1;
        }
        true
    }

    /// The ids of whole events.
    fn whole(&self) -> Vec<&str> {
        let whole = self.seen.iter().filter(|told| told.data["partial"] != true);
        whole.map(|told| told.data["id"].as_str().unwrap()).collect()
    }
}

/// All of them at once.
fn read_all(readers: &mut [Restless], server: &Served, run: &str, times: usize) -> Vec<bool> {
    thread::scope(|scope| {
        let reading: Vec<_> =
            readers.iter_mut().map(|reader| scope.spawn(|| reader.read(server, run, times))).collect();
        reading.into_iter().map(|reading| reading.join().unwrap()).collect()
    })
}

#[test]
fn readers_that_come_back_fifty_times_all_see_everything_once() {
    let words: Vec<String> = (0..400).map(|number| format!("w{number}")).collect();
    let script = format!("word_delay_ms: 1\nrules: [{{reply: [{{text: '{}'}}]}}]", words.join(" "));
    let place = Place::scripted("", &script);
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "tell");
    let mut readers: Vec<Restless> = (0..READERS).map(|seed| Restless::new(seed, 7)).collect();
    read_all(&mut readers, &server, &run, usize::MAX);
    for reader in &readers {
        assert!(reader.resumes >= RESUMES, "only {} times", reader.resumes);
        let told: Vec<_> = reader.seen.iter().map(|told| (&told.id, &told.data)).collect();
        let first: Vec<_> = readers[0].seen.iter().map(|told| (&told.id, &told.data)).collect();
        assert_eq!(told, first, "all see the same");
        let (whole, pieces) = reader.seen.split_last().unwrap();
        assert_eq!(pieces.len(), words.len());
        assert_eq!(pieces.iter().map(text).collect::<String>(), text(whole));
    }
}

/// A run of so many steps, each with a few words and a call.
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
fn readers_that_come_back_fifty_times_see_everything_once_though_the_server_is_killed() {
    const STEPS: usize = 40;
    let place = Place::scripted("[stubs.dig]\ndelay_ms = 5\n", &digging(STEPS));
    let mut server = Served::start(&place);
    let session = server.session("lango", "s");
    let run = server.begin(&session, "work hard");
    let mut readers: Vec<Restless> = (0..READERS).map(|seed| Restless::new(seed, 2)).collect();
    for kill in 0..4 {
        let more = read_all(&mut readers, &server, &run, 13);
        assert!(more.iter().all(|more| *more), "it was over before kill {kill}");
        server.kill();
        server = Served::start(&place);
    }
    while read_all(&mut readers, &server, &run, RESUMES).contains(&true) {}
    let kept = server.get(&session);
    let of_agent = kept["events"].as_array().unwrap().iter().filter(|event| event["author"] != "user");
    let ids: Vec<&str> = of_agent.map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(lines(&kept["events"]).last().unwrap(), "lango-agent: that is all");
    assert!(ids.len() > 2 * STEPS, "{}", ids.len());
    for reader in &readers {
        assert!(reader.resumes >= RESUMES, "only {} times", reader.resumes);
        assert_eq!(reader.whole(), ids);
    }
}

#[test]
fn a_reader_that_does_not_read_holds_nothing() {
    // More than the buffers of a connection hold.
    let words: Vec<String> = (0..30_000).map(|number| format!("w{number}")).collect();
    let place = Place::scripted("", &format!("rules: [{{reply: [{{text: '{}'}}]}}]", words.join(" ")));
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let mut body = message("lango", "s", "tell");
    body["streaming"] = json!(true);
    let mut idle = server.stream(&body);
    let run = format!("{session}/runs/{}", idle.run);
    let finished = server.until(&run, |run| run["status"] == "done");
    assert_eq!(finished.get("error"), None);
    // Somebody who comes now gets the whole, and so does who was there from the beginning.
    let whole = server.listen(&format!("{run}/events"), None).all().pop().unwrap();
    let mut said = String::new();
    let last = loop {
        let told = idle.next().unwrap();
        if told.data["partial"] != true {
            break told;
        }
        said.push_str(text(&told));
    };
    assert_eq!((&last.id, &last.data), (&whole.id, &whole.data));
    assert!(text(&last).starts_with(&said), "what it saw before is the beginning of it");
    assert!(idle.next().is_none());
}

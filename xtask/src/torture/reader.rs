//! A client reads a run to its end, from random servers: it disconnects at random and continues with `Last-Event-ID`.

use super::{
    client::{BETWEEN_ATTEMPTS, LoadClient, READ},
    journal::{EventBody, Reading, Seen},
    stage::{Target, count},
};
use crate::harness::{
    event_id::EventId,
    http::{Answer, HttpRequest},
    machine::run_path,
};
use serde_json::Value;
use std::{
    io, thread,
    time::{Duration, Instant},
};

/// The longest time that a run is read.
const READING: Duration = Duration::from_mins(2);

impl LoadClient<'_> {
    /// Reads the answer of `/run`, which has all events of the run.
    pub(super) fn read_body(&mut self, mut reading: Reading, answer: Answer, target: Target) -> Option<()> {
        let Ok(Value::Array(events)) = answer.json() else { return None };
        for (event, number) in events.into_iter().zip(1..) {
            self.see(&mut reading, EventId::stored(number), event, target);
        }
        reading.is_complete = true;
        self.stage.journal.with(|record| record.readings.push(reading));
        Some(())
    }

    /// Reads a run to its end from random servers, and disconnects at random.
    pub(super) fn follow(&mut self, mut reading: Reading) {
        let path = format!("{}/events", run_path(&reading.session, &reading.run));
        let deadline = Instant::now() + READING;
        while !reading.is_complete && Instant::now() < deadline && !self.stage.is_abandoned() {
            let Some(target) = self.stage.target(&mut self.random) else {
                thread::sleep(BETWEEN_ATTEMPTS);
                continue;
            };
            let begun = self.stage.now();
            let last = reading.last_id();
            let headers: Vec<(&'static str, &str)> =
                last.iter().map(|id| ("last-event-id", id.as_str())).collect();
            let Ok(answer) = HttpRequest::get(&path).with(&headers).send(target.address, READ) else {
                thread::sleep(BETWEEN_ATTEMPTS);
                continue;
            };
            match answer.status {
                200 => {
                    let budget = if self.random.chance(400) { self.random.between(1, 60) } else { u64::MAX };
                    let _ = self.read_events(&mut reading, answer, target, budget);
                }
                204 => reading.is_complete = true,
                500 | 503 if self.stage.had_faults_since(begun) => thread::sleep(BETWEEN_ATTEMPTS),
                status => {
                    let Reading { session, run, .. } = &reading;
                    let problem = format!("the events of run {run} of {session} are answered {status}");
                    self.stage.journal.problem(problem);
                    break;
                }
            }
        }
        self.stage.journal.with(|record| record.readings.push(reading));
    }

    /// Reads at most `budget` events.
    pub(super) fn read_events(
        &mut self,
        reading: &mut Reading,
        answer: Answer,
        target: Target,
        budget: u64,
    ) -> io::Result<()> {
        let mut events = answer.events();
        for _ in 0..budget {
            let Some(event) = events.next()? else {
                reading.is_complete = true;
                return Ok(());
            };
            if event.data.get("error").is_some() {
                reading.error = Some(event.data.to_string());
                continue;
            }
            let id = event.id.as_deref().and_then(EventId::parse);
            let id = id.unwrap_or_else(|| reading.next_id(&event.data));
            self.see(reading, id, event.data, target);
        }
        Ok(())
    }

    fn see(&self, reading: &mut Reading, id: EventId, event: Value, target: Target) {
        count(&self.stage.tally.events);
        reading.seen.push(Seen { id, body: EventBody::of(event), at: self.stage.now(), server: target.name });
    }
}

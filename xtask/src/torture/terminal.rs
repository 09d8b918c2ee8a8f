//! The terminal: `lango run` on the database and in the sessions of the servers, killed at random.

use super::{
    journal::{Message, Printed},
    plan::SHARED_SESSIONS,
    stage::{Stage, count},
};
use crate::{
    Result,
    harness::{machine::Process, random::Random, script::Kind},
};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// The longest time that a terminal waits for its turn behind queued runs, and for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(3);

pub(super) struct TerminalClient<'a> {
    stage: &'a Stage<'a>,
    name: String,
    random: Random,
    serial: u64,
}

impl<'a> TerminalClient<'a> {
    pub(super) fn new(stage: &'a Stage<'a>, number: u64) -> Self {
        let name = stage.round.session(&format!("t{number}"));
        Self { stage, random: stage.round.random(&name), name, serial: 0 }
    }

    pub(super) fn run(mut self) {
        while !self.stage.is_closing() {
            if let Err(error) = self.send_message() {
                self.stage.journal.problem(format!("terminal {}: {error}", self.name));
            }
            thread::sleep(Duration::from_millis(self.random.below(400)));
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stage.machine.root().join(format!("{}.{name}", self.name))
    }

    /// Runs one message to its end, or kills the process before.
    fn send_message(&mut self) -> Result<()> {
        let shared = self.random.below(SHARED_SESSIONS + 1);
        let session = if shared == SHARED_SESSIONS {
            self.name.clone()
        } else {
            self.stage.round.session(&format!("shared{shared}"))
        };
        let (kind, token) = (Kind::random(&mut self.random), format!("{}-{}", self.name, self.serial));
        self.serial += 1;
        let killed_after =
            self.random.chance(350).then(|| Duration::from_millis(self.random.between(0, 700)));
        let text = kind.message(&token);
        let mut command = self.stage.machine.command(["run", "--json", "--session", &session, &text]);
        command.stdout(File::create(self.file("out"))?).stderr(File::create(self.file("err"))?);
        let first_sent = self.stage.now();
        let process = Process::new(command.spawn()?);
        let is_done = self.wait(process, killed_after)?;
        let printed = events(&fs::read_to_string(self.file("out"))?);
        // The model is called after the message is stored.
        let is_accepted = is_done == Some(true) || !printed.is_empty();
        if is_accepted {
            count(&self.stage.tally.messages);
        }
        let accepted = is_accepted.then(|| self.stage.now());
        let message = Message {
            session: session.clone(),
            token,
            kind,
            key: None,
            first_sent,
            accepted,
            accepted_by: None,
            runs: Vec::new(),
            is_cancelled: false,
        };
        self.stage.journal.with(|record| {
            record.messages.push(message);
            record.printed.push(Printed { session, events: printed });
        });
        if is_done == Some(false) && !self.stage.had_faults_since(first_sent) {
            let error = fs::read_to_string(self.file("err"))?;
            return Err(format!("{text:?} failed: {}", error.trim()).into());
        }
        Ok(())
    }

    /// Whether it exited with success; `None` if it was killed.
    fn wait(&mut self, mut process: Process, killed_after: Option<Duration>) -> Result<Option<bool>> {
        let begun = Instant::now();
        loop {
            if let Some(status) = process.has_ended()? {
                return Ok(Some(status.success()));
            }
            let is_due =
                killed_after.is_some_and(|after| begun.elapsed() >= after) || self.stage.is_abandoned();
            if is_due || begun.elapsed() > ANSWER_TIMEOUT {
                process.kill();
                count(&self.stage.tally.kills);
                if !is_due {
                    let (name, seconds) = (&self.name, ANSWER_TIMEOUT.as_secs());
                    self.stage.journal.problem(format!("terminal {name} has no answer after {seconds} s"));
                }
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(3));
        }
    }
}

/// Parses complete lines only: the last line may be truncated.
fn events(printed: &str) -> Vec<Value> {
    let whole = printed.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn truncated_line_is_not_an_event() {
        assert_eq!(events("{\"a\":1}\n{\"b\":2}"), [json!({"a": 1})]);
        assert_eq!(events(""), Vec::<Value>::new());
    }
}

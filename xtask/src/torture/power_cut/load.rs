//! What is recorded: clients and a terminal talk to servers that are killed and stopped in turn, each on the database that the
//! one before it left. The clock is the length of the trace, so that the record says what was acknowledged before a cut.

use super::super::{
    client::Client,
    journal::{Record, ServerName},
    stage::{Clock, Round, Stage, Tally, Target},
    terminal::Terminal,
};
use crate::{
    Result,
    rig::{interrupt, machine::Machine},
};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

const CLIENTS: u64 = 6;
/// How long each server serves, and whether it may end by itself: SIGTERM closes the database, SIGKILL does not.
const SERVERS: [(Duration, Ending); 5] = [
    (Duration::from_millis(900), Ending::Killed),
    (Duration::from_millis(1_200), Ending::Terminated),
    (Duration::from_millis(300), Ending::Killed),
    (Duration::from_millis(1_500), Ending::Killed),
    (Duration::from_millis(600), Ending::Killed),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    Terminated,
}

/// Records a trace, and what was acknowledged meanwhile.
pub(super) fn record(machine: &Machine, trace: &Path, round: Round) -> Result<Record> {
    let tally = Tally::default();
    let stage = Stage::new(machine, round, &tally, Clock::Trace(trace.to_owned()));
    let talk = &stage;
    thread::scope(|scope| {
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            talk.enter();
            scope.spawn(move || {
                work();
                talk.leave();
            });
        };
        for number in 0..CLIENTS {
            spawn(Box::new(move || Client::new(talk, number).run()));
        }
        spawn(Box::new(move || Terminal::new(talk, 0).run()));
        let result = serve(talk);
        talk.abandon();
        result
    })?;
    Ok(stage.journal.into_record())
}

fn serve(stage: &Stage<'_>) -> Result<()> {
    for ((lives, ending), spawn) in SERVERS.into_iter().zip(1..) {
        let mut server = stage.machine.serve("server")?;
        let name = ServerName { slot: 0, spawn };
        stage.set_targets(vec![Target { name, address: server.address, is_paused: false }]);
        pause(lives);
        stage.set_targets(Vec::new());
        match ending {
            Ending::Killed => server.process.kill(),
            Ending::Terminated => server.process.terminate()?,
        }
    }
    Ok(())
}

/// Waits for that time, or until Ctrl-C.
fn pause(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time && !interrupt::is_set() {
        thread::sleep(Duration::from_millis(5));
    }
}

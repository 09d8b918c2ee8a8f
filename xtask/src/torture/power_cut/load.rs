//! The recorded load: clients and a terminal send messages to a sequence of servers on one database; each server is killed or
//! terminated. The clock is the length of the trace, so that the record shows what was acknowledged before a cut.

use super::super::{
    client::LoadClient,
    journal::{Record, ServerName},
    stage::{Clock, Round, Stage, Tally, Target},
    terminal::TerminalClient,
};
use crate::{
    Result,
    harness::{interrupt, machine::Machine},
};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

const CLIENTS: u64 = 6;
/// How long each server runs, and how it ends: after SIGTERM it closes the database, after SIGKILL it does not.
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

/// Records a trace and the acknowledgements of the clients.
pub(super) fn record(machine: &Machine, trace: &Path, round: Round) -> Result<Record> {
    let tally = Tally::default();
    let stage = Stage::new(machine, round, &tally, Clock::Trace(trace.to_owned()));
    let shared = &stage;
    thread::scope(|scope| {
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            shared.enter();
            scope.spawn(move || {
                work();
                shared.leave();
            });
        };
        for number in 0..CLIENTS {
            spawn(Box::new(move || LoadClient::new(shared, number).run()));
        }
        spawn(Box::new(move || TerminalClient::new(shared, 0).run()));
        let result = serve(shared);
        shared.abandon();
        result
    })?;
    Ok(stage.journal.into_record())
}

fn serve(stage: &Stage<'_>) -> Result<()> {
    for ((lifetime, ending), spawn) in SERVERS.into_iter().zip(1..) {
        let mut server = stage.machine.serve("server")?;
        let name = ServerName { slot: 0, spawn };
        stage.set_targets(vec![Target { name, address: server.address, is_paused: false }]);
        pause(lifetime);
        stage.set_targets(Vec::new());
        match ending {
            Ending::Killed => server.process.kill(),
            Ending::Terminated => server.process.terminate()?,
        }
    }
    Ok(())
}

/// Sleeps for that time, or until Ctrl-C.
fn pause(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time && !interrupt::is_set() {
        thread::sleep(Duration::from_millis(5));
    }
}

//! `kill -9` at any step of a turn: acknowledged events are stored, and the next message is answered.

use crate::common::{StoredLog, TestEnv, text_of};
use session::SessionKey;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Child, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use testkit::random::SplitMix64;

const KILLS: usize = 200;
/// Sessions on one database, each used by one process at a time.
const SESSIONS: u64 = 4;
const SEED: &str = "LANGO_KILL_SEED";
/// The time limit for the message after a kill, far longer than it takes.
const WITHOUT_DELAY: Duration = Duration::from_secs(20);

const TOOLS: &str = r#"
[stubs.make]
delay_ms = 12
artifact = { name = "{name}", text = "made" }
parameters = { type = "object", properties = { name = { type = "string" } } }
[stubs.dig]
delay_ms = 30
[stubs.note]
delay_ms = 5
state = { last = "{what}" }
parameters = { type = "object", properties = { what = { type = "string" } } }
"#;

const RULES: &str = "
rules:
  - when: {first_word: work, turn: 0}
    reply: [{delay_ms: 12}, {call: {name: make, args: {name: '{user}'}}}, {call: {name: dig}}]
  - when: {first_word: work, turn: 1}
    reply: [{delay_ms: 8}, {call: {name: note, args: {what: '{user}'}}}]
  - when: {first_word: work, turn: 2}
    reply: [{delay_ms: 8}, {text: 'done: {user}'}]
  - reply: [{text: 'noted: {user}'}]
";

/// The step of the turn at which the process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KillStep {
    BeforeTheMessage,
    AfterTheMessage,
    AfterTheCall,
    DuringTools,
    AfterTools,
    AfterTheAnswer,
}

const STEPS: [KillStep; 6] = [
    KillStep::BeforeTheMessage,
    KillStep::AfterTheMessage,
    KillStep::AfterTheCall,
    KillStep::DuringTools,
    KillStep::AfterTools,
    KillStep::AfterTheAnswer,
];

/// The time of a kill: after a delay since the start, or since a number of acknowledged events.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Since(Duration),
    AfterEvent(usize, Duration),
}

impl Moment {
    fn random(random: &mut SplitMix64, turn: Duration) -> Self {
        let within = |random: &mut SplitMix64, most: Duration| most.mul_f64(random.fraction());
        if random.below(2) == 0 {
            return Self::Since(within(random, turn));
        }
        let count = 1 + usize::try_from(random.below(5)).unwrap();
        let most = if count == 5 { Duration::ZERO } else { Duration::from_millis(30) };
        Self::AfterEvent(count, within(random, most))
    }
}

/// A `lango run` process in the middle of a turn.
struct RunProcess {
    child: Child,
    lines: Receiver<String>,
    /// The ids of the final events that it has printed.
    acknowledged: Vec<String>,
}

impl RunProcess {
    fn start(env: &TestEnv, session: &str, message: &str) -> Self {
        let mut command = env.command(["run", "--json", "--session", session, message]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines, acknowledged: Vec::new() }
    }

    fn take(&mut self, line: &str) {
        // A truncated last line acknowledges nothing.
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if event["partial"] != true {
            self.acknowledged.extend(event["id"].as_str().map(str::to_owned));
        }
    }

    /// Kills the process at `moment`. Returns `false` if it had already exited.
    fn kill(&mut self, moment: Moment) -> bool {
        let start = Instant::now();
        let mut deadline = match moment {
            Moment::Since(delay) => Some(start + delay),
            Moment::AfterEvent(..) => None,
        };
        loop {
            let wait = deadline.map_or(WITHOUT_DELAY, |at| at.saturating_duration_since(Instant::now()));
            match self.lines.recv_timeout(wait) {
                Ok(line) => self.take(&line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            if let Moment::AfterEvent(count, delay) = moment
                && self.acknowledged.len() >= count
            {
                deadline.get_or_insert(Instant::now() + delay);
            }
        }
        let _ = self.child.kill();
        let status = self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv() {
            self.take(&line);
        }
        status.signal() == Some(9)
    }
}

struct Trial<'a> {
    env: &'a TestEnv,
    session: String,
    acknowledged: Vec<String>,
}

impl Trial<'_> {
    fn key(&self) -> SessionKey {
        SessionKey::new("lango", "user", &self.session)
    }

    fn log(&self) -> StoredLog {
        StoredLog::read(&self.env.database(), &self.key())
    }

    /// Runs a turn and kills it. Returns `None` if it ended before.
    fn killed(&mut self, message: &str, moment: Moment) -> Option<KillStep> {
        let mut running = RunProcess::start(self.env, &self.session, message);
        let killed = running.kill(moment);
        self.acknowledged.append(&mut running.acknowledged);
        killed.then(|| self.step(message))
    }

    /// The step that the log shows.
    fn step(&self, message: &str) -> KillStep {
        let log = self.log();
        let Some(index) =
            log.events.iter().position(|event| event.is_from_user() && text_of(event) == message)
        else {
            return KillStep::BeforeTheMessage;
        };
        let last = log.events.last().unwrap();
        if index + 1 == log.events.len() {
            KillStep::AfterTheMessage
        } else if last.responses().next().is_some() {
            KillStep::AfterTools
        } else if last.calls().next().is_none() {
            KillStep::AfterTheAnswer
        } else if last.calls().any(|call| call.name == "make") && self.has_artifact(message) {
            KillStep::DuringTools
        } else {
            KillStep::AfterTheCall
        }
    }

    /// Whether the first tool has saved its artifact.
    fn has_artifact(&self, name: &str) -> bool {
        let file = rusqlite::Connection::open(self.env.database()).unwrap();
        let made = "SELECT COUNT(*) FROM artifacts WHERE session_id = ?1 AND name = ?2";
        file.query_row(made, (&self.session, name), |row| row.get::<_, i64>(0)).unwrap() > 0
    }

    /// Checks that the next message is answered without delay and that all acknowledged events are stored.
    fn check(&mut self, message: &str) -> Duration {
        let start = Instant::now();
        let output = self.env.lango(&["run", "--json", "--session", &self.session, message]).success();
        let took = start.elapsed();
        assert!(took < WITHOUT_DELAY, "the next message took {took:?}");
        let answers = output.json_lines();
        self.acknowledged.extend(
            answers
                .iter()
                .filter(|event| event["partial"] != true)
                .map(|event| event["id"].as_str().unwrap().to_owned()),
        );
        let log = self.log();
        log.assert_consistent();
        let stored: Vec<&str> = log.events.iter().map(|event| event.id.as_str()).collect();
        for id in &self.acknowledged {
            assert!(stored.contains(&id.as_str()), "{id} was acknowledged and is not stored");
        }
        let messages = log.user_messages();
        let mut unique = messages.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), messages.len(), "duplicate message: {messages:?}");
        assert_eq!(messages.last().map(String::as_str), Some(message));
        assert_eq!(text_of(log.events.last().unwrap()), format!("noted: {message}"));
        took
    }
}

/// The statistics of all sessions.
#[derive(Default)]
struct KillTally {
    kills: AtomicUsize,
    hits: Mutex<BTreeMap<KillStep, usize>>,
    slowest: Mutex<Duration>,
}

impl KillTally {
    fn is_enough(&self) -> bool {
        self.kills.load(Ordering::Relaxed) >= KILLS
    }

    fn count(&self, killed: Option<KillStep>, next: Duration) {
        if let Some(step) = killed {
            self.kills.fetch_add(1, Ordering::Relaxed);
            *self.hits.lock().unwrap().entry(step).or_default() += 1;
        }
        let mut slowest = self.slowest.lock().unwrap();
        *slowest = next.max(*slowest);
    }
}

fn seed() -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(clock)
}

fn kill_and_check(env: &TestEnv, number: u64, seed: u64, turn: Duration, tally: &KillTally) {
    let mut trial = Trial { env, session: format!("s{number}"), acknowledged: Vec::new() };
    let mut random = SplitMix64::new(seed);
    for round in 0.. {
        if tally.is_enough() {
            return;
        }
        let moment = Moment::random(&mut random, turn);
        let killed = trial.killed(&format!("work {round}"), moment);
        tally.count(killed, trial.check(&format!("check {round}")));
    }
}

#[test]
fn acknowledged_events_survive_kills_at_any_step_of_a_turn() {
    let (seed, start) = (seed(), Instant::now());
    println!("{SEED}={seed}");
    let env = TestEnv::scripted(TOOLS, RULES);
    env.lango(&["run", "--session", "first", "work 0"]).success();
    let turn = start.elapsed();
    let tally = KillTally::default();
    thread::scope(|scope| {
        for number in 0..SESSIONS {
            let (env, tally) = (&env, &tally);
            scope.spawn(move || kill_and_check(env, number, seed.wrapping_add(number << 32), turn, tally));
        }
    });
    let KillTally { kills, hits, slowest } = tally;
    let (hits, slowest) = (hits.into_inner().unwrap(), slowest.into_inner().unwrap());
    println!("{} kills in {:.1} s: {hits:?}", kills.into_inner(), start.elapsed().as_secs_f64());
    println!("a turn takes {turn:?}; the slowest message after a kill took {slowest:?}");
    for step in STEPS {
        assert!(hits.contains_key(&step), "no kill hit {step:?}: {hits:?}");
    }
}

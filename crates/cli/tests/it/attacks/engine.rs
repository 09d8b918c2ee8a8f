//! Runs the rows of a group and checks their effects.

use super::{request::Request, world::World};
use crate::common::HttpResponse;
use std::{
    fmt,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

pub(super) const MAX_MEMORY: u64 = 200 * 1024 * 1024;
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// One row of the table.
pub(super) struct Attack {
    id: String,
    attempt: Attempt,
    expect: Expect,
    /// Whether the attacker may store data in their own account.
    may_store: bool,
    /// Texts that the response must not contain, beside the canaries.
    without: &'static [&'static str],
}

/// How the request is made.
enum Attempt {
    Bytes(Vec<u8>),
    /// The request is incomplete: the client closes its side after it.
    Cut(Vec<u8>),
    Act(Box<dyn Fn(&World) -> Seen>),
}

/// The response. The status is 0 if the connection was closed without one.
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    Is(&'static [u16]),
    /// A status of 400 to 499.
    Refused,
    /// Refused, 501 or 505, or the connection is closed without a response.
    Dropped,
    /// Anything but a server error: the effects decide.
    Harmless,
    /// Not a server error, and a response with this text.
    Says(&'static str),
}

impl Expect {
    fn accepts(self, seen: &Seen) -> bool {
        match self {
            Self::Is(list) => list.contains(&seen.status),
            Self::Refused => (400..500).contains(&seen.status),
            Self::Dropped => matches!(seen.status, 0 | 400..=499 | 501 | 505),
            Self::Harmless => seen.status < 500,
            Self::Says(text) => seen.status < 500 && seen.text.contains(text),
        }
    }
}

impl Attack {
    fn new(id: impl Into<String>, attempt: Attempt, expect: Expect) -> Self {
        Self { id: id.into(), attempt, expect, may_store: false, without: &[] }
    }

    pub(super) fn http(id: impl Into<String>, world: &World, request: &Request, expect: Expect) -> Self {
        Self::new(id, Attempt::Bytes(request.bytes(&world.address())), expect)
    }

    pub(super) fn bytes(id: impl Into<String>, bytes: impl Into<Vec<u8>>, expect: Expect) -> Self {
        Self::new(id, Attempt::Bytes(bytes.into()), expect)
    }

    pub(super) fn cut(id: impl Into<String>, bytes: impl Into<Vec<u8>>, expect: Expect) -> Self {
        Self::new(id, Attempt::Cut(bytes.into()), expect)
    }

    pub(super) fn act(id: impl Into<String>, act: impl Fn(&World) -> Seen + 'static, expect: Expect) -> Self {
        Self::new(id, Attempt::Act(Box::new(act)), expect)
    }

    pub(super) fn may_store(mut self) -> Self {
        self.may_store = true;
        self
    }

    pub(super) fn without(mut self, texts: &'static [&'static str]) -> Self {
        self.without = texts;
        self
    }
}

pub(super) struct GroupReport {
    name: &'static str,
    pub(super) rows: usize,
    pub(super) faults: Vec<String>,
    memory: u64,
    time: Duration,
}

impl fmt::Display for GroupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory, seconds) = (self.memory >> 20, self.time.as_secs_f64());
        let failed = self.faults.len();
        write!(f, "{:<24} {:>5} {failed:>7} {memory:>6} {seconds:>7.1}", self.name, self.rows)
    }
}

pub(super) fn run(name: &'static str, world: &World, rows: &[Attack]) -> GroupReport {
    let begin = Instant::now();
    let count = rows.len();
    let found = |row: &Attack| violation(world, row).map(|found| format!("{name}: {}: {found}", row.id));
    let mut faults: Vec<String> = rows.iter().filter_map(found).collect();
    let memory = world.server.memory();
    if memory.is_none_or(|memory| memory > MAX_MEMORY) {
        faults.push(format!("{name}: the server uses {memory:?} bytes"));
    }
    if world.server.log().contains("panicked") {
        faults.push(format!("{name}: a thread panicked:\n{}", world.server.log()));
    }
    let time = begin.elapsed();
    GroupReport { name, rows: count, faults, memory: memory.unwrap_or(0), time }
}

/// Makes an attack; returns the violation.
fn violation(world: &World, row: &Attack) -> Option<String> {
    let before = world.stored(row.may_store);
    let seen = match &row.attempt {
        Attempt::Bytes(bytes) => send(world, bytes, false),
        Attempt::Cut(bytes) => send(world, bytes, true),
        Attempt::Act(act) => Ok(act(world)),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(fault) => return Some(fault),
    };
    if row.may_store {
        world.settle();
    }
    let excerpt: String = seen.text.chars().take(600).collect();
    if let Some(canary) = world.leaked(&seen) {
        return Some(format!("leaked {canary:?}: {excerpt}"));
    }
    if let Some(text) = row.without.iter().find(|text| seen.text.contains(**text)) {
        return Some(format!("says {text:?}: {excerpt}"));
    }
    if world.tool_ran() {
        return Some(format!("a tool ran: {excerpt}"));
    }
    if world.stored(row.may_store) != before {
        return Some(format!("the database changed: {excerpt}"));
    }
    (!row.expect.accepts(&seen)).then(|| format!("{} instead of {:?}: {excerpt}", seen.status, row.expect))
}

/// Sends bytes and reads the response; another client is served in between.
fn send(world: &World, bytes: &[u8], cut: bool) -> Result<Seen, String> {
    let mut stream = connect(world);
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    if cut {
        let _ = stream.shutdown(Shutdown::Write);
    }
    others_are_served(world)?;
    receive(&mut stream)
}

pub(super) fn connect(world: &World) -> TcpStream {
    let stream = TcpStream::connect(world.server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends a request and returns its response.
pub(super) fn answer(world: &World, request: &[u8]) -> Seen {
    let mut stream = connect(world);
    let _ = stream.write_all(request);
    receive(&mut stream).unwrap_or_else(|text| Seen { status: 999, text })
}

/// Reads until the server closes the connection.
pub(super) fn receive(stream: &mut TcpStream) -> Result<Seen, String> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            Err(format!("the connection stays open: {:?}", String::from_utf8_lossy(&bytes)))
        }
        // A reset after the response is a closed connection.
        Ok(_) | Err(_) => {
            let last = bytes.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&bytes);
            let text = String::from_utf8_lossy(last).into_owned();
            Ok(Seen { status: HttpResponse::parse(last).status, text })
        }
    }
}

/// Checks that `/health` and an authenticated request are answered.
pub(super) fn others_are_served(world: &World) -> Result<(), String> {
    let own = world.server.get("/whoami", &[("authorization", &world.ann)]);
    let health = world.server.get("/health", &[]);
    if (own.status, health.status) == (200, 200) {
        return Ok(());
    }
    Err(format!("other clients are not served: {} {}", own.status, health.status))
}

//! Clients that make the server hold much memory: responses that they do not read, bodies that they do not finish, and bodies that
//! need much more memory than their text.
//!
//! Freed memory stays with the process, so a row that fails would hide the next one: each has its own server.

use super::{
    engine::{Attack, Expect, MAX_MEMORY, Seen, answer, connect, others_are_served},
    request::{Request, request},
    world::{World, message},
};
use serde_json::json;
use std::{
    io::Write,
    net::TcpStream,
    time::{Duration, Instant},
};

const SESSIONS: &str = "/apps/lango/users/bob/sessions";
const LARGE: usize = 2 << 20;
const CONNECTIONS: usize = 120;
/// How long the memory of the server is watched.
const WATCHED: Duration = Duration::from_secs(3);

pub(super) fn artifacts(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        let file = json!({"filename": "large", "artifact": {"text": "x".repeat(LARGE)}});
        world.ask(&world.bob, "POST", &format!("{SESSIONS}/s/artifacts"), &file);
        unread(world, &format!("{SESSIONS}/s/artifacts/large"))
    };
    vec![Attack::act("unread artifacts", act, Expect::Is(&[200])).may_store()]
}

pub(super) fn metadata(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        let file = json!({"filename": "large", "artifact": {"text": "x".repeat(7 * LARGE)}});
        world.ask(&world.bob, "POST", &format!("{SESSIONS}/s/artifacts"), &file);
        unread(world, &format!("{SESSIONS}/s/artifacts/large/versions/0/metadata"))
    };
    vec![Attack::act("metadata of artifacts", act, Expect::Is(&[200])).may_store()]
}

pub(super) fn events(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        for _ in 0..8 {
            let text = message("bob", &json!([{"text": "x".repeat(LARGE / 2)}]));
            world.ask(&world.bob, "POST", "/run", &text);
        }
        unread(world, &format!("{SESSIONS}/s"))
    };
    vec![Attack::act("unread events", act, Expect::Is(&[200])).may_store()]
}

pub(super) fn state(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        store_state(world);
        unread(world, &format!("{SESSIONS}/large"))
    };
    vec![Attack::act("unread state", act, Expect::Is(&[200])).may_store()]
}

/// The state of a session stays in the session cache after a turn.
pub(super) fn cached(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        for number in 0..150 {
            let session = number.to_string();
            let state = json!({"sessionId": session, "state": {"large": "x".repeat(LARGE / 2)}});
            world.ask(&world.bob, "POST", SESSIONS, &state);
            let mut hello = message("bob", &json!([{"text": "hello"}]));
            hello["sessionId"] = json!(session);
            world.ask(&world.bob, "POST", "/run", &hello);
        }
        let memory = world.server.memory().unwrap_or(u64::MAX);
        Seen {
            status: if memory > MAX_MEMORY { 999 } else { 200 },
            text: format!("{memory} bytes of memory"),
        }
    };
    vec![Attack::act("turns of sessions with large states", act, Expect::Is(&[200])).may_store()]
}

/// Keys that together would be a state of 100 MB, in the session, in new sessions, and with messages.
pub(super) fn growing(_: &World) -> Vec<Attack> {
    let large = "x".repeat(LARGE);
    let requests = move |number: usize| {
        let (own, shared) = (json!({format!("k{number}"): large}), json!({format!("user:k{number}"): large}));
        let mut run = message("bob", &json!([{"text": "hello"}]));
        run["stateDelta"] = own.clone();
        [
            ("PATCH", format!("{SESSIONS}/s"), json!({"stateDelta": own})),
            ("PATCH", format!("{SESSIONS}/s"), json!({"stateDelta": shared})),
            ("POST", SESSIONS.to_owned(), json!({"state": shared})),
            ("POST", "/run".to_owned(), run),
        ]
    };
    let act = move |world: &World| {
        let mut seen = Seen { status: 0, text: String::new() };
        for (method, path, body) in (0..12).flat_map(&requests) {
            let request = request(method, &path).token(&world.bob).body(body.to_string());
            seen = answer(world, &request.bytes(&world.address()));
            let memory = world.server.memory().unwrap_or(u64::MAX);
            if memory > MAX_MEMORY {
                return Seen { status: 999, text: format!("{memory} bytes of memory") };
            }
        }
        seen
    };
    vec![Attack::act("state that grows", act, Expect::Is(&[413])).may_store()]
}

pub(super) fn lists(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        store_state(world);
        unread(world, SESSIONS)
    };
    vec![Attack::act("unread lists", act, Expect::Is(&[200])).may_store()]
}

pub(super) fn traces(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        for _ in 0..30 {
            let text = message("bob", &json!([{"text": "x".repeat(20_000)}]));
            world.ask(&world.bob, "POST", "/run", &text);
        }
        unread(world, "/dev/apps/lango/debug/trace/session/s")
    };
    vec![Attack::act("unread traces", act, Expect::Is(&[200])).may_store()]
}

pub(super) fn bodies(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        let body = json!({"state": {"large": "x".repeat(4 * LARGE)}}).to_string();
        let request = request("POST", SESSIONS).token(&world.bob).body(body).bytes(&world.address());
        let unfinished = &request[..request.len() - 1];
        // Small bodies of the same user are served meanwhile.
        let served = |world: &World| {
            world.ask(&world.bob, "POST", SESSIONS, &json!({"state": {"small": "x".repeat(10_000)}}));
            Ok(())
        };
        hold(world, unfinished, CONNECTIONS / 3, served)
    };
    vec![Attack::act("unfinished bodies", act, Expect::Is(&[200])).may_store()]
}

/// Complete bodies that all arrive at once.
pub(super) fn complete_bodies(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        let body = json!({"state": {"large": "x".repeat(4 * LARGE)}}).to_string();
        let request = request("POST", SESSIONS).token(&world.bob).body(body).bytes(&world.address());
        hold(world, &request, CONNECTIONS / 3, others_are_served)
    };
    vec![Attack::act("complete bodies of 8 MB", act, Expect::Is(&[200])).may_store()]
}

/// The parsed form of these bodies is many times larger than their text.
pub(super) fn numbers(_: &World) -> Vec<Attack> {
    let body = |count| list_body(r#"{"state":{"a":["#, "0", "]}}", count);
    vec![
        flood("9 million numbers", SESSIONS, body(9_000_000), TOO_MANY),
        flood("49,000 numbers", SESSIONS, body(49_000), SERVED),
    ]
}

pub(super) fn objects(_: &World) -> Vec<Attack> {
    let body = |count| list_body(r#"{"state":{"a":["#, r#"{"":0}"#, "]}}", count);
    vec![
        flood("2 million objects", SESSIONS, body(2_000_000), TOO_MANY),
        flood("24,000 objects", SESSIONS, body(24_000), SERVED),
    ]
}

pub(super) fn imported(_: &World) -> Vec<Attack> {
    let body = |count| list_body(r#"{"events":["#, r#"{"author":"user"}"#, "]}", count);
    let refused = Expect::Says("at most 5000 events; the body has 24000");
    vec![
        flood("24,000 events", SESSIONS, body(24_000), refused),
        flood("5,000 events", SESSIONS, body(5000), SERVED),
    ]
}

pub(super) fn parts(_: &World) -> Vec<Attack> {
    let begin = r#"{"appName":"lango","userId":"bob","sessionId":"s","newMessage":{"parts":["#;
    vec![flood("16,000 parts", "/run", list_body(begin, r#"{"text":""}"#, "]}}", 16_000), SERVED)]
}

const TOO_MANY: Expect = Expect::Says("the body exceeds the limit of 50000 JSON values");
/// 503 if the other connections have the memory.
const SERVED: Expect = Expect::Is(&[200, 503]);

fn list_body(begin: &str, item: &str, end: &str, count: usize) -> String {
    format!("{begin}{}{end}", vec![item; count].join(","))
}

/// Sends a body on many connections, and then once more to see the response.
fn flood(id: &str, path: &'static str, body: String, expect: Expect) -> Attack {
    let act = move |world: &World| {
        let request = request("POST", path).token(&world.bob).body(&body).bytes(&world.address());
        let seen = hold(world, &request, CONNECTIONS / 2, others_are_served);
        if seen.status == 200 { answer(world, &request) } else { seen }
    };
    Attack::act(id, act, expect).may_store()
}

/// A message with an image of 15 MB is one value: it is accepted.
pub(super) fn image(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        let image = json!([{"inlineData": {"mimeType": "image/png", "data": "A".repeat(20_000_000)}}]);
        let body = message("bob", &image).to_string();
        let request = request("POST", "/run").token(&world.bob).body(body).bytes(&world.address());
        let seen = answer(world, &request);
        let memory = world.server.memory().unwrap_or(u64::MAX);
        if memory > MAX_MEMORY {
            Seen { status: 999, text: format!("{memory} bytes of memory") }
        } else {
            seen
        }
    };
    vec![Attack::act("image of 15 MB", act, Expect::Says("noted")).may_store()]
}

/// Files of the page, which need no token.
pub(super) fn page(_: &World) -> Vec<Attack> {
    let act = |world: &World| {
        world.env.file("page/deep/large.js", "x".repeat(3 * LARGE));
        let request = request("GET", "/dev-ui/deep/large.js").bytes(&world.address());
        hold(world, &request, 300, others_are_served)
    };
    vec![Attack::act("300 unread files of the page", act, Expect::Is(&[200])).may_store()]
}

fn store_state(world: &World) {
    let large = json!({"state": {"large": "x".repeat(LARGE)}, "sessionId": "large"});
    world.ask(&world.bob, "POST", SESSIONS, &large);
}

fn unread(world: &World, path: &str) -> Seen {
    let request: Request = request("GET", path).token(&world.bob);
    hold(world, &request.bytes(&world.address()), CONNECTIONS, others_are_served)
}

/// Sends the bytes on many connections and reads nothing. 999 if the memory exceeds the limit or others are not served.
fn hold(
    world: &World,
    bytes: &[u8],
    connections: usize,
    check: impl Fn(&World) -> Result<(), String>,
) -> Seen {
    let mut held: Vec<TcpStream> = (0..connections).map(|_| connect(world)).collect();
    for stream in &held {
        // The server may read no more than it has memory for.
        stream.set_nonblocking(true).unwrap();
    }
    let mut sent = vec![0; held.len()];
    let deadline = Instant::now() + WATCHED;
    while Instant::now() < deadline {
        let memory = world.server.memory().unwrap_or(u64::MAX);
        if memory > MAX_MEMORY {
            return Seen { status: 999, text: format!("{memory} bytes of memory") };
        }
        for (stream, sent) in held.iter_mut().zip(&mut sent) {
            while let Ok(count @ 1..) = stream.write(&bytes[*sent..]) {
                *sent += count;
            }
        }
        if let Err(fault) = check(world) {
            return Seen { status: 999, text: fault };
        }
    }
    Seen { status: 200, text: String::new() }
}

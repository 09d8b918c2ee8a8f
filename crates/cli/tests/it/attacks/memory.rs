//! Clients that make the server hold much memory: responses that they do not read, and bodies that they do not finish.
//!
//! Freed memory stays with the process, so a row that fails would hide the next one: each has its own server.

use super::{
    engine::{Attack, Expect, MAX_MEMORY, Seen, connect, others_are_served},
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
        hold(world, &request[..request.len() - 1], CONNECTIONS / 3)
    };
    let reason =
        "bodies that arrive do not wait for memory: requestsPerUser times maxBodyBytes for each user";
    vec![Attack::act("unfinished bodies", act, Expect::Is(&[200])).may_store().known(reason)]
}

fn store_state(world: &World) {
    let large = json!({"state": {"large": "x".repeat(LARGE)}, "sessionId": "large"});
    world.ask(&world.bob, "POST", SESSIONS, &large);
}

fn unread(world: &World, path: &str) -> Seen {
    let request: Request = request("GET", path).token(&world.bob);
    hold(world, &request.bytes(&world.address()), CONNECTIONS)
}

/// Sends the bytes on many connections and reads nothing. 999 if the memory exceeds the limit or others are not served.
fn hold(world: &World, bytes: &[u8], connections: usize) -> Seen {
    let mut held: Vec<TcpStream> = (0..connections).map(|_| connect(world)).collect();
    for stream in &mut held {
        let _ = stream.write_all(bytes);
    }
    let deadline = Instant::now() + WATCHED;
    while Instant::now() < deadline {
        let memory = world.server.memory().unwrap_or(u64::MAX);
        if memory > MAX_MEMORY {
            return Seen { status: 999, text: format!("{memory} bytes of memory") };
        }
        if let Err(fault) = others_are_served(world) {
            return Seen { status: 999, text: fault };
        }
    }
    Seen { status: 200, text: String::new() }
}

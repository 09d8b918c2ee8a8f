//! How much of the server one client may have.

use super::{added, local};
use crate::common::{Answer, Place, Running};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
};

fn place(server: &str) -> Place {
    let place = Place::canned();
    let written = fs::read_to_string(place.here().join("lango.toml")).unwrap();
    place.file("lango.toml", format!("{written}\n[server]\n{server}\n"));
    place
}

#[test]
fn a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() {
    let place = place("maxBodyBytes = 1000");
    let server = Running::start(&place, &[]);
    let token = local(&place);
    let path = "/apps/canned/users/ann/sessions";
    let body = format!("{{\"state\": {{\"a\": \"{}\"}}}}", "x".repeat(2000));
    let told = server.ask("POST", path, &[("authorization", &token)], body.as_bytes());
    assert_eq!((told.status, told.detail().as_str()), (413, "the body exceeds the limit of 1000 bytes"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        server.address
    );
    let chunked = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let told = server.raw(chunked.as_bytes());
    assert_eq!((told.status, told.detail().as_str()), (413, "the body exceeds the limit of 1000 bytes"));
    assert_eq!(server.ask("POST", path, &[("authorization", &token)], b"{}").status, 200);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let place = place("maxHeadBytes = 10000");
    let server = Running::start(&place, &[]);
    let long = "x".repeat(20_000);
    assert_eq!(server.get("/health", &[("x-long", &long)]).status, 431);
    assert_eq!(server.get("/health", &[("x-long", &long[..5000])]).status, 200);
}

#[test]
fn a_token_has_so_many_requests_in_a_minute_and_the_machines_has_no_limit() {
    let place = place("requestsPerMinute = 3");
    let server = Running::start(&place, &[]);
    let (ann, bob) = (added(&place, &["a", "--user", "ann"]), added(&place, &["b", "--user", "bob"]));
    let asked = |token: &str| server.get("/list-apps", &[("authorization", token)]);
    for _ in 0..3 {
        assert_eq!(asked(&ann).status, 200);
    }
    let told = asked(&ann);
    assert_eq!(told.status, 429);
    assert_eq!(told.detail(), "rate limit of this token reached; see Retry-After");
    let wait: u64 = told.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=21).contains(&wait), "{wait}");
    assert_eq!(asked(&bob).status, 200);
    let machine = local(&place);
    assert!((0..10).all(|_| asked(&machine).status == 200));
}

#[test]
fn a_full_server_says_so_and_has_room_again_when_somebody_leaves() {
    let place = place("maxConnections = 2");
    let server = Running::start(&place, &[]);
    let ask = |stream: &mut TcpStream| {
        write!(stream, "GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        Answer::parse(&bytes[..count]).status
    };
    let mut held: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(held.iter_mut().all(|stream| ask(stream) == 200));
    let told = server.get("/health", &[]);
    assert_eq!(
        (told.status, told.detail().as_str()),
        (429, "connection limit of the server reached; retry later")
    );
    held.clear();
    let has_room = || server.get("/health", &[]).status == 200;
    assert!((0..1000).any(|_| has_room()), "those who left are still counted");
}

#[test]
fn a_head_that_does_not_end_is_not_waited_for() {
    let place = place("headTimeoutSeconds = 1");
    let server = Running::start(&place, &[]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: ").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_ne!(Answer::parse(&rest).status, 200);
}

#[test]
fn a_user_has_so_many_runs_at_a_time() {
    let place = Place::scripted(
        "[stubs.dig]\ndelay_ms = 3600000\n[server]\nrunsPerUser = 1\n",
        "rules:\n- {reply: [{call: {name: dig}}]}\n",
    );
    let server = Running::start(&place, &[]);
    let (ann, bob) = (added(&place, &["a", "--user", "ann"]), added(&place, &["b", "--user", "bob"]));
    let machine = local(&place);
    let run = |token: &str, user: &str, session: &str| {
        let path = format!("/apps/lango/users/{user}/sessions/{session}");
        assert_eq!(server.ask("POST", &path, &[("authorization", token)], b"").status, 200);
        let body = serde_json::json!({
            "appName": "lango", "userId": user, "sessionId": session, "streaming": true,
            "newMessage": {"role": "user", "parts": [{"text": "go"}]},
        });
        let body = body.to_string();
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = format!(
            "POST /run_sse HTTP/1.1\r\nhost: {}\r\nauthorization: {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        Answer::parse(&bytes[..count])
    };
    assert_eq!(run(&ann, "ann", "one").status, 200);
    let told = run(&ann, "ann", "two");
    assert_eq!(told.status, 429, "{told:?}");
    assert_eq!(told.detail(), "limit of 1 concurrent runs reached; wait until one ends, or cancel one");
    assert_eq!(run(&bob, "bob", "one").status, 200);
    assert_eq!(run(&machine, "ann", "three").status, 200);

    let eve = added(&place, &["e", "--user", "eve"]);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let (run, eve) = (&run, &eve);
        let asked = (0..8).map(|number| scope.spawn(move || run(eve, "eve", &format!("s{number}")).status));
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let begun = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(begun, 1, "of those that come at once too: {statuses:?}");
}

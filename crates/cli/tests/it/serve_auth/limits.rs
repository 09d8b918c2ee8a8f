//! Limits of the server on bodies, heads, rates, connections and runs.

use super::{added, local};
use crate::common::{AuthServer, HttpResponse, TestEnv};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    thread,
};
use tokio::net::TcpSocket;

fn test_env(server: &str) -> TestEnv {
    let env = TestEnv::canned();
    let written = fs::read_to_string(env.workdir().join("lango.toml")).unwrap();
    env.file("lango.toml", format!("{written}\n[server]\n{server}\n"));
    env
}

#[test]
fn oversized_body_is_refused_with_and_without_content_length() {
    let env = test_env("maxBodyBytes = 1000");
    let server = AuthServer::start(&env, &[]);
    let token = local(&env);
    let path = "/apps/canned/users/ann/sessions";
    let body = format!("{{\"state\": {{\"a\": \"{}\"}}}}", "x".repeat(2000));
    let response = server.request("POST", path, &[("authorization", &token)], body.as_bytes());
    assert_eq!(
        (response.status, response.detail().as_str()),
        (413, "the body exceeds the limit of 1000 bytes")
    );
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        server.address
    );
    let chunked = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let response = server.raw(chunked.as_bytes());
    assert_eq!(
        (response.status, response.detail().as_str()),
        (413, "the body exceeds the limit of 1000 bytes")
    );
    assert_eq!(server.request("POST", path, &[("authorization", &token)], b"{}").status, 200);
}

#[test]
fn oversized_request_head_is_refused() {
    let env = test_env("maxHeadBytes = 10000");
    let server = AuthServer::start(&env, &[]);
    let long = "x".repeat(20_000);
    assert_eq!(server.get("/health", &[("x-long", &long)]).status, 431);
    assert_eq!(server.get("/health", &[("x-long", &long[..5000])]).status, 200);
}

#[test]
fn rate_limit_applies_per_token_and_not_to_the_local_token() {
    let env = test_env("requestsPerMinute = 3");
    let server = AuthServer::start(&env, &[]);
    let (ann, bob) = (added(&env, &["a", "--user", "ann"]), added(&env, &["b", "--user", "bob"]));
    let list_apps = |token: &str| server.get("/list-apps", &[("authorization", token)]);
    for _ in 0..3 {
        assert_eq!(list_apps(&ann).status, 200);
    }
    let response = list_apps(&ann);
    assert_eq!(response.status, 429);
    assert_eq!(response.detail(), "rate limit of this token reached; see Retry-After");
    let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=21).contains(&wait), "{wait}");
    assert_eq!(list_apps(&bob).status, 200);
    let machine = local(&env);
    assert!((0..10).all(|_| list_apps(&machine).status == 200));
}

#[test]
fn idle_connections_make_room_at_the_connection_limit() {
    let env = test_env("maxConnections = 2");
    let server = AuthServer::start(&env, &[]);
    let ask = |stream: &mut TcpStream| {
        write!(stream, "GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        HttpResponse::parse(&bytes[..count]).status
    };
    let mut held: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(held.iter_mut().all(|stream| ask(stream) == 200));
    let token = local(&env);
    for _ in 0..4 {
        assert_eq!(server.get("/list-apps", &[("authorization", &token)]).status, 200);
    }
    assert_eq!(held[0].read(&mut [0]).unwrap_or(0), 0, "the oldest connection is closed");
}

/// Opens a connection from the loopback address `127.0.0.N`.
fn connect_from(number: u8, server: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, number), 0).into()).unwrap();
        socket.connect(server).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn idle_connections_of_several_addresses_do_not_block_new_ones() {
    let env = test_env("maxConnections = 100\nconnectionsPerAddress = 20");
    let server = AuthServer::start(&env, &[]);
    let token = local(&env);
    let mut used = TcpStream::connect(server.address).unwrap();
    let mut silent = Vec::new();
    for number in 2..12 {
        silent.extend((0..30).map(|_| connect_from(number, server.address)));
        assert_eq!(server.get("/health", &[]).status, 200, "{number}");
        assert_eq!(server.get("/list-apps", &[("authorization", &token)]).status, 200, "{number}");
        if number == 5 {
            // Three addresses with 20 connections each are below the limit of the server.
            write!(used, "GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
            assert!(
                used.read(&mut [0; 4096]).unwrap() > 0,
                "an idle connection of another address stays open"
            );
        }
    }
    for stream in &mut silent[..10] {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the oldest connections are closed");
    }
}

#[test]
fn slow_request_body_is_answered_408() {
    let env = test_env("stallTimeoutSeconds = 1");
    let server = AuthServer::start(&env, &[]);
    let (token, host) = (local(&env), server.address);
    let head = format!(
        "POST /run HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\ncontent-type: application/json\r\n\
         content-length: 1000\r\n\r\n{{"
    );
    let response = server.raw(head.as_bytes());
    assert_eq!((response.status, response.detail().as_str()), (408, "the body arrives too slowly"));
    assert_eq!(response.header("connection"), Some("close"));
}

#[test]
fn session_quota_and_metrics_are_those_of_the_configuration() {
    let env = test_env("sessionsPerUser = 1");
    let server = AuthServer::start(&env, &[]);
    let ann = added(&env, &["a", "--user", "ann"]);
    let create =
        || server.request("POST", "/apps/canned/users/ann/sessions", &[("authorization", &ann)], b"{}");
    assert_eq!(create().status, 200);
    let refused = create();
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.detail(),
        "user ann has the maximum of 1 sessions; delete sessions to create new ones"
    );
    assert_eq!(server.get("/metrics", &[("authorization", &ann)]).status, 403);
    assert_eq!(server.get("/metrics", &[("authorization", &local(&env))]).status, 200);
}

#[test]
fn incomplete_request_head_times_out() {
    let env = test_env("headTimeoutSeconds = 1");
    let server = AuthServer::start(&env, &[]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: ").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_ne!(HttpResponse::parse(&rest).status, 200);
}

#[test]
fn concurrent_runs_are_limited_per_user() {
    let env = TestEnv::scripted(
        "[stubs.dig]\ndelay_ms = 3600000\n[server]\nrunsPerUser = 1\n",
        "rules:\n- {reply: [{call: {name: dig}}]}\n",
    );
    let server = AuthServer::start(&env, &[]);
    let (ann, bob) = (added(&env, &["a", "--user", "ann"]), added(&env, &["b", "--user", "bob"]));
    let machine = local(&env);
    let run = |token: &str, user: &str, session: &str| {
        let path = format!("/apps/lango/users/{user}/sessions/{session}");
        assert_eq!(server.request("POST", &path, &[("authorization", token)], b"").status, 200);
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
        HttpResponse::parse(&bytes[..count])
    };
    assert_eq!(run(&ann, "ann", "one").status, 200);
    let response = run(&ann, "ann", "two");
    assert_eq!(response.status, 429, "{response:?}");
    assert_eq!(response.detail(), "limit of 1 concurrent runs reached; wait until one ends, or cancel one");
    assert_eq!(run(&bob, "bob", "one").status, 200);
    assert_eq!(run(&machine, "ann", "three").status, 200);

    let eve = added(&env, &["e", "--user", "eve"]);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let (run, eve) = (&run, &eve);
        let threads = (0..8).map(|number| scope.spawn(move || run(eve, "eve", &format!("s{number}")).status));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let begun = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(begun, 1, "concurrent requests: {statuses:?}");
}

/// Requests of a file of the page whose responses are not read.
fn hold_anonymous(server: &AuthServer, count: usize, headers: &str) -> Vec<TcpStream> {
    let request = format!("GET /dev-ui/large.js HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", server.address);
    let open = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        // The response has begun.
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn tokens_and_health_are_served_at_the_limit_of_an_address() {
    let env = test_env("connectionsPerAddress = 2");
    env.file("page/large.js", "x".repeat(8 << 20));
    let server = AuthServer::start(&env, &[]);
    let ann = added(&env, &["a", "--user", "ann"]);
    let held = hold_anonymous(&server, 2, "");
    assert_eq!(server.get("/docs", &[]).status, 429);
    assert_eq!(server.get("/whoami", &[("authorization", "Bearer guess")]).status, 429);
    assert_eq!(server.get("/health", &[]).status, 200);
    for token in [&ann, &local(&env)] {
        assert_eq!(server.get("/whoami", &[("authorization", token)]).status, 200);
        assert_eq!(server.get("/docs", &[("authorization", token)]).status, 200);
    }
    let mut other = connect_from(9, server.address);
    write!(other, "GET /docs HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address).unwrap();
    let mut bytes = Vec::new();
    other.read_to_end(&mut bytes).unwrap();
    assert_eq!(HttpResponse::parse(&bytes).status, 200, "another address");
    drop(held);
}

#[test]
fn tokens_and_health_are_served_at_the_limit_of_a_forwarded_address() {
    let env = test_env("connectionsPerAddress = 2\ntrustedProxies = [\"127.0.0.1\"]");
    env.file("page/large.js", "x".repeat(8 << 20));
    let server = AuthServer::start(&env, &[]);
    let ann = added(&env, &["a", "--user", "ann"]);
    let held = hold_anonymous(&server, 2, "x-forwarded-for: 192.0.2.1\r\n");
    let get = |path: &str, client: &str, token: &str| {
        server.get(path, &[("x-forwarded-for", client), ("authorization", token)]).status
    };
    assert_eq!(get("/docs", "192.0.2.1", ""), 429);
    assert_eq!(get("/whoami", "192.0.2.1", "Bearer guess"), 429);
    assert_eq!(get("/health", "192.0.2.1", ""), 200);
    assert_eq!(get("/whoami", "192.0.2.1", &ann), 200);
    assert_eq!(get("/docs", "192.0.2.1", &ann), 200);
    assert_eq!(get("/docs", "192.0.2.2", ""), 200);
    drop(held);
}

#[test]
fn concurrent_requests_are_limited_per_user() {
    let env = test_env("requestsPerUser = 2\nconnectionsPerAddress = 1");
    env.file("page/large.js", "x".repeat(8 << 20));
    let server = AuthServer::start(&env, &[]);
    let (ann, bob) = (added(&env, &["a", "--user", "ann"]), added(&env, &["b", "--user", "bob"]));
    let _address = hold_anonymous(&server, 1, "");
    // Above the limit of the address, a request of a public route counts for its user too.
    let held = hold_anonymous(&server, 2, &format!("authorization: {ann}\r\n"));
    let refused = server.get("/whoami", &[("authorization", &ann)]);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.detail(), "limit of 2 concurrent requests reached; wait until one ends");
    assert_eq!(server.get("/whoami", &[("authorization", &bob)]).status, 200);
    assert_eq!(server.get("/health", &[]).status, 200);
    drop(held);
}

//! Requests by one user for another user's resources.

use super::{
    engine::{Attack, Expect},
    request::{ROUTES, request},
    world::{World, message},
};
use serde_json::json;

pub(super) fn rows(world: &World) -> Vec<Attack> {
    let mut rows = Vec::new();
    for route in ROUTES.iter().filter(|route| route.names_user()) {
        let request = route.request("ann", &world.run).token(&world.bob);
        rows.push(Attack::http(route.id(), world, &request, Expect::Is(&[404])));
    }
    for user in USERS {
        let path = format!("/apps/lango/users/{user}/sessions/s");
        let request = request("GET", &path).token(&world.bob);
        rows.push(Attack::http(format!("user {user:.40}"), world, &request, Expect::Harmless));
    }
    for session in SESSIONS {
        let path = format!("/apps/lango/users/bob/sessions/{session}");
        let request = request("GET", &path).token(&world.bob);
        rows.push(Attack::http(format!("session {session:.60}"), world, &request, Expect::Harmless));
    }
    for (method, path) in PATHS {
        let path = path.replace("RUN", &world.run);
        let request = request(method, &path).token(&world.bob);
        rows.push(Attack::http(format!("path {method} {path}"), world, &request, Expect::Harmless));
    }
    rows.extend(long_ids(world));
    rows.extend(bodies(world));
    rows.extend(questions(world));
    rows
}

/// Spellings of Ann.
const USERS: &[&str] = &[
    "%61nn",
    "a%6E%6E",
    "%2561nn",
    "Ann",
    "ANN",
    "ann%20",
    "%20ann",
    "ann%00",
    "%00ann",
    "ann%0a",
    "ann%09",
    "ann.",
    "ann%2F",
    "%2Fann",
    "ann%5C",
    "./ann",
    "bob/../ann",
    "bob%2F..%2Fann",
    "bob%252F..%252Fann",
    "bob/%2e%2e/ann",
    "bob%5C..%5Cann",
    "..%2Fusers%2Fann",
    "\u{430}nn",
    "%D0%B0nn",
    "a\u{ff4e}n",
    "ann%E2%80%8B",
    "an%CC%83n",
    "ann;bob",
    "bob;ann",
    "ann?user=bob",
    "ann#bob",
    "ann,bob",
    "*",
    "%25",
    "_",
    "%ff",
    "%C0%AFann",
    "%zz",
    "",
    "%00",
    "null",
    "bob'or'1'='1",
];

/// Sessions of Bob that lead to Ann's.
const SESSIONS: &[&str] = &[
    "../../ann/sessions/s",
    "..%2F..%2Fann%2Fsessions%2Fs",
    "%2e%2e/%2e%2e/ann/sessions/s",
    "%252e%252e%252f%252e%252e%252fann%252fsessions%252fs",
    "..%5C..%5Cann%5Csessions%5Cs",
    "..%c0%af..%c0%afann%c0%afsessions%c0%afs",
    "s%00",
    "s%00/../../ann/sessions/s",
    "S",
    "s%20",
    "s.",
    "%73",
    "*",
    "%25",
    "_",
    "s'%20OR%20user_id='ann",
    "s%22%20OR%201=1--",
    "",
    ".",
    "..",
    "%2e",
    "%2e%2e",
    "s;user=ann",
    "s?user_id=ann&userId=ann",
    "s?userId=ann&user=ann",
    "s/",
    "s//",
    "s/../../../ann/sessions/s",
    "s%2Fartifacts%2Ff.txt",
    "s%E2%80%8B",
];

/// Runs, spans and events of Ann in Bob's name.
const PATHS: &[(&str, &str)] = &[
    ("GET", "/apps/lango/users/bob/sessions/s/runs/RUN"),
    ("GET", "/apps/lango/users/bob/sessions/s/runs/RUN/events"),
    ("POST", "/apps/lango/users/bob/sessions/s/runs/RUN/cancel"),
    ("GET", "/apps/lango/users/bob/sessions/s/runs/RUN%2Fevents"),
    ("GET", "/apps/lango/users/bob/sessions/s/runs/..%2F..%2F..%2F..%2Fann%2Fsessions%2Fs%2Fruns%2FRUN"),
    ("GET", "/dev/apps/lango/debug/trace/session/s"),
    ("GET", "/dev/apps/lango/debug/trace/RUN"),
    ("GET", "/dev/apps/lango/debug/trace/session/s?user_id=ann"),
    ("GET", "//apps/lango/users/ann/sessions/s"),
    ("GET", "/apps//lango/users/ann/sessions/s"),
    ("GET", "/apps/lango/users/ann/sessions/s/"),
    ("GET", "/APPS/lango/users/ann/sessions/s"),
    ("GET", "/apps/LANGO/users/ann/sessions/s"),
    ("GET", "/apps/lango%2Fusers%2Fann%2Fsessions/users/bob/sessions/s"),
    ("GET", "/apps/lango/users/bob/sessions/s/../../../ann/sessions/s/artifacts/f.txt"),
    ("GET", "/dev-ui/../apps/lango/users/ann/sessions/s"),
    ("GET", "/dev-ui/%2e%2e/apps/lango/users/ann/sessions/s"),
    ("HEAD", "/apps/lango/users/ann/sessions/s"),
    ("OPTIONS", "/apps/lango/users/ann/sessions/s"),
    ("PUT", "/apps/lango/users/ann/sessions/s"),
];

fn long_ids(world: &World) -> Vec<Attack> {
    let long = "a".repeat(30_000);
    let paths = [
        format!("/apps/lango/users/{long}/sessions/s"),
        format!("/apps/lango/users/bob/sessions/{long}"),
        format!("/apps/{long}/users/bob/sessions/s"),
        format!("/apps/lango/users/bob/sessions/s/runs/{long}"),
        format!("/apps/lango/users/{}ann/sessions/s", "..%2F".repeat(5000)),
    ];
    let row = |(number, path): (usize, &String)| {
        let request = request("GET", path).token(&world.bob);
        Attack::http(format!("long id {number}"), world, &request, Expect::Refused)
    };
    paths.iter().enumerate().map(row).collect()
}

/// Bodies that name Ann.
fn bodies(world: &World) -> Vec<Attack> {
    let text = r#""newMessage":{"role":"user","parts":[{"text":"hi"}]}"#;
    let users = [
        r#""userId":"ann""#,
        r#""user_id":"ann""#,
        r#""userId":"bob","user_id":"ann""#,
        r#""user_id":"ann","userId":"bob""#,
        r#""userId":"bob","userId":"ann""#,
        r#""userId":"ann","userId":"bob""#,
        r#""userId":["ann"]"#,
        r#""userId":{"$ne":""}"#,
        r#""userId":"\u0061nn""#,
        r#""userId":"ann\u0000""#,
        r#""userId":" ann""#,
        r#""userId":"Ann""#,
        r#""userId":null"#,
        r#""userId":"bob","sessionId":"../../ann/sessions/s""#,
    ];
    let mut rows = Vec::new();
    for user in users {
        for path in ["/run", "/run_sse"] {
            let session = if user.contains("sessionId") { "" } else { r#","sessionId":"s""# };
            let body = format!(r#"{{"appName":"lango",{user}{session},{text}}}"#);
            let request = request("POST", path).token(&world.bob).body(body);
            // A body with both spellings is ambiguous: it may act for Bob.
            rows.push(Attack::http(format!("{path} {user}"), world, &request, Expect::Harmless).may_store());
        }
    }
    for body in [
        r#"{"sessionId":"x","userId":"ann"}"#,
        r#"{"sessionId":"x","user_id":"ann","appName":"lango"}"#,
        r#"{"sessionId":"../../ann/sessions/s"}"#,
        r#"{"sessionId":"ann/s","events":[{"author":"ann"}]}"#,
    ] {
        let request = request("POST", "/apps/lango/users/bob/sessions").token(&world.bob).body(body);
        rows.push(Attack::http(format!("create {body}"), world, &request, Expect::Harmless).may_store());
    }
    rows
}

/// Answers to the question in Ann's session.
fn questions(world: &World) -> Vec<Attack> {
    let answer = |id: &str| json!([{"functionResponse": {"id": id, "name": "adk_request_confirmation", "response": {"confirmed": true}}}]);
    let mut rows = Vec::new();
    for (user, path, expect) in [
        ("ann", "/run", Expect::Is(&[404])),
        ("ann", "/run_sse", Expect::Is(&[404])),
        ("bob", "/run", Expect::Harmless),
        ("bob", "/run_sse", Expect::Harmless),
        ("bob", "/apps/lango/users/bob/sessions/s/runs", Expect::Harmless),
    ] {
        for with_run in [false, true] {
            let mut body = message(user, &answer(&world.question));
            if with_run {
                body["invocationId"] = json!(world.run);
            }
            let request = request("POST", path).token(&world.bob).body(body.to_string());
            rows.push(
                Attack::http(format!("answers {user} {path} {with_run}"), world, &request, expect)
                    .may_store(),
            );
        }
    }
    rows
}

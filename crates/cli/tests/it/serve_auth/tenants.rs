//! Two users of one server: nothing of one is ever in an answer to the other, whatever is asked and however.

use super::{added, local, routes};
use crate::common::{Place, Running};
use serde_json::{Value, json};

/// In everything that is ann's.
const SECRET: &str = "canary-of-ann";

struct Town {
    server: Running,
    ann: String,
    bob: String,
    machine: String,
    /// A run of ann's.
    run: String,
    _place: Place,
}

impl Town {
    fn new() -> Self {
        let place = Place::canned();
        let server = Running::start(&place, &[]);
        let (ann, bob) = (added(&place, &["a", "--user", "ann"]), added(&place, &["b", "--user", "bob"]));
        let machine = local(&place);
        let mut town = Self { server, ann, bob, machine, run: String::new(), _place: place };
        let state = json!({"state": {"plain": SECRET, "user:own": SECRET}, "sessionId": "s"});
        assert_eq!(town.ask(&town.ann, "POST", "/apps/canned/users/ann/sessions", &state), 200);
        let file = json!({"filename": "f.txt", "artifact": {"text": SECRET}});
        assert_eq!(town.ask(&town.ann, "POST", "/apps/canned/users/ann/sessions/s/artifacts", &file), 200);
        let answer = town.server.ask(
            "POST",
            "/run",
            &[("authorization", &town.ann)],
            message("ann", &format!("artifact {SECRET}"), &json!({})).to_string().as_bytes(),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("x-run-id").unwrap().clone_into(&mut town.run);
        assert_eq!(town.ask(&town.bob, "POST", "/apps/canned/users/bob/sessions/s", &Value::Null), 200);
        town
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> u16 {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.ask(method, path, &[("authorization", token)], body.as_bytes()).status
    }

    /// Every path below ann's session that holds something.
    fn of_ann(&self) -> Vec<String> {
        let base = "/apps/canned/users/ann/sessions";
        let below = [
            String::new(),
            "/s".to_owned(),
            "/s/artifacts".to_owned(),
            "/s/artifacts/f.txt".to_owned(),
            "/s/artifacts/f.txt/versions".to_owned(),
            "/s/artifacts/f.txt/versions/0".to_owned(),
            "/s/artifacts/f.txt/versions/latest/metadata".to_owned(),
            "/s/runs".to_owned(),
            format!("/s/runs/{}", self.run),
            format!("/s/runs/{}/events", self.run),
        ];
        below.iter().map(|below| format!("{base}{below}")).collect()
    }
}

fn message(user: &str, text: &str, delta: &Value) -> Value {
    json!({
        "appName": "canned", "userId": user, "sessionId": "s", "stateDelta": delta,
        "newMessage": {"role": "user", "parts": [{"text": text}]},
    })
}

#[test]
fn the_spans_of_another_user_are_not_there() {
    let town = Town::new();
    let get = |token: &str, path: &str| town.server.get(path, &[("authorization", token)]);
    let spans = "/dev/apps/canned/debug/trace/session/s";
    let seen = get(&town.ann, spans).json();
    let event = seen[0]["attributes"]["gcp.vertex.agent.event_id"].as_str().unwrap();
    let of_event = format!("/dev/apps/canned/debug/trace/{event}");
    assert_eq!(get(&town.ann, &of_event).status, 200);
    // Bob has a session of the same name, in which nothing has happened.
    assert_eq!(get(&town.bob, spans).json(), json!([]));
    assert_eq!(get(&town.bob, &of_event).detail(), "Trace not found");
    assert_eq!(get(&town.machine, spans).json(), seen);
}

#[test]
fn what_is_anns_is_not_there_for_bob_and_is_for_her_and_the_administrator() {
    let town = Town::new();
    for path in town.of_ann() {
        assert_eq!(town.ask(&town.ann, "GET", &path, &Value::Null), 200, "{path}");
        assert_eq!(town.ask(&town.machine, "GET", &path, &Value::Null), 200, "{path}");
        let other = town.server.get(&path, &[("authorization", &town.bob)]);
        assert_eq!((other.status, other.detail().as_str()), (404, "Session not found"), "{path}");
        let unknown = path.replace("ann", "nobody");
        let nobody = town.server.get(&unknown, &[("authorization", &town.bob)]);
        assert_eq!((other.status, &other.body), (nobody.status, &nobody.body), "{path}");
    }
    let base = "/apps/canned/users/ann/sessions/s";
    for (method, path, body) in [
        ("DELETE", base.to_owned(), Value::Null),
        ("PATCH", base.to_owned(), json!({"stateDelta": {"plain": "bob was here"}})),
        ("POST", "/apps/canned/users/ann/sessions".to_owned(), json!({})),
        ("DELETE", format!("{base}/artifacts/f.txt"), Value::Null),
        ("POST", format!("{base}/runs/{}/cancel", town.run), Value::Null),
        ("POST", format!("{base}/runs"), message("ann", "hello", &json!({}))),
        ("PATCH", "/apps/canned/users/ann/memory".to_owned(), json!({"sessionId": "s"})),
        ("POST", "/run".to_owned(), message("ann", "hello", &json!({}))),
        ("POST", "/run_sse".to_owned(), message("ann", "hello", &json!({}))),
    ] {
        assert_eq!(town.ask(&town.bob, method, &path, &body), 404, "{method} {path}");
    }
    let kept = town.server.get(base, &[("authorization", &town.ann)]).body;
    assert!(kept.contains(SECRET) && !kept.contains("bob was here"));
}

#[test]
fn what_all_users_share_is_written_by_administrators_only() {
    let town = Town::new();
    let shared = json!({"app:motto": "mine"});
    let base = "/apps/canned/users/ann/sessions";
    for (method, path, body) in [
        ("POST", base.to_owned(), json!({"state": shared})),
        ("POST", format!("{base}/new"), shared.clone()),
        ("PATCH", format!("{base}/s"), json!({"stateDelta": shared})),
        ("POST", "/run".to_owned(), message("ann", "hello", &shared)),
        ("POST", "/run_sse".to_owned(), message("ann", "hello", &shared)),
        ("POST", format!("{base}/s/runs"), message("ann", "hello", &shared)),
    ] {
        let told =
            town.server.ask(method, &path, &[("authorization", &town.ann)], body.to_string().as_bytes());
        assert_eq!(told.status, 403, "{method} {path} {told:?}");
        assert!(told.detail().contains("app:motto"), "{told:?}");
    }
    let kept = town.server.get(&format!("{base}/s"), &[("authorization", &town.ann)]).body;
    assert!(!kept.contains("app:motto"), "{kept}");
    assert_eq!(town.ask(&town.machine, "PATCH", &format!("{base}/s"), &json!({"stateDelta": shared})), 200);
}

/// A small source of chance that is the same each time.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.throw(all.len())]
    }
}

const NAMES: &[&str] = &[
    "ann",
    "bob",
    "s",
    "Ann",
    "ann%00",
    "%61nn",
    "a%6e%6e",
    "ann%2Fsessions%2Fs",
    "..%2Fann",
    "..",
    ".",
    "%2e%2e",
    "bob%2F..%2Fann",
    "%ff",
    "%",
    "%zz",
    "ann%20",
    "%20ann",
    "ann;x",
    "ann?x=y",
    "ann#x",
    "%C3%A4",
    "\u{e4}",
    "*",
    "null",
    "0",
    "-1",
    "f.txt",
    "user:f.txt",
    "x'or'1'='1",
    "",
    "latest",
    "versions",
];
const METHODS: &[&str] =
    &["GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"];
const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    "null",
    "{",
    "\"ann\"",
    "\u{0}",
    r#"{"appName":"canned","userId":"ann","sessionId":"s","newMessage":{"parts":[{"text":"hi"}]}}"#,
    r#"{"app_name":"canned","user_id":"ann","session_id":"s"}"#,
    r#"{"appName":"canned","userId":"bob","user_id":"ann","sessionId":"s"}"#,
    r#"{"appName":"canned","user_id":"bob","userId":"ann","sessionId":"s"}"#,
    r#"{"appName":"canned","userId":"bob","userId":"ann","sessionId":"s"}"#,
    r#"{"appName":"canned","userId":"bob","sessionId":"../../ann/sessions/s","newMessage":{"parts":[{"text":"hi"}]}}"#,
    r#"{"appName":"canned","userId":"bob","sessionId":"s","stateDelta":{"user:own":null}}"#,
    r#"{"sessionId":"s","state":{"user:own":1}}"#,
    r#"{"userId":"ann","sessionId":"s","appName":"canned","events":[{}]}"#,
    r#"{"filename":"../ann/f.txt","artifact":{"text":"x"}}"#,
    r#"{"filename":"user:f.txt","artifact":{"inlineData":{"data":"!","mimeType":"x"}}}"#,
    r#"{"stateDelta":{"temp:x":1}}"#,
];

/// A path of the table with odd things in its places.
fn odd(dice: &mut Dice, route: &str, run: &str) -> String {
    let pieces = route.split('/').map(|piece| match piece {
        "canned" if dice.throw(8) > 0 => "canned".to_owned(),
        "ann" | "x" | "canned" if dice.throw(6) == 0 => run.to_owned(),
        "ann" | "x" | "canned" => dice.pick(NAMES).to_owned(),
        piece => piece.to_owned(),
    });
    let path = pieces.collect::<Vec<_>>().join("/");
    match dice.throw(6) {
        0 => format!("{path}?user_id=ann&userId=ann&session_id=s"),
        1 => format!("{path}?limit={}&after={}", dice.pick(NAMES), dice.pick(NAMES)),
        2 => format!("{path}/"),
        3 => path.replacen('/', "//", 1),
        _ => path,
    }
}

#[test]
fn whatever_bob_asks_he_never_sees_a_byte_of_anns_and_nothing_breaks() {
    let town = Town::new();
    let mut dice = Dice(20_261_116);
    let routes: Vec<String> = routes().into_iter().filter(|route| !route.starts_with("/dev-ui")).collect();
    for _ in 0..1500 {
        let route = &routes[dice.throw(routes.len())];
        let path = odd(&mut dice, route, &town.run);
        let (method, body) = (dice.pick(METHODS), dice.pick(BODIES));
        let other = ("x-user-id", "ann");
        let answer = town.server.ask(method, &path, &[("authorization", &town.bob), other], body.as_bytes());
        let asked = format!("{method} {path} {body}\n{answer:?}");
        // What is not part of the server says so.
        let is_audio = answer.status == 501 && path.contains("run_live");
        assert!((200..500).contains(&answer.status) || is_audio, "{asked}");
        assert!(!format!("{answer:?}").contains(SECRET), "{asked}");
    }
    let kept = town.server.get("/apps/canned/users/ann/sessions/s", &[("authorization", &town.ann)]);
    assert_eq!((kept.status, kept.body.matches(SECRET).count() >= 3), (200, true), "{kept:?}");
    assert!(!town.server.said().contains("panicked"), "{}", town.server.said());
}

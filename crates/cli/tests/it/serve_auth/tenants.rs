//! Isolation of users: no response to one user contains data of another.

use super::{added, local, routes};
use crate::common::{AuthServer, TestEnv};
use serde_json::{Value, json};

/// A canary in all data of Ann.
const SECRET: &str = "canary-of-ann";

struct TenantFixture {
    server: AuthServer,
    ann: String,
    bob: String,
    machine: String,
    /// The id of a run of Ann.
    run: String,
    _place: TestEnv,
}

impl TenantFixture {
    fn new() -> Self {
        let env = TestEnv::canned();
        let server = AuthServer::start(&env, &[]);
        let (ann, bob) = (added(&env, &["a", "--user", "ann"]), added(&env, &["b", "--user", "bob"]));
        let machine = local(&env);
        let mut fixture = Self { server, ann, bob, machine, run: String::new(), _place: env };
        let state = json!({"state": {"plain": SECRET, "user:own": SECRET}, "sessionId": "s"});
        assert_eq!(fixture.request(&fixture.ann, "POST", "/apps/canned/users/ann/sessions", &state), 200);
        let file = json!({"filename": "f.txt", "artifact": {"text": SECRET}});
        assert_eq!(
            fixture.request(&fixture.ann, "POST", "/apps/canned/users/ann/sessions/s/artifacts", &file),
            200
        );
        let answer = fixture.server.request(
            "POST",
            "/run",
            &[("authorization", &fixture.ann)],
            message("ann", &format!("artifact {SECRET}"), &json!({})).to_string().as_bytes(),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("x-run-id").unwrap().clone_into(&mut fixture.run);
        assert_eq!(
            fixture.request(&fixture.bob, "POST", "/apps/canned/users/bob/sessions/s", &Value::Null),
            200
        );
        fixture
    }

    fn request(&self, token: &str, method: &str, path: &str, body: &Value) -> u16 {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.request(method, path, &[("authorization", token)], body.as_bytes()).status
    }

    /// The paths of Ann's sessions, artifacts and runs.
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
fn spans_of_another_user_are_hidden() {
    let fixture = TenantFixture::new();
    let get = |token: &str, path: &str| fixture.server.get(path, &[("authorization", token)]);
    let spans = "/dev/apps/canned/debug/trace/session/s";
    let seen = get(&fixture.ann, spans).json();
    let event = seen[0]["attributes"]["gcp.vertex.agent.event_id"].as_str().unwrap();
    let of_event = format!("/dev/apps/canned/debug/trace/{event}");
    assert_eq!(get(&fixture.ann, &of_event).status, 200);
    // Bob has an empty session with the same id.
    assert_eq!(get(&fixture.bob, spans).json(), json!([]));
    assert_eq!(get(&fixture.bob, &of_event).detail(), "Trace not found");
    assert_eq!(get(&fixture.machine, spans).json(), seen);
}

#[test]
fn resources_of_another_user_answer_404() {
    let fixture = TenantFixture::new();
    for path in fixture.of_ann() {
        assert_eq!(fixture.request(&fixture.ann, "GET", &path, &Value::Null), 200, "{path}");
        assert_eq!(fixture.request(&fixture.machine, "GET", &path, &Value::Null), 200, "{path}");
        let other = fixture.server.get(&path, &[("authorization", &fixture.bob)]);
        assert_eq!((other.status, other.detail().as_str()), (404, "Session not found"), "{path}");
        let unknown = path.replace("ann", "nobody");
        let nobody = fixture.server.get(&unknown, &[("authorization", &fixture.bob)]);
        assert_eq!((other.status, &other.body), (nobody.status, &nobody.body), "{path}");
    }
    let base = "/apps/canned/users/ann/sessions/s";
    for (method, path, body) in [
        ("DELETE", base.to_owned(), Value::Null),
        ("PATCH", base.to_owned(), json!({"stateDelta": {"plain": "bob was here"}})),
        ("POST", "/apps/canned/users/ann/sessions".to_owned(), json!({})),
        ("DELETE", format!("{base}/artifacts/f.txt"), Value::Null),
        ("POST", format!("{base}/runs/{}/cancel", fixture.run), Value::Null),
        ("POST", format!("{base}/runs"), message("ann", "hello", &json!({}))),
        ("PATCH", "/apps/canned/users/ann/memory".to_owned(), json!({"sessionId": "s"})),
        ("POST", "/run".to_owned(), message("ann", "hello", &json!({}))),
        ("POST", "/run_sse".to_owned(), message("ann", "hello", &json!({}))),
    ] {
        assert_eq!(fixture.request(&fixture.bob, method, &path, &body), 404, "{method} {path}");
    }
    let stored = fixture.server.get(base, &[("authorization", &fixture.ann)]).body;
    assert!(stored.contains(SECRET) && !stored.contains("bob was here"));
}

#[test]
fn app_state_is_written_by_administrators_only() {
    let fixture = TenantFixture::new();
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
        let response = fixture.server.request(
            method,
            &path,
            &[("authorization", &fixture.ann)],
            body.to_string().as_bytes(),
        );
        assert_eq!(response.status, 403, "{method} {path} {response:?}");
        assert!(response.detail().contains("app:motto"), "{response:?}");
    }
    let stored = fixture.server.get(&format!("{base}/s"), &[("authorization", &fixture.ann)]).body;
    assert!(!stored.contains("app:motto"), "{stored}");
    assert_eq!(
        fixture.request(&fixture.machine, "PATCH", &format!("{base}/s"), &json!({"stateDelta": shared})),
        200
    );
}

/// A pseudorandom number generator with a fixed seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
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

/// A path of the route table with unusual values for its parameters.
fn odd(rng: &mut Rng, route: &str, run: &str) -> String {
    let segments = route.split('/').map(|segment| match segment {
        "canned" if rng.below(8) > 0 => "canned".to_owned(),
        "ann" | "x" | "canned" if rng.below(6) == 0 => run.to_owned(),
        "ann" | "x" | "canned" => rng.pick(NAMES).to_owned(),
        segment => segment.to_owned(),
    });
    let path = segments.collect::<Vec<_>>().join("/");
    match rng.below(6) {
        0 => format!("{path}?user_id=ann&userId=ann&session_id=s"),
        1 => format!("{path}?limit={}&after={}", rng.pick(NAMES), rng.pick(NAMES)),
        2 => format!("{path}/"),
        3 => path.replacen('/', "//", 1),
        _ => path,
    }
}

#[test]
fn random_requests_never_expose_data_of_another_user() {
    let fixture = TenantFixture::new();
    let mut rng = Rng(20_261_116);
    let routes: Vec<String> = routes().into_iter().filter(|route| !route.starts_with("/dev-ui")).collect();
    for _ in 0..1500 {
        let route = &routes[rng.below(routes.len())];
        let path = odd(&mut rng, route, &fixture.run);
        let (method, body) = (rng.pick(METHODS), rng.pick(BODIES));
        let other = ("x-user-id", "ann");
        let answer =
            fixture.server.request(method, &path, &[("authorization", &fixture.bob), other], body.as_bytes());
        let context = format!("{method} {path} {body}\n{answer:?}");
        // ADK operations that the server does not have answer 501.
        let is_unsupported = answer.status == 501;
        assert!((200..500).contains(&answer.status) || is_unsupported, "{context}");
        assert!(!format!("{answer:?}").contains(SECRET), "{context}");
    }
    let stored = fixture.server.get("/apps/canned/users/ann/sessions/s", &[("authorization", &fixture.ann)]);
    assert_eq!((stored.status, stored.body.matches(SECRET).count() >= 3), (200, true), "{stored:?}");
    assert!(!fixture.server.log().contains("panicked"), "{}", fixture.server.log());
}

//! Requests as data, written to bytes without any validation.

/// A request. `Host`, `Connection: close` and the length of the body are added unless they are set.
#[derive(Clone)]
pub(super) struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

pub(super) fn request(method: &str, path: &str) -> Request {
    Request { line: format!("{method} {path} HTTP/1.1"), headers: Vec::new(), body: Vec::new() }
}

impl Request {
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("authorization", token)
    }

    pub(super) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    pub(super) fn bytes(&self, address: &str) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut head = vec![self.line.clone()];
        if !has("host") {
            head.push(format!("host: {address}"));
        }
        if !has("connection") {
            head.push("connection: close".to_owned());
        }
        if !self.body.is_empty() {
            if !has("content-type") {
                head.push("content-type: application/json".to_owned());
            }
            if !has("content-length") && !has("transfer-encoding") {
                head.push(format!("content-length: {}", self.body.len()));
            }
        }
        // An empty name leaves a header out.
        let headers = self.headers.iter().filter(|(_, value)| value != "(none)");
        head.extend(headers.map(|(name, value)| format!("{name}: {value}")));
        [head.join("\r\n").as_bytes(), b"\r\n\r\n", &self.body].concat()
    }
}

/// A route with a valid body, for a session `s` of the user. `RUN` stands for the id of a run.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    body: &'static str,
}

impl Route {
    /// The request with the path and body of another user than Ann.
    pub(super) fn request(&self, user: &str, run: &str) -> Request {
        let path = self.path.replace("/ann", &format!("/{user}")).replace("RUN", run);
        request(self.method, &path).body(self.body.replace("ANN", user))
    }

    pub(super) fn changes(&self) -> bool {
        self.method != "GET"
    }

    pub(super) fn names_user(&self) -> bool {
        self.path.contains("/ann") || self.body.contains("ANN")
    }

    pub(super) fn id(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

const fn route(method: &'static str, path: &'static str, body: &'static str) -> Route {
    Route { method, path, body }
}

const RUN: &str = r#"{"appName":"lango","userId":"ANN","sessionId":"s","newMessage":{"role":"user","parts":[{"text":"hi"}]}}"#;

/// The routes that need a token.
pub(super) const ROUTES: &[Route] = &[
    route("GET", "/list-apps", ""),
    route("GET", "/version", ""),
    route("GET", "/whoami", ""),
    route("GET", "/metrics", ""),
    route("POST", "/login", ""),
    route("GET", "/apps/lango/app-info", ""),
    route("GET", "/apps/lango/users/ann/sessions", ""),
    route("POST", "/apps/lango/users/ann/sessions", "{}"),
    route("GET", "/apps/lango/users/ann/sessions/s", ""),
    route("POST", "/apps/lango/users/ann/sessions/new", "{}"),
    route("PATCH", "/apps/lango/users/ann/sessions/s", r#"{"stateDelta":{"plain":"changed"}}"#),
    route("DELETE", "/apps/lango/users/ann/sessions/s", ""),
    route("PATCH", "/apps/lango/users/ann/memory", r#"{"sessionId":"s"}"#),
    route("GET", "/apps/lango/users/ann/sessions/s/artifacts", ""),
    route(
        "POST",
        "/apps/lango/users/ann/sessions/s/artifacts",
        r#"{"filename":"f.txt","artifact":{"text":"x"}}"#,
    ),
    route("GET", "/apps/lango/users/ann/sessions/s/artifacts/f.txt", ""),
    route("DELETE", "/apps/lango/users/ann/sessions/s/artifacts/f.txt", ""),
    route("GET", "/apps/lango/users/ann/sessions/s/artifacts/f.txt/versions", ""),
    route("GET", "/apps/lango/users/ann/sessions/s/artifacts/f.txt/versions/0", ""),
    route("GET", "/apps/lango/users/ann/sessions/s/artifacts/f.txt/versions/latest/metadata", ""),
    route("POST", "/run", RUN),
    route("POST", "/run_sse", RUN),
    route("GET", "/apps/lango/users/ann/sessions/s/runs", ""),
    route("POST", "/apps/lango/users/ann/sessions/s/runs", RUN),
    route("GET", "/apps/lango/users/ann/sessions/s/runs/RUN", ""),
    route("GET", "/apps/lango/users/ann/sessions/s/runs/RUN/events", ""),
    route("POST", "/apps/lango/users/ann/sessions/s/runs/RUN/cancel", ""),
    route("POST", "/config/telemetry", "{}"),
    route("GET", "/dev/apps/lango/build_graph", ""),
    route("GET", "/dev/apps/lango/users/ann/sessions/s/events/x/graph", ""),
    route("GET", "/dev/apps/lango/debug/trace/x", ""),
    route("GET", "/dev/apps/lango/debug/trace/session/s", ""),
    route("GET", "/dev/apps/lango/eval-sets", ""),
    route("GET", "/dev/apps/lango/builder", ""),
    route("POST", "/dev/apps/lango/builder/save", "{}"),
    route("POST", "/dev/apps/lango/deploy/cloud_run", "{}"),
    route("GET", "/run_live", ""),
    route("GET", "/no-such-route", ""),
];

//! A server in the test's process.

use super::client::TestRequest;
use adk::agent::LlmAgent;
use axum::{Router, http::Method};
use bridge::{Agent, Archive, Budget, ModelAdapter, Runs};
use provider::scripted::ScriptedProvider;
use serde_json::{Value, json};
use server::{
    AccessControl, AppFault, AppFaultKind, AppLookupError, AppRegistry, AppsStatus, BrokenApp, Principal,
    ServedApp, ServerState,
    auth::{Authenticator, TOKENS_FILE, TokenStore, local_token, token_store, unix_time},
    host_policy::HostPolicy,
    limits::ServerLimits,
    proxy::IpNetwork,
    router,
};
use session::{Store, memory::MemoryStore};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tempfile::TempDir;

/// The Host header of requests, and the address that the server is configured to listen on.
pub(crate) const HOST: &str = "127.0.0.1:18789";

/// Repeats the message, four times if it begins with `repeat`; hangs after the first word of its answer to `hang`, and fails on `fail`.
const SCRIPT: &str = "
rules:
  - when: {first_word: hang}
    reply: [{text: begin}, hang]
  - when: {first_word: fail}
    reply: [{fail: {code: BROKEN, message: the model is broken}}]
  - when: {first_word: repeat}
    reply: [{text: '{user}'}, {text: '{user}'}, {text: '{user}'}, {text: '{user}'}]
  - reply: [{text: 'echo: {user}'}]
";

/// Builds a [`TestApp`].
pub(crate) struct TestAppBuilder {
    limits: ServerLimits,
    origins: Vec<String>,
    proxies: Vec<IpNetwork>,
    with_auth: bool,
    prefix: Option<&'static str>,
    serves_echo: bool,
}

impl TestAppBuilder {
    /// Breaks the app `echo`, so that no app is usable.
    pub(crate) fn without_usable_apps(self) -> Self {
        Self { serves_echo: false, ..self }
    }

    /// Requires tokens. Without it, every request is an administrator's.
    pub(crate) fn with_auth(self) -> Self {
        Self { with_auth: true, ..self }
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut ServerLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn allow_origin(mut self, origin: &str) -> Self {
        self.origins.push(origin.to_owned());
        self
    }

    pub(crate) fn trust_proxy(mut self, network: &str) -> Self {
        self.proxies.push(network.parse().unwrap());
        self
    }

    /// Nests the router in another one.
    pub(crate) fn nest(self, prefix: &'static str) -> Self {
        Self { prefix: Some(prefix), ..self }
    }

    pub(crate) fn build(self) -> TestApp {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let runs = Runs::new(Arc::clone(&store));
        let script = Arc::new(ScriptedProvider::from_str("script", SCRIPT).unwrap());
        let model = Arc::new(ModelAdapter::new(script, "script", Budget::default()));
        let root = LlmAgent { description: "Repeats.".to_owned(), ..LlmAgent::new("echo_agent", model) };
        let agent = Agent::new(Arc::clone(&store), root, Budget::default()).unwrap();
        let agent = agent.with_turns(runs.turns().clone());
        let echo = Arc::new(ServedApp { name: "echo".to_owned(), agent, model: "script".to_owned() });
        let removed = Arc::new(AtomicBool::new(false));
        let apps = TestApps { echo, removed: Arc::clone(&removed), serves_echo: self.serves_echo };
        let home = TempDir::new().unwrap();
        let policy = HostPolicy {
            address: HOST.parse().unwrap(),
            tls: false,
            hosts: Vec::new(),
            origins: self.origins,
            proxies: self.proxies,
        };
        let authenticator = self.with_auth.then(|| Authenticator::open(home.path(), None).unwrap());
        let access = AccessControl::new(policy, authenticator, self.limits);
        let state = ServerState::new(Arc::new(apps), Archive::new(store), runs);
        let router = router(state, access);
        let router = match self.prefix {
            Some(prefix) => Router::new().nest(prefix, router),
            None => router,
        };
        TestApp { router, home, removed }
    }
}

/// The app `echo`, and the app `broken`, whose configuration is invalid.
struct TestApps {
    echo: Arc<ServedApp>,
    /// Whether the app `echo` was removed.
    removed: Arc<AtomicBool>,
    /// Whether `echo` is usable.
    serves_echo: bool,
}

fn fault() -> AppFault {
    AppFault {
        kind: AppFaultKind::Invalid,
        reason: "/srv/agents/broken/root_agent.yaml:3:1: invalid".to_owned(),
    }
}

impl AppRegistry for TestApps {
    fn names(&self) -> Vec<String> {
        vec!["broken".to_owned(), "echo".to_owned()]
    }

    fn find(&self, name: &str) -> Result<Arc<ServedApp>, AppLookupError> {
        match name {
            "echo" if self.removed.load(Ordering::Relaxed) => {
                Err(AppLookupError::NotFound("Agent not found: 'echo'.".to_owned()))
            }
            "echo" if self.serves_echo => Ok(Arc::clone(&self.echo)),
            "echo" | "broken" => Err(AppLookupError::Broken(fault())),
            other => Err(AppLookupError::NotFound(format!("Agent not found: '{other}'."))),
        }
    }

    fn status(&self) -> AppsStatus {
        let broken = |name: &str| BrokenApp { name: name.to_owned(), fault: fault(), serves_previous: false };
        let mut status = AppsStatus { served: 1, broken: vec![broken("broken")] };
        if !self.serves_echo {
            status.served = 0;
            status.broken.push(broken("echo"));
        }
        status
    }
}

/// A server without a socket. Requests are sent with [`TestApp::get`] and its siblings.
pub(crate) struct TestApp {
    pub(crate) router: Router,
    home: TempDir,
    removed: Arc<AtomicBool>,
}

impl TestApp {
    pub(crate) fn builder() -> TestAppBuilder {
        TestAppBuilder {
            limits: ServerLimits::default(),
            origins: Vec::new(),
            proxies: Vec::new(),
            with_auth: false,
            prefix: None,
            serves_echo: true,
        }
    }

    /// A server without authentication.
    pub(crate) fn new() -> Self {
        Self::builder().build()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> TestRequest {
        TestRequest::new(self.router.clone(), method, path)
    }

    pub(crate) fn get(&self, path: &str) -> TestRequest {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str) -> TestRequest {
        self.request(Method::POST, path)
    }

    pub(crate) fn patch(&self, path: &str) -> TestRequest {
        self.request(Method::PATCH, path)
    }

    pub(crate) fn delete(&self, path: &str) -> TestRequest {
        self.request(Method::DELETE, path)
    }

    /// A new token of a user.
    pub(crate) fn user_token(&self, user: &str) -> String {
        self.add_token(user, Principal { user: Some(user.to_owned()), admin: false }, None)
    }

    /// A further token of a user.
    pub(crate) fn add_user_token(&self, name: &str, user: &str) -> String {
        self.add_token(name, Principal { user: Some(user.to_owned()), admin: false }, None)
    }

    /// A token of a user that has expired.
    pub(crate) fn expired_token(&self, user: &str) -> String {
        let principal = Principal { user: Some(user.to_owned()), admin: false };
        self.add_token(&format!("{user}, expired"), principal, Some(unix_time() - 1))
    }

    fn add_token(&self, name: &str, principal: Principal, expires_at: Option<u64>) -> String {
        let (token, secret) = token_store::generate(name, principal, unix_time(), expires_at).unwrap();
        TokenStore::new(self.home.path().join(TOKENS_FILE)).add(token).unwrap();
        secret.reveal().to_owned()
    }

    /// The local token.
    pub(crate) fn admin_token(&self) -> String {
        local_token::load_or_create(self.home.path()).unwrap().reveal().to_owned()
    }

    /// Removes the app `echo`.
    pub(crate) fn remove_echo(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Creates the session `s` of the user `u` and returns its path.
    pub(crate) async fn create_session(&self) -> &'static str {
        self.post("/apps/echo/users/u/sessions/s").send().await.expect_status(200);
        "/apps/echo/users/u/sessions/s"
    }
}

/// The body of `/run` with a text message to the session `s` of a user.
pub(crate) fn message_from(user: &str, text: &str) -> Value {
    json!({
        "appName": "echo", "userId": user, "sessionId": "s",
        "newMessage": {"role": "user", "parts": [{"text": text}]},
    })
}

/// The body of `/run` with a text message to the session of [`TestApp::create_session`].
pub(crate) fn message(text: &str) -> Value {
    message_from("u", text)
}

/// The texts of a list of events.
pub(crate) fn texts(events: &Value) -> Vec<&str> {
    let events = events.as_array().unwrap_or_else(|| panic!("not a list of events: {events}"));
    events.iter().map(text).collect()
}

/// The text of an event.
pub(crate) fn text(event: &Value) -> &str {
    event["content"]["parts"][0]["text"].as_str().unwrap_or_default()
}

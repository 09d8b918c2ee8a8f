//! The log of received requests, and the number of requests per path.

use super::{ProviderApi, http::FakeRequest};
use lock::LockExt;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::watch;

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    number: u64,
    /// The scenario in the URL; `ok` if there is none.
    pub scenario: String,
    /// `None` if the path belongs to no API.
    pub api: Option<ProviderApi>,
    pub method: String,
    /// Path and query.
    pub path: String,
    /// In order of arrival; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null if the body was empty; `{"_raw": …}` if it was not JSON.
    pub body: Value,
    /// Whether the client disconnected before the response was complete.
    pub aborted: bool,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn to_json(&self) -> Value {
        let headers: HashMap<_, _> = self.headers.iter().cloned().collect();
        json!({"scenario": self.scenario, "api": self.api.map(ProviderApi::name), "method": self.method, "path": self.path,
            "headers": headers, "body": self.body, "aborted": self.aborted})
    }
}

#[derive(Debug, Default)]
pub(super) struct RequestLog {
    received: watch::Sender<Vec<Received>>,
    next: AtomicU64,
    visits: Mutex<HashMap<String, usize>>,
    rejections: Mutex<HashMap<String, Arc<Rejection>>>,
}

/// Requests that a scenario of a test rejects. It answers all others with text.
pub struct Rejection {
    pub status: u16,
    pub message: String,
    /// Whether a request with this body is rejected.
    pub when: Box<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejection {{ {} {} }}", self.status, self.message)
    }
}

impl RequestLog {
    /// Records a request and returns its number, for [`mark_aborted`](Self::mark_aborted).
    pub(super) fn record(&self, request: &FakeRequest, scenario: &str, api: Option<ProviderApi>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let received = Received {
            number,
            scenario: scenario.to_owned(),
            api,
            method: request.method.clone(),
            path: request.target.clone(),
            headers: request.headers.clone(),
            body: request.json(),
            aborted: false,
        };
        self.received.send_modify(|all| all.push(received));
        number
    }

    pub(super) fn mark_aborted(&self, number: u64) {
        self.received.send_modify(|all| {
            for received in all.iter_mut().filter(|received| received.number == number) {
                received.aborted = true;
            }
        });
    }

    /// Counts a request of this path and returns the count, including this one.
    pub(super) fn count(&self, path: &str) -> usize {
        let mut visits = self.visits.locked();
        let count = visits.entry(path.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(super) fn reject(&self, scenario: &str, rejection: Rejection) {
        self.rejections.locked().insert(scenario.to_owned(), Arc::new(rejection));
    }

    pub(super) fn rejection(&self, scenario: &str) -> Option<Arc<Rejection>> {
        self.rejections.locked().get(scenario).cloned()
    }

    pub(super) fn requests(&self) -> Vec<Received> {
        self.received.borrow().clone()
    }

    pub(super) fn to_json(&self) -> Value {
        self.received.borrow().iter().map(Received::to_json).collect()
    }

    pub(super) fn clear(&self) {
        self.visits.locked().clear();
        self.received.send_modify(Vec::clear);
    }

    pub(super) async fn until(&self, mut wanted: impl FnMut(&[Received]) -> bool) {
        // Fails only if the sender is dropped; `self` holds it.
        let _ = self.received.subscribe().wait_for(|all| wanted(all)).await;
    }
}

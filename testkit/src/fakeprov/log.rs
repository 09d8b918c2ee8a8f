//! What the server has received, and how often.

use super::{ProviderApi, http::FakeRequest};
use lock::LockExt;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::watch;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    number: u64,
    /// As the URL names it; `ok` if it names none.
    pub scenario: String,
    /// None where no API is served at this path.
    pub api: Option<ProviderApi>,
    pub method: String,
    /// With the query.
    pub path: String,
    /// In their order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null if there was none; `{"_raw": …}` if it was not JSON.
    pub body: Value,
    /// Whether the client went away before it had the whole answer.
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
}

impl RequestLog {
    /// The number by which the request can be marked later.
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

    /// How often the path was asked for, this time included.
    pub(super) fn count(&self, path: &str) -> usize {
        let mut visits = self.visits.locked();
        let count = visits.entry(path.to_owned()).or_default();
        *count += 1;
        *count
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
        // It fails only if the sender is gone, and that is `self`.
        let _ = self.received.subscribe().wait_for(|all| wanted(all)).await;
    }
}

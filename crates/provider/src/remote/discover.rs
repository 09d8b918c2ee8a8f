//! Model servers on this machine, found by the ports that they are known for.

use super::{Endpoint, ModelInfo, Remote};
use crate::Api;
use futures::future::join_all;
use std::time::Duration;
use tokio::{net::TcpStream, time::timeout};

/// A server that may run on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    pub name: &'static str,
    pub api: Api,
    pub port: u16,
}

/// The usual ones, those that people run for nothing but models first.
pub const LOCAL: [Local; 4] = [
    Local { name: "ollama", api: Api::Ollama, port: 11434 },
    Local { name: "lmstudio", api: Api::Chat, port: 1234 },
    Local { name: "llamacpp", api: Api::Chat, port: 8080 },
    Local { name: "vllm", api: Api::Chat, port: 8000 },
];

/// A server that answers, with the models that it offers: at least one.
#[derive(Clone, Debug)]
pub struct Found {
    pub endpoint: Endpoint,
    pub models: Vec<ModelInfo>,
}

/// A closed port on loopback says so at once; one that is filtered is not waited for.
const CONNECTING: Duration = Duration::from_millis(250);

/// What else listens there may be slow, and is no model server.
const ANSWERING: Duration = Duration::from_secs(1);

/// Asks all of them at once, and only on loopback. They come back in the order in which they were given.
pub async fn discover(servers: &[Local]) -> Vec<Found> {
    join_all(servers.iter().map(look)).await.into_iter().flatten().collect()
}

async fn look(server: &Local) -> Option<Found> {
    // A bare connection first: where nothing listens, no client is built.
    drop(timeout(CONNECTING, TcpStream::connect(("127.0.0.1", server.port))).await.ok()?.ok()?);
    let endpoint = Endpoint::new(server.name, server.api, format!("http://127.0.0.1:{}", server.port));
    let remote = Remote::new(endpoint);
    let models = remote.models_within(ANSWERING).await.ok()?;
    (!models.is_empty()).then_some(Found { endpoint: remote.endpoint, models })
}

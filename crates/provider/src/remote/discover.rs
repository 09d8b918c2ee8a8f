//! Model servers on this machine, found by the ports that they are known for.

use super::{ModelInfo, ProviderEndpoint, RemoteProvider};
use crate::WireApi;
use futures::future::join_all;
use std::time::Duration;
use tokio::{net::TcpStream, time::timeout};

/// A server that may run on this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalServer {
    pub name: &'static str,
    pub api: WireApi,
    pub port: u16,
}

/// The usual ones, those that people run for nothing but models first.
pub const LOCAL_SERVERS: [LocalServer; 4] = [
    LocalServer { name: "ollama", api: WireApi::Ollama, port: 11434 },
    LocalServer { name: "lmstudio", api: WireApi::Chat, port: 1234 },
    LocalServer { name: "llamacpp", api: WireApi::Chat, port: 8080 },
    LocalServer { name: "vllm", api: WireApi::Chat, port: 8000 },
];

/// A server that answers, with the models that it offers: at least one.
#[derive(Clone, Debug)]
pub struct DiscoveredServer {
    pub endpoint: ProviderEndpoint,
    pub models: Vec<ModelInfo>,
}

/// A closed port on loopback says so at once; one that is filtered is not waited for.
const CONNECTING: Duration = Duration::from_millis(250);

/// What else listens there may be slow, and is no model server.
const ANSWERING: Duration = Duration::from_secs(1);

/// Asks all of them at once, and only on loopback. They come back in the order in which they were given.
pub async fn discover(servers: &[LocalServer]) -> Vec<DiscoveredServer> {
    join_all(servers.iter().map(look)).await.into_iter().flatten().collect()
}

async fn look(server: &LocalServer) -> Option<DiscoveredServer> {
    // A bare connection first: where nothing listens, no client is built.
    drop(timeout(CONNECTING, TcpStream::connect(("127.0.0.1", server.port))).await.ok()?.ok()?);
    let endpoint =
        ProviderEndpoint::new(server.name, server.api, format!("http://127.0.0.1:{}", server.port));
    let remote = RemoteProvider::new(endpoint);
    let models = remote.models_within(ANSWERING).await.ok()?;
    (!models.is_empty()).then_some(DiscoveredServer { endpoint: remote.endpoint, models })
}

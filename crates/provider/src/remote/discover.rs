//! Discovery of model servers on this machine, by their default ports.

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

/// The well-known servers. Those whose port is specific to models come first.
pub const LOCAL_SERVERS: [LocalServer; 4] = [
    LocalServer { name: "ollama", api: WireApi::Ollama, port: 11434 },
    LocalServer { name: "lmstudio", api: WireApi::Chat, port: 1234 },
    LocalServer { name: "llamacpp", api: WireApi::Chat, port: 8080 },
    LocalServer { name: "vllm", api: WireApi::Chat, port: 8000 },
];

/// A server that responded, with its models: at least one.
#[derive(Clone, Debug)]
pub struct DiscoveredServer {
    pub endpoint: ProviderEndpoint,
    pub models: Vec<ModelInfo>,
}

/// A closed loopback port refuses at once; a filtered one must not delay the start.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// Another service on the port may be slow.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Probes all servers concurrently, on loopback only. The order of the result is that of the argument.
pub async fn discover(servers: &[LocalServer]) -> Vec<DiscoveredServer> {
    join_all(servers.iter().map(probe)).await.into_iter().flatten().collect()
}

async fn probe(server: &LocalServer) -> Option<DiscoveredServer> {
    // Connect first: no HTTP client is built for a closed port.
    drop(timeout(CONNECT_TIMEOUT, TcpStream::connect(("127.0.0.1", server.port))).await.ok()?.ok()?);
    let endpoint =
        ProviderEndpoint::new(server.name, server.api, format!("http://127.0.0.1:{}", server.port));
    let remote = RemoteProvider::new(endpoint);
    let models = remote.models_with_timeout(RESPONSE_TIMEOUT).await.ok()?;
    (!models.is_empty()).then_some(DiscoveredServer { endpoint: remote.endpoint, models })
}

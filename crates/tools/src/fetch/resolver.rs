//! DNS resolution with an address check. Each connection resolves its name once and goes to a checked address, which
//! prevents DNS rebinding.

use std::{
    error::Error as StdError,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::future::BoxFuture;
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

use super::address::refusal;

/// Resolves host names.
pub trait HostResolver: Send + Sync {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Addresses that are allowed although they are not public.
#[derive(Debug, Clone, Default)]
pub struct AllowedAddrs {
    loopback: bool,
    addresses: Vec<SocketAddr>,
}

impl AllowedAddrs {
    /// Allows exactly these addresses, and only if the URL contains the address itself: not through a name, and not through
    /// a redirect from another origin.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { loopback: false, addresses }
    }

    /// Allows 127.0.0.1 for any name, for tests with local servers.
    #[doc(hidden)]
    pub fn loopback_for_tests() -> Self {
        Self { loopback: true, addresses: Vec::new() }
    }

    fn contains(&self, url: &Url, address: IpAddr) -> bool {
        let port = url.port_or_known_default();
        port.is_some_and(|port| self.addresses.contains(&SocketAddr::new(address, port)))
    }

    fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        if self.loopback && address == IpAddr::from([127, 0, 0, 1]) { None } else { refusal(address) }
    }
}

/// Why a URL or address is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressRefused(pub(super) String);

impl fmt::Display for AddressRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for AddressRefused {}

/// Resolves names and checks addresses. It is the client's only resolver, so no name is resolved unchecked.
#[derive(Clone)]
pub(super) struct AddressGuard {
    pub(super) resolver: Arc<dyn HostResolver>,
    pub(super) allowed: AllowedAddrs,
}

impl AddressGuard {
    /// Checks a URL without resolving its name: scheme, credentials, and a literal IP address. `raw` is the unparsed URL, and
    /// `from` the URL that redirected to it.
    pub(super) fn check(&self, url: &Url, raw: &str, from: Option<&Url>) -> Result<(), AddressRefused> {
        let refuse = |why: String| Err(AddressRefused(why));
        if !["http", "https"].contains(&url.scheme()) {
            return refuse(format!("`{}` is not http or https", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("the URL contains a user name or password".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
            return Ok(());
        };
        let same_origin = from.is_none_or(|from| from.origin() == url.origin());
        if let Some(why) =
            self.allowed.refusal(address).filter(|_| !(same_origin && self.allowed.contains(url, address)))
        {
            return refuse(format!("{address} {why}"));
        }
        // Octal, hexadecimal and shortened forms have no legitimate use.
        if address.is_ipv4() && raw.contains("//") && !raw.contains(&address.to_string()) {
            return refuse(format!("{address} is written in an unusual form"));
        }
        Ok(())
    }

    async fn checked_addresses(
        self,
        host: String,
    ) -> Result<Vec<SocketAddr>, Box<dyn StdError + Send + Sync>> {
        let found = self.resolver.resolve(host.clone()).await?;
        // One refused address is enough to refuse the name, because the client may connect to any of them.
        for address in &found {
            if let Some(why) = self.allowed.refusal(*address) {
                return Err(AddressRefused(format!("{host} is {address}, which {why}")).into());
            }
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

impl Resolve for AddressGuard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found = guard.checked_addresses(host).await?;
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

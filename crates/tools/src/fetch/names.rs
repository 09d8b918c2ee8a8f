//! Names become addresses once for each connection, and the connection goes to those that were checked.

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

/// Where the addresses of a name come from.
pub trait Names: Send + Sync {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's own way.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Which addresses may be reached beside those of the open Internet.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    loopback: bool,
    places: Vec<SocketAddr>,
}

impl Allowed {
    /// These very addresses, written as such: no name leads there, and no redirect of anybody else.
    pub fn places(places: Vec<SocketAddr>) -> Self {
        Self { loopback: false, places }
    }

    /// This machine too, where tests keep their servers.
    #[doc(hidden)]
    pub fn loopback_for_tests() -> Self {
        Self { loopback: true, places: Vec::new() }
    }

    fn holds(&self, url: &Url, address: IpAddr) -> bool {
        url.port_or_known_default().is_some_and(|port| self.places.contains(&SocketAddr::new(address, port)))
    }

    fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        if self.loopback && address == IpAddr::from([127, 0, 0, 1]) { None } else { refusal(address) }
    }
}

/// A place that is not reached, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused(pub(super) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Refused {}

/// Resolves and checks. It is the client's only way to an address, so that nothing is looked up a second time.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) names: Arc<dyn Names>,
    pub(super) allowed: Allowed,
}

impl Guard {
    /// Checks what needs no look-up: scheme, form, and an address in the place of a name. `raw` is the text it came from,
    /// `from` where a redirect comes from.
    pub(super) fn check(&self, url: &Url, raw: &str, from: Option<&Url>) -> Result<(), Refused> {
        let refuse = |why: String| Err(Refused(why));
        if !["http", "https"].contains(&url.scheme()) {
            return refuse(format!("`{}` is not http or https", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("the address has a user or a password in it".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
            return Ok(());
        };
        let is_own = from.is_none_or(|from| from.origin() == url.origin());
        if let Some(why) =
            self.allowed.refusal(address).filter(|_| !(is_own && self.allowed.holds(url, address)))
        {
            return refuse(format!("{address} {why}"));
        }
        // Numbers in other forms are written by those who want them overlooked.
        if address.is_ipv4() && raw.contains("//") && !raw.contains(&address.to_string()) {
            return refuse(format!("{address} is written in an unusual form"));
        }
        Ok(())
    }

    async fn addresses(self, host: String) -> Result<Vec<SocketAddr>, Box<dyn StdError + Send + Sync>> {
        let found = self.names.addresses(host.clone()).await?;
        // One bad address among good ones is enough: which of them is taken is a matter of luck.
        for address in &found {
            if let Some(why) = self.allowed.refusal(*address) {
                return Err(Refused(format!("{host} is {address}, which {why}")).into());
            }
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found = guard.addresses(host).await?;
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

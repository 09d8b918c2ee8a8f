//! The listener of `lango serve`: its address, access control, and the lines that announce it.

use crate::{args::ServeArgs, config::Settings, screen};
use anyhow::bail;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{
    AccessControl, ServerListener,
    auth::{Authenticator, login},
    host_policy::HostPolicy,
    tls,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::TcpListener;

/// Refuses `--no-auth` on an address that other machines can reach.
pub(super) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    if args.no_auth && !args.host.is_loopback() {
        bail!(
            "other machines can reach {}: omit --no-auth and create tokens with lango token add, or listen on 127.0.0.1",
            args.host
        );
    }
    Ok(())
}

pub(super) fn open(
    settings: &Settings,
    args: &ServeArgs,
    listener: TcpListener,
    address: SocketAddr,
) -> anyhow::Result<(ServerListener, AccessControl)> {
    let configured = &settings.server;
    let from_args = args.tls_cert.clone().zip(args.tls_key.clone());
    let files = from_args.or_else(|| configured.tls.clone());
    let tls =
        files.map(|(certificates, key)| tls::acceptor(&certificates, &key, screen::note)).transpose()?;
    let jwt = configured.jwt.clone().map(|jwt| (jwt, screen::note as fn(&str)));
    let auth = if args.no_auth { None } else { Some(Authenticator::open(&settings.home, jwt)?) };
    let guard = HostPolicy {
        address,
        tls: tls.is_some(),
        hosts: [configured.hosts.clone(), args.allowed_hosts.clone()].concat(),
        origins: configured.origins.clone(),
        proxies: configured.proxies.clone(),
    };
    let limits = configured.limits.clone();
    raise_file_limit(limits.connections);
    let proxies = configured.proxies.clone();
    let listener = ServerListener { listener, tls, limits: limits.clone(), proxies };
    Ok((listener, AccessControl::new(guard, auth, limits)))
}

/// Raises the soft limit of open files up to the hard limit: each connection is an open file, and the default soft limit of a
/// shell is too low for a busy server.
fn raise_file_limit(connections: usize) {
    const OTHER_FILES: u64 = 256;
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    let wanted = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if limit.current.is_some_and(|now| now < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// The lines with the server's addresses.
pub(super) struct Announcement {
    access: AccessControl,
    address: SocketAddr,
    scheme: &'static str,
}

impl Announcement {
    pub(super) fn new(access: AccessControl, address: SocketAddr, tls: bool) -> Self {
        Self { access, address, scheme: if tls { "https" } else { "http" } }
    }

    /// Prints the address that the server listens on. Programs parse the line.
    pub(super) fn print_address(&self) {
        let Self { scheme, address, .. } = self;
        if *scheme == "http" && !address.ip().is_loopback() {
            screen::note(
                "without --tls-cert tokens are sent unencrypted: only a proxy of yours should reach this address",
            );
        }
        screen::note(&format!("listening on {scheme}://{address}"));
    }

    /// Prints a link to ADK's web page, or to the description of the API if the page is not installed.
    pub(super) fn print_link(&self, has_page: bool) {
        let url = format!("{}://{}", self.scheme, reachable(self.address));
        if !has_page {
            screen::note(&format!(
                "open {url}/docs in a browser for the API; ADK's web page is not installed: install google-adk, or pass its directory with --dev-ui"
            ));
            return;
        }
        match self.access.authenticator().map(Authenticator::issue_login_code) {
            Some(Ok(code)) => {
                let link = login::login_path(&code);
                screen::note(&format!(
                    "open {url}{link} in a browser; the link works once, within ten minutes"
                ));
            }
            Some(Err(error)) => screen::note(&format!("a login link cannot be created: {error}")),
            None => {
                screen::note(&format!("open {url}/ in a browser; every program on this machine has access"));
            }
        }
    }
}

/// The address under which a browser of this machine reaches the server: loopback if it listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

//! The listen of `lango serve`: where it is, who may come in, and what is said about it.

use crate::{args::ServeArgs, config::Settings, screen};
use anyhow::bail;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{
    AccessControl, ServerListener,
    auth::{Authenticator, login},
    host_policy::HostPolicy,
    tls,
};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// An address that others reach is not left open.
pub(super) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    if args.no_auth && !args.host.is_loopback() {
        bail!(
            "{} can be reached by others: leave out --no-auth and give them tokens with lango token add, or listen on \
             127.0.0.1",
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
    let given = args.tls_cert.clone().zip(args.tls_key.clone());
    let files = given.or_else(|| configured.tls.clone());
    let tls =
        files.map(|(certificates, key)| tls::acceptor(&certificates, &key, screen::note)).transpose()?;
    let auth =
        if args.no_auth { None } else { Some(Authenticator::open(&settings.home, configured.jwt.clone())?) };
    let guard = HostPolicy {
        address,
        tls: tls.is_some(),
        hosts: [configured.hosts.clone(), args.allowed_hosts.clone()].concat(),
        origins: configured.origins.clone(),
        proxies: configured.proxies.clone(),
    };
    let limits = configured.limits.clone();
    make_room(limits.connections);
    Ok((ServerListener { listener, tls, limits: limits.clone() }, AccessControl::new(guard, auth, limits)))
}

/// Each connection is an open file, and the usual limit of a shell is less than a busy server has. As far as the system lets us.
fn make_room(connections: usize) {
    const OTHER_FILES: u64 = 256;
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    let wanted = limit.maximum.map_or(wanted, |most| wanted.min(most));
    if limit.current.is_some_and(|now| now < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// Says where the server is, with a link that lets one browser in.
pub(super) fn greet(access: &AccessControl, address: SocketAddr, tls: bool) -> anyhow::Result<()> {
    let (scheme, port) = (if tls { "https" } else { "http" }, address.port());
    let here = match address.ip() {
        every if every.is_unspecified() => format!("{scheme}://127.0.0.1:{port}"),
        _ => format!("{scheme}://{address}"),
    };
    if !tls && !address.ip().is_loopback() {
        screen::note(
            "without --tls-cert tokens travel in the clear: let nobody but a proxy of yours reach this address",
        );
    }
    screen::note(&format!("listening on {here}"));
    match access.authenticator() {
        Some(auth) => {
            let link = login::login_path(&auth.issue_login_code()?);
            screen::note(&format!("open {here}{link} in a browser; the link is good once, for ten minutes"));
        }
        None => screen::note(&format!("open {here}/ in a browser; every program of this machine may use it")),
    }
    Ok(())
}

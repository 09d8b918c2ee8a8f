//! The way out: one client per endpoint, with the system's proxies and certificates, and no way around the configured address.

use super::trouble::root_cause;
use reqwest::{Certificate, Client, Url, redirect::Policy};
use std::{net::IpAddr, path::Path, sync::Once, time::Duration};

const USER_AGENT: &str = concat!("lango/", env!("CARGO_PKG_VERSION"));

/// A client for one address. It has no limit for a whole answer, which may take as long as its model thinks.
///
/// `extra` are certificates that are trusted beside the system's.
pub fn build_client(url: &Url, extra: &[Certificate], connect: Duration) -> Result<Client, String> {
    install_crypto();
    let builder = || {
        let builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(connect)
            // A redirect would carry the key and the conversation to an address that nobody configured.
            .redirect(Policy::none());
        if is_loopback(url) { builder.no_proxy() } else { builder }
    };
    let trusting_the_system = || builder().tls_certs_merge(extra.to_vec()).build();
    let trusting_nobody_else = || builder().tls_certs_only(extra.to_vec()).build();
    let client = match url.scheme() {
        // To read the system's certificates takes longer than all else here.
        "http" if is_loopback(url) => trusting_nobody_else(),
        // A proxy may be reached by TLS; a small container has no certificates and needs none.
        "http" => trusting_the_system().or_else(|_| trusting_nobody_else()),
        _ => trusting_the_system(),
    };
    client.map_err(|error| format!("{}; certificates can be given as ca_file", root_cause(&error)))
}

fn install_crypto() {
    static ONCE: Once = Once::new();
    // Whoever was first has installed one; that is all that is needed.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// Whether the address is on this machine, where no proxy belongs in between.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The certificates of a PEM file.
pub(crate) fn certificates(file: &Path) -> Result<Vec<Certificate>, String> {
    let pem = std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(_) => Err(format!("{} holds no certificate in PEM format", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_names() {
        let is = |url: &str| is_loopback(&Url::parse(url).unwrap());
        for url in [
            "http://127.0.0.1:1/v1",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://LOCALHOST",
            "http://a.localhost",
        ] {
            assert!(is(url), "{url}");
        }
        for url in
            ["http://10.0.0.1", "http://localhost.example.com", "https://api.example.com", "http://[::2]"]
        {
            assert!(!is(url), "{url}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        assert!(certificates(&file).unwrap_err().contains("ca.pem cannot be read: "));
        std::fs::write(&file, "-----BEGIN NOTHING-----").unwrap();
        assert!(certificates(&file).unwrap_err().ends_with("ca.pem holds no certificate in PEM format"));
    }
}

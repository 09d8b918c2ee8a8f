//! HTTP clients: one per endpoint, with the system's proxies and certificates, and without redirects.

use super::transport_error::root_cause;
use reqwest::{Certificate, Client, Url, redirect::Policy};
use std::{net::IpAddr, path::Path, sync::Once, time::Duration};

const USER_AGENT: &str = concat!("lango/", env!("CARGO_PKG_VERSION"));

/// Builds a client for one URL. It has no timeout for a whole response, because a model may think for minutes.
///
/// `extra` holds certificates that are trusted in addition to the system's.
pub fn build_client(url: &Url, extra: &[Certificate], connect_timeout: Duration) -> Result<Client, String> {
    install_crypto_provider();
    let builder = || {
        let builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(connect_timeout)
            // A redirect would send the API key and the conversation to a URL that is not configured.
            .redirect(Policy::none());
        if is_loopback(url) { builder.no_proxy() } else { builder }
    };
    let with_system_certificates = || builder().tls_certs_merge(extra.to_vec()).build();
    let with_extra_certificates_only = || builder().tls_certs_only(extra.to_vec()).build();
    let client = match url.scheme() {
        // Skip the system's certificates: loading them takes longer than everything else here.
        "http" if is_loopback(url) => with_extra_certificates_only(),
        // The proxy may use TLS. A minimal container has no certificates, and plain HTTP needs none.
        "http" => with_system_certificates().or_else(|_| with_extra_certificates_only()),
        _ => with_system_certificates(),
    };
    client.map_err(|error| format!("{}; set ca_file to add CA certificates", root_cause(&error)))
}

fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    // An error means that a crypto provider is installed already.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// Whether the host is this machine, for which no proxy applies.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Reads the certificates of a PEM file.
pub(crate) fn read_certificates(file: &Path) -> Result<Vec<Certificate>, String> {
    let pem = std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(_) => Err(format!("{} contains no certificate in PEM format", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_loopback_accepts_addresses_and_localhost_names() {
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
    fn unusable_certificate_file_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        assert!(read_certificates(&file).unwrap_err().contains("ca.pem cannot be read: "));
        std::fs::write(&file, "-----BEGIN NOTHING-----").unwrap();
        assert!(
            read_certificates(&file).unwrap_err().ends_with("ca.pem contains no certificate in PEM format")
        );
    }
}

//! TLS from certificate files, with rustls and ring.

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Once},
};
use tokio_rustls::TlsAcceptor;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} holds no certificate in PEM format that can be read", .0.display())]
    Certificate(PathBuf),
    #[error("{} holds no private key in PEM format that can be read", .0.display())]
    Key(PathBuf),
    #[error("the certificate and its key cannot be used: {0}")]
    Pair(#[from] rustls::Error),
}

/// What a connection begins with: the certificates of one file, the first of them the server's own, and its key.
pub fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let broken = || TlsError::Certificate(certificates.to_path_buf());
    let all = CertificateDer::pem_file_iter(certificates).map_err(|_| broken())?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|_| broken())?;
    if all.is_empty() {
        return Err(broken());
    }
    // What was wrong in it is not repeated: it may be the key.
    let key = PrivateKeyDer::from_pem_file(key).map_err(|_| TlsError::Key(key.to_path_buf()))?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(all, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Clients find their primitives in a place of the whole process.
pub(crate) fn install_crypto() {
    static ONCE: Once = Once::new();
    // Whoever was first has installed the same.
    ONCE.call_once(|| drop(ring::default_provider().install_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_named_and_a_key_is_not_repeated() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key.pem");
        std::fs::write(&path, "-----BEGIN PRIVATE KEY-----\ncanary\n").unwrap();
        let error = acceptor(&path, &path).err().unwrap().to_string();
        assert!(error.contains("key.pem holds no certificate"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

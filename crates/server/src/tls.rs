//! TLS from certificate files, with rustls and ring. PemFiles that change on disk are read again with the next connection.

use crate::observe::LogSink;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Once, PoisonError, RwLock},
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

/// What a connection begins with: the certificates of one file, the first of them the server's own, and its key. When they
/// change, new connections get the new ones; a pair that is broken by then is told, and the one from before stays.
pub fn acceptor(certificates: &Path, key: &Path, tell: LogSink) -> Result<TlsAcceptor, TlsError> {
    let files = PemFiles { certificates: certificates.to_path_buf(), key: key.to_path_buf() };
    let current = LoadedCertificate { stamps: files.stamps(), pair: files.read()? };
    let pair = Arc::new(ReloadingCertificate { files, current: RwLock::new(current), tell });
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(pair);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

struct PemFiles {
    certificates: PathBuf,
    key: PathBuf,
}

/// Tells one content of a file from another, also where its time was set by hand.
type PemRevision = Option<(u64, u64, i64, i64)>;

impl PemFiles {
    fn stamps(&self) -> [PemRevision; 2] {
        let stamp = |path: &Path| -> io::Result<_> {
            let file = fs::metadata(path)?;
            Ok((file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
        };
        [stamp(&self.certificates).ok(), stamp(&self.key).ok()]
    }

    fn read(&self) -> Result<Arc<CertifiedKey>, TlsError> {
        let broken = || TlsError::Certificate(self.certificates.clone());
        let all = CertificateDer::pem_file_iter(&self.certificates).map_err(|_| broken())?;
        let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|_| broken())?;
        if all.is_empty() {
            return Err(broken());
        }
        // What was wrong in it is not repeated: it may be the key.
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|_| TlsError::Key(self.key.clone()))?;
        Ok(Arc::new(CertifiedKey::from_der(all, key, &ring::default_provider())?))
    }
}

/// A certificate with its key, as the files said last.
struct ReloadingCertificate {
    files: PemFiles,
    current: RwLock<LoadedCertificate>,
    tell: LogSink,
}

struct LoadedCertificate {
    stamps: [PemRevision; 2],
    pair: Arc<CertifiedKey>,
}

impl ReloadingCertificate {
    /// The pair if it is still that of the files.
    fn fresh(&self, stamps: [PemRevision; 2]) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        (current.stamps == stamps).then(|| Arc::clone(&current.pair))
    }

    fn read_again(&self, stamps: [PemRevision; 2]) -> Arc<CertifiedKey> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Another connection may have read them by now.
        if current.stamps != stamps {
            current.stamps = stamps;
            match self.files.read() {
                Ok(pair) => {
                    current.pair = pair;
                    (self.tell)("the certificate has changed; new connections get the new one");
                }
                Err(problem) => (self.tell)(&format!("{problem}; the certificate from before stays")),
            }
        }
        Arc::clone(&current.pair)
    }
}

impl ResolvesServerCert for ReloadingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let stamps = self.files.stamps();
        Some(self.fresh(stamps).unwrap_or_else(|| self.read_again(stamps)))
    }
}

/// No key is printed.
impl fmt::Debug for ReloadingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadingCertificate")
            .field("certificates", &self.files.certificates)
            .finish_non_exhaustive()
    }
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
        fs::write(&path, "-----BEGIN PRIVATE KEY-----\ncanary\n").unwrap();
        let error = acceptor(&path, &path, |_| ()).err().unwrap().to_string();
        assert!(error.contains("key.pem holds no certificate"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

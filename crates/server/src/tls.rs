//! TLS with rustls and ring. Certificate files that change on disk are reloaded with the next connection.

use crate::instrument::LogSink;
use file_stamp::FileStamp;
use lock::RwLockExt;
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
    sync::{Arc, Once, RwLock},
};
use tokio_rustls::TlsAcceptor;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} contains no valid certificate in PEM format", .0.display())]
    Certificate(PathBuf),
    #[error("{} contains no valid private key in PEM format", .0.display())]
    Key(PathBuf),
    #[error("the certificate and the private key are not usable: {0}")]
    Pair(#[from] rustls::Error),
}

/// An acceptor with a certificate chain, leaf first, and its private key. When the files change, new connections use the new
/// pair; if it is invalid, the previous one stays in use. `log` receives both outcomes.
pub fn acceptor(certificates: &Path, key: &Path, log: LogSink) -> Result<TlsAcceptor, TlsError> {
    let files = PemFiles { certificates: certificates.to_path_buf(), key: key.to_path_buf() };
    let current = LoadedCertificate { revisions: files.revisions(), pair: files.read()? };
    let resolver = Arc::new(ReloadingCertificate { files, current: RwLock::new(current), log });
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

struct PemFiles {
    certificates: PathBuf,
    key: PathBuf,
}

/// With the change time: differs between two contents of a file, even if its modification time was restored.
type PemRevision = Option<(FileStamp, i64, i64)>;

impl PemFiles {
    fn revisions(&self) -> [PemRevision; 2] {
        let revision = |path: &Path| -> io::Result<_> {
            let file = fs::metadata(path)?;
            Ok((FileStamp::from(&file), file.ctime(), file.ctime_nsec()))
        };
        [revision(&self.certificates).ok(), revision(&self.key).ok()]
    }

    fn read(&self) -> Result<Arc<CertifiedKey>, TlsError> {
        let invalid = || TlsError::Certificate(self.certificates.clone());
        let chain = CertificateDer::pem_file_iter(&self.certificates).map_err(|_| invalid())?;
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|_| invalid())?;
        if chain.is_empty() {
            return Err(invalid());
        }
        // The parser's error is dropped: it may quote the key.
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|_| TlsError::Key(self.key.clone()))?;
        Ok(Arc::new(CertifiedKey::from_der(chain, key, &ring::default_provider())?))
    }
}

/// Resolves to the newest valid pair of the files.
struct ReloadingCertificate {
    files: PemFiles,
    current: RwLock<LoadedCertificate>,
    log: LogSink,
}

struct LoadedCertificate {
    revisions: [PemRevision; 2],
    pair: Arc<CertifiedKey>,
}

impl ReloadingCertificate {
    /// The loaded pair, if the files have not changed.
    fn cached(&self, revisions: [PemRevision; 2]) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read_locked();
        (current.revisions == revisions).then(|| Arc::clone(&current.pair))
    }

    fn reload(&self, revisions: [PemRevision; 2]) -> Arc<CertifiedKey> {
        let mut current = self.current.write_locked();
        // Another connection may have reloaded them meanwhile.
        if current.revisions != revisions {
            current.revisions = revisions;
            match self.files.read() {
                Ok(pair) => {
                    current.pair = pair;
                    (self.log)("certificate reloaded; new connections use it");
                }
                Err(error) => (self.log)(&format!("{error}; the previous certificate stays in use")),
            }
        }
        Arc::clone(&current.pair)
    }
}

impl ResolvesServerCert for ReloadingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let revisions = self.files.revisions();
        Some(self.cached(revisions).unwrap_or_else(|| self.reload(revisions)))
    }
}

/// Without the private key.
impl fmt::Debug for ReloadingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadingCertificate")
            .field("certificates", &self.files.certificates)
            .finish_non_exhaustive()
    }
}

/// Installs the process-wide crypto provider, which HTTP clients use.
pub(crate) fn install_crypto() {
    static ONCE: Once = Once::new();
    // It fails if another part of the process has installed the same provider before.
    ONCE.call_once(|| drop(ring::default_provider().install_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_file_and_does_not_quote_the_key() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key.pem");
        fs::write(&path, "-----BEGIN PRIVATE KEY-----\ncanary\n").unwrap();
        let error = acceptor(&path, &path, |_| ()).err().unwrap().to_string();
        assert!(error.contains("key.pem contains no valid certificate"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

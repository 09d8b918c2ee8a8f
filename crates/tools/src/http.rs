//! Functions shared by the HTTP clients of `fetch` and `mcp`.

use std::{error::Error, sync::Once};

/// Installs the TLS crypto provider of the process, unless it has one already.
pub(crate) fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// The text of the innermost cause, which is the most specific one.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

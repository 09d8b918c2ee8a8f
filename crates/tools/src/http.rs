//! Functions shared by the HTTP clients of `fetch` and `mcp`.

use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::{error::Error, sync::Once};

/// Installs the TLS crypto provider of the process, unless it has one already.
pub(crate) fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// The text of the innermost cause. Unlike outer ones it does not contain the URL, which may be a secret.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    loop {
        // rmcp's error does not name its source.
        cause = match (cause.downcast_ref::<StreamableHttpError<reqwest::Error>>(), cause.source()) {
            (Some(StreamableHttpError::Client(inner)), _) => inner,
            (_, Some(inner)) => inner,
            (_, None) => return cause.to_string(),
        };
    }
}

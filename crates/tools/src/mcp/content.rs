//! Content of a server that a person adds to a message, such as a resource by its URI. It is bounded, and its secrets are redacted.

use std::{io::Read, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use rmcp::{
    ServiceError,
    model::{ReadResourceRequestParams, ResourceContents},
};
use tokio::time::timeout;

use super::{OfferKind, failure::request_failure, server::McpServer, servers::McpServers};
use crate::{
    ToolsError,
    outputs::{CapturedOutput, HandleKind, OutputCapture, to_plain_text},
};

/// Size limit of a file in a message, in base64.
const MAX_FILE: u64 = 4 << 20;
/// Size limit of all files of one resource, in base64.
const MAX_FILES: usize = 8 << 20;
/// Limit for a resource that is a whole directory.
const MAX_PARTS: usize = 50;

/// Content for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpContent {
    /// The server is trusted, so the content is not untrusted text.
    pub trusted: bool,
    pub parts: Vec<McpPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpPart {
    Text(String),
    File {
        mime_type: String,
        /// Base64.
        data: String,
    },
}

impl McpPart {
    fn file_size(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::File { data, .. } => data.len(),
        }
    }
}

impl McpServers {
    /// The names of all servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|server| server.config.name.as_str())
    }

    pub(super) fn find(&self, server: &str) -> Result<&Arc<McpServer>, ToolsError> {
        let found = self.iter().find(|known| known.config.name == server);
        found.ok_or_else(|| ToolsError::Failed(format!("there is no MCP server `{server}`")))
    }

    /// Whether the server lists a resource with this URI. Servers may return others, too.
    pub async fn lists_resource(&self, server: &str, uri: &str) -> Result<bool, ToolsError> {
        let offers = self.find(server)?.offers().await;
        Ok(offers.iter().any(|offer| offer.kind == OfferKind::Resource && offer.name == uri))
    }

    /// Reads a resource. Starts the server if needed.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<McpContent, ToolsError> {
        let found = self.find(server)?;
        found.read_resource(uri).await.map_err(|why| ToolsError::Failed(found.env.mask.apply(why)))
    }
}

impl McpServer {
    async fn read_resource(&self, uri: &str) -> Result<McpContent, String> {
        let (connection, what) = (self.connection().await?, format!("the resource `{uri}`"));
        let request = connection.peer().read_resource(ReadResourceRequestParams::new(uri));
        let contents = self.response(&what, request).await?.contents;
        let parts = contents.into_iter().map(|contents| self.resource_part(contents));
        self.content(&what, parts)
    }

    /// The response to a request for `what`.
    pub(super) async fn response<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, String> {
        let limit = self.config.call_time;
        match timeout(limit, request).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => {
                Err(self.describe(&format!("did not return {what}: {}", request_failure(&error))))
            }
            Err(_) => Err(self.describe(&format!("did not return {what} within {} s", limit.as_secs_f64()))),
        }
    }

    /// The content of `what`, if it is not empty and not too large.
    pub(super) fn content(
        &self,
        what: &str,
        parts: impl Iterator<Item = Result<McpPart, String>>,
    ) -> Result<McpContent, String> {
        let parts: Result<Vec<McpPart>, String> = parts.take(MAX_PARTS).collect();
        let parts = parts.map_err(|why| self.describe(&format!("returned {what}, but {why}")))?;
        if parts.is_empty() {
            return Err(self.describe(&format!("returned no content for {what}")));
        }
        let size: usize = parts.iter().map(McpPart::file_size).sum();
        if size > MAX_FILES {
            let why =
                format!("returned {what}, but its files are too large for a message: {size} bytes of base64");
            return Err(self.describe(&why));
        }
        Ok(McpContent { trusted: self.config.trusted, parts })
    }

    pub(super) fn resource_part(&self, contents: ResourceContents) -> Result<McpPart, String> {
        match contents {
            ResourceContents::TextResourceContents { text, .. } => Ok(McpPart::Text(self.bounded(&text))),
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                self.file_part(mime_type.as_deref().unwrap_or("application/octet-stream"), blob)
            }
            _ => Err("its kind is not supported".to_owned()),
        }
    }

    /// The text if it is short, else its head and tail, and the handle of the whole.
    pub(super) fn bounded(&self, text: &str) -> String {
        let captured = self.spilled.take(text).unwrap_or_else(|| {
            let mut capture = OutputCapture::new(self.env.outputs.clone());
            capture.push(text.as_bytes());
            capture.finish()
        });
        let CapturedOutput { bytes, text, binary, handle, .. } = captured;
        let text = binary.map_or(text, |kind| format!("[{kind}]"));
        match handle {
            Some(handle) => format!("{text}\n[{bytes} bytes, stored as {handle}]"),
            None => text,
        }
    }

    pub(super) fn file_part(&self, mime_type: &str, mut data: String) -> Result<McpPart, String> {
        if let Some(CapturedOutput { bytes, handle, .. }) = self.spilled.take(&data) {
            check_size(bytes)?;
            data.clear();
            let stored = self.env.outputs.open(HandleKind::Output, &handle.unwrap_or_default());
            let read = stored.map(|mut file| file.read_to_string(&mut data));
            if !matches!(read, Ok(Ok(_))) {
                return Err("a file of it could not be stored".to_owned());
            }
        }
        check_size(data.len() as u64)?;
        if BASE64_STANDARD.decode(&data).is_err() {
            return Err("a file of it is not valid base64".to_owned());
        }
        Ok(McpPart::File { mime_type: plain(mime_type), data })
    }
}

fn check_size(bytes: u64) -> Result<(), String> {
    if bytes <= MAX_FILE {
        return Ok(());
    }
    Err(format!("a file of it is too large for a message: {bytes} bytes of base64, the limit is {MAX_FILE}"))
}

pub(super) fn plain(text: &str) -> String {
    to_plain_text(text.as_bytes())
}

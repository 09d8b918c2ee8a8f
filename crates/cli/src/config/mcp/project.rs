//! The `.mcp.json` of a project: its servers, or why it cannot be used.

use super::{PROJECT_FILE, Sources, TransportConfig, is_sandboxed};
use crate::{
    config::{parser_message::plain_message, source::SettingsOrigin},
    screen::strip_os_error,
};
use ::tools::mcp::{McpServerConfig, McpTransport};
use serde::Deserialize;
use serde_json::{Value, error::Category};
use std::{collections::BTreeMap, io, path::PathBuf};

/// The project file. Unknown keys are ignored: other programs read it too.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProjectFile {
    mcp_servers: BTreeMap<String, ProjectServer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectServer {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(flatten)]
    transport: TransportConfig,
    disabled: bool,
}

/// The project file of the working directory as it was read.
#[derive(Clone, Debug)]
pub(in crate::config) struct ProjectSource {
    file: PathBuf,
    /// The content, or why it cannot be parsed.
    content: Result<Value, String>,
}

/// The location of a JSON error and its message without terms of the library.
fn json_message(error: &serde_json::Error) -> String {
    let message = match error.classify() {
        Category::Eof => "the file ends before its JSON does".to_owned(),
        Category::Syntax | Category::Io => "this is not valid JSON".to_owned(),
        Category::Data => {
            let text = error.to_string();
            plain_message(text.rsplit_once(" at line ").map_or(&*text, |(message, _)| message))
        }
    };
    match error.line() {
        0 => message,
        line => format!("line {line}, column {}: {message}", error.column().max(1)),
    }
}

impl ProjectSource {
    /// Parses the file, or records why it cannot be read.
    pub(in crate::config) fn new(file: PathBuf, text: io::Result<String>) -> Self {
        let content = match text {
            Ok(text) => serde_json::from_str(&text).map_err(|error| json_message(&error)),
            Err(error) => Err(strip_os_error(&error.to_string())),
        };
        Self { file, content: content.and_then(check_shape) }
    }

    pub(in crate::config) fn value(&self) -> Option<&Value> {
        self.content.as_ref().ok()
    }

    pub(in crate::config) fn has_servers(&self) -> bool {
        let servers = self.value().and_then(|value| value.get("mcpServers")).and_then(Value::as_object);
        servers.is_some_and(|servers| !servers.is_empty())
    }
}

/// Refuses what would be read as a file without servers.
fn check_shape(content: Value) -> Result<Value, String> {
    let Value::Object(keys) = &content else { return Err("it is not a JSON object".to_owned()) };
    let is_misspelled = |key: &&String| {
        *key != "mcpServers" && key.replace(['_', '-'], "").eq_ignore_ascii_case("mcpservers")
    };
    match keys.keys().find(is_misspelled) {
        Some(key) => Err(format!("it has the key `{key}`; write `mcpServers`")),
        None => Ok(content),
    }
}

impl ProjectSource {
    /// The servers of the file, and their secrets. An invalid file becomes one unavailable server, so that it does not stop the
    /// program.
    pub(super) fn resolve(self, sources: Sources<'_>) -> (Vec<McpServerConfig>, Vec<String>) {
        let origin = self.file.display().to_string();
        let parse =
            |value| serde_json::from_value::<ProjectFile>(value).map_err(|error| json_message(&error));
        let read = match self.content.and_then(parse) {
            Ok(read) => read,
            Err(error) => {
                let transport =
                    McpTransport::Unavailable(format!("{PROJECT_FILE} cannot be parsed: {error}"));
                let server = McpServerConfig { origin, ..McpServerConfig::new(PROJECT_FILE, transport) };
                return (vec![server], Vec::new());
            }
        };
        let secrets =
            read.mcp_servers.values().flat_map(|server| server.transport.secrets(sources.env)).collect();
        let wanted = read.mcp_servers.into_iter().filter(|(_, server)| !server.disabled);
        let resolve = |(name, server): (String, ProjectServer)| {
            let transport = server.transport.resolve(server.kind.as_deref(), sources.workdir, sources);
            let sandboxed = is_sandboxed(None, SettingsOrigin::Folder);
            McpServerConfig { origin: origin.clone(), sandboxed, ..McpServerConfig::new(&name, transport) }
        };
        (wanted.map(resolve).collect(), secrets)
    }
}

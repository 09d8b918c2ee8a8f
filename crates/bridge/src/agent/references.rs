//! References of a message to resources of MCP servers, `@server:uri`, and to prompts, `/server:prompt name=value`. Their content is added to the message before it is
//! stored, and content of a server that is not trusted marks the session as untrusted in the same commit.

mod prompt_command;

use self::prompt_command::PromptCommand;
use super::Agent;
use crate::tools::guard::{GUEST, UNTRUSTED};
use adk::{
    content::{Blob, Content, Part},
    error::RunError,
    runner::{Input, RunRequest},
};
use serde_json::Value;
use std::{fmt, sync::Arc};
use tools::{
    ToolsError,
    mcp::{McpContent, McpPart, McpServers},
};

/// Limit of the references in one message.
const MAX_REFERENCES: usize = 10;

/// Separates what a person wrote from piped input in the text of a message. What follows it refers to nothing.
pub const PIPED_INPUT: &str = "\n\nStandard input:\n";

/// The servers that a message may refer to.
pub struct References {
    servers: Arc<McpServers>,
    /// The servers whose tools the agents of the app may use.
    usable: Vec<String>,
}

/// The parts to be added to a message, and the first server that returned untrusted ones.
type AddedParts = (Vec<Part>, Option<String>);

/// A resource that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ResourceReference<'m> {
    server: &'m str,
    uri: &'m str,
}

impl References {
    pub fn new(servers: Arc<McpServers>, usable: Vec<String>) -> Self {
        Self { servers, usable }
    }

    async fn content_of(&self, message: &Content, is_guest: bool) -> Result<AddedParts, String> {
        // Only the first text is written by a person: the others may be files.
        let Some(text) = message.parts.iter().find_map(Part::as_text) else { return Ok((Vec::new(), None)) };
        let text = text.split_once(PIPED_INPUT).map_or(text, |(written, _)| written);
        let names: Vec<&str> = self.servers.names().collect();
        if let Some(command) = PromptCommand::parse(text, &names)? {
            return self.prompt(command).await;
        }
        let references = find_references(text, &names);
        if references.len() > MAX_REFERENCES {
            let count = references.len();
            return Err(format!("it names {count} resources; at most {MAX_REFERENCES} are possible"));
        }
        let (mut parts, mut untrusted) = (Vec::new(), None);
        for ResourceReference { server, uri } in references {
            self.authorize((server, uri), is_guest).await?;
            let content = self.servers.read_resource(server, uri).await.map_err(|error| error.to_string())?;
            if !content.trusted && untrusted.is_none() {
                untrusted = Some(server.to_owned());
            }
            parts.extend(marked(&format!("Resource {server}:{uri}"), content));
        }
        Ok((parts, untrusted))
    }

    async fn prompt(&self, command: PromptCommand<'_>) -> Result<AddedParts, String> {
        let PromptCommand { server, name, arguments } = command;
        self.check_usable(server)?;
        let content = self.servers.get_prompt(server, name, &arguments).await;
        let content = content.map_err(|error| error.to_string())?;
        let untrusted = (!content.trusted).then(|| server.to_owned());
        Ok((marked(&format!("Prompt {server}:{name}"), content), untrusted))
    }

    fn check_usable(&self, server: &str) -> Result<(), String> {
        if self.usable.iter().any(|usable| usable == server) {
            return Ok(());
        }
        Err(format!("the agents of this app do not use the MCP server `{server}`"))
    }

    /// A guest cannot approve calls of a server, so a guest reads only what the server lists.
    async fn authorize(&self, (server, uri): (&str, &str), is_guest: bool) -> Result<(), String> {
        self.check_usable(server)?;
        let text = |error: ToolsError| error.to_string();
        if is_guest && !self.servers.lists_resource(server, uri).await.map_err(text)? {
            return Err(format!(
                "the MCP server `{server}` does not list the resource `{uri}`, and only an administrator may name others"
            ));
        }
        Ok(())
    }
}

impl Agent {
    /// Adds the resources or the prompt that the message names.
    pub(super) async fn resolve_references(&self, mut request: RunRequest) -> Result<RunRequest, RunError> {
        let is_guest = request.state_delta.get(GUEST) == Some(&Value::Bool(true));
        let references = self.references.as_ref().filter(|references| !references.servers.is_empty());
        let (Some(references), Input::Message(message)) = (references, &mut request.input) else {
            return Ok(request);
        };
        // Boxed: most messages refer to nothing, and the future is large.
        let added = Box::pin(references.content_of(message, is_guest)).await;
        let (parts, untrusted) = added.map_err(|reason| RunError::UnresolvedReference { reason })?;
        message.parts.extend(parts);
        if let Some(server) = untrusted {
            request.state_delta.insert(UNTRUSTED.to_owned(), format!("from the MCP server {server}").into());
        }
        Ok(request)
    }
}

/// The content with a heading before each part.
fn marked(heading: &str, content: McpContent) -> Vec<Part> {
    let mut parts = Vec::new();
    for part in content.parts {
        match part {
            McpPart::Text(text) => parts.push(Part::text(format!("\n\n[{heading}]\n{text}"))),
            McpPart::File { mime_type, data } => {
                parts.push(Part::text(format!("\n\n[{heading}, {mime_type}]\n")));
                parts.push(Blob { data, mime_type: Some(mime_type), ..Blob::default() }.into());
            }
        }
    }
    parts
}

/// The resources that a text names, without repetitions. The `@` begins a word, so that e-mail addresses are text.
fn find_references<'m>(text: &'m str, servers: &[&'m str]) -> Vec<ResourceReference<'m>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        let begins_word =
            text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "([{\"'".contains(c));
        let rest = &text[at + 1..];
        let is_named = |server: &&&str| rest.strip_prefix(**server).is_some_and(|rest| rest.starts_with(':'));
        let named = servers.iter().filter(is_named).max_by_key(|server| server.len());
        let Some(server) = named.filter(|_| begins_word) else { continue };
        let reference = ResourceReference { server, uri: uri_at(&rest[server.len() + 1..]) };
        if !reference.uri.is_empty() && !found.contains(&reference) {
            found.push(reference);
        }
    }
    found
}

/// The URI at the start of a text: up to `>` if it begins with `<`, else up to a space, without the punctuation of the sentence.
fn uri_at(text: &str) -> &str {
    if let Some((uri, _)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return uri;
    }
    let mut uri = text.split(char::is_whitespace).next().unwrap_or_default();
    while let Some(last) = uri.chars().next_back() {
        let opening = match last {
            ')' => '(',
            ']' => '[',
            '}' => '{',
            '.' | ',' | ';' | ':' | '!' | '?' | '"' | '\'' => '\0',
            _ => break,
        };
        // A bracket that the URI opens belongs to it.
        if uri.matches(opening).count() >= uri.matches(last).count() {
            break;
        }
        uri = &uri[..uri.len() - last.len_utf8()];
    }
    uri
}

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("References").field("usable", &self.usable).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_a_server_and_a_uri_are_references() {
        for (text, uris) in [
            ("@notes:note://1", vec!["note://1"]),
            ("compare @notes:note://1, (@notes:note://2) and @notes:note://1.", vec!["note://1", "note://2"]),
            ("\"@notes:file:///a(1)\"?", vec!["file:///a(1)"]),
            ("[@notes:x://a?b=c&d]!", vec!["x://a?b=c&d"]),
            ("@notes:<x://with space.> is", vec!["x://with space."]),
            ("first\n@notes:note://1\nlast", vec!["note://1"]),
            ("write to me@notes:25 or bob@example.com", vec![]),
            ("@notes: and @notes and @other:x://1 and `@notes:x://1`", vec![]),
            ("@notes2:x://1 is another server", vec![]),
            ("@é @ @@notes:x", vec![]),
        ] {
            let found = find_references(text, &["notes", "note"]);
            assert_eq!(found.iter().map(|found| found.uri).collect::<Vec<_>>(), uris, "{text}");
            assert!(found.iter().all(|found| found.server == "notes"));
        }
    }
}

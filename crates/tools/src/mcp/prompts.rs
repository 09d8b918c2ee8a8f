//! Prompts of a server as content for a message. Arguments are checked against the list of the server before the request.

use rmcp::model::{ContentBlock, GetPromptRequestParams, Prompt, PromptMessage, Role};
use serde_json::{Map, Value};

use super::{McpContent, McpPart, McpServers, content::plain, offers::list_prompts, server::McpServer};
use crate::ToolsError;

impl McpServers {
    /// Gets a prompt with these arguments. Starts the server if needed.
    pub async fn get_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: &[(String, String)],
    ) -> Result<McpContent, ToolsError> {
        let found = self.find(server)?;
        let content = found.get_prompt(name, arguments).await;
        content.map_err(|why| ToolsError::Failed(found.env.mask.apply(why)))
    }
}

impl McpServer {
    async fn get_prompt(&self, name: &str, arguments: &[(String, String)]) -> Result<McpContent, String> {
        let connection = self.connection().await?;
        let capabilities = connection.peer().peer_info().map(|info| info.capabilities.clone());
        let has_prompts = capabilities.is_some_and(|capabilities| capabilities.prompts.is_some());
        let known = if has_prompts {
            self.response("its prompts", list_prompts(connection.peer())).await?
        } else {
            Vec::new()
        };
        let Some(prompt) = known.iter().find(|prompt| prompt.name == name) else {
            let names: Vec<String> = known.iter().map(|prompt| plain(&prompt.name)).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(self.describe(&format!("has no prompt `{name}`; its prompts: {names}")));
        };
        check_arguments(prompt, arguments)?;
        let values = arguments.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        let params = GetPromptRequestParams::new(name).with_arguments(values.collect::<Map<_, _>>());
        let what = format!("the prompt `{name}`");
        let messages = self.response(&what, connection.peer().get_prompt(params)).await?.messages;
        let has_answers = messages.iter().any(|message| message.role == Role::Assistant);
        let parts = messages.into_iter().map(|message| self.message_part(message, has_answers));
        self.content(&what, parts)
    }

    /// The content of one message. The role is named if the prompt has messages of both.
    fn message_part(&self, message: PromptMessage, has_answers: bool) -> Result<McpPart, String> {
        let part = match message.content {
            ContentBlock::Text(text) => McpPart::Text(self.bounded(&text.text)),
            ContentBlock::Image(image) => self.file_part(&image.mime_type, image.data)?,
            ContentBlock::Audio(audio) => self.file_part(&audio.mime_type, audio.data)?,
            ContentBlock::Resource(resource) => self.resource_part(resource.resource)?,
            ContentBlock::ResourceLink(link) => McpPart::Text(plain(&link.uri)),
            _ => McpPart::Text("[content of an unsupported kind]".to_owned()),
        };
        Ok(match part {
            McpPart::Text(text) if has_answers => {
                let role = if message.role == Role::Assistant { "Assistant" } else { "User" };
                McpPart::Text(format!("{role}: {text}"))
            }
            part => part,
        })
    }
}

/// Names the required arguments that are missing, or else those that the prompt does not have.
fn check_arguments(prompt: &Prompt, given: &[(String, String)]) -> Result<(), String> {
    let known = prompt.arguments.as_deref().unwrap_or_default();
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    let missing =
        known.iter().filter(|argument| argument.required == Some(true) && !is_given(&argument.name));
    let missing: Vec<String> = missing
        .map(|argument| match &argument.description {
            Some(description) => format!("{} ({})", plain(&argument.name), plain(description)),
            None => plain(&argument.name),
        })
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!("the prompt `{}` needs the arguments: {missing}; write name=value", prompt.name));
    }
    let unknown = given.iter().find(|(name, _)| known.iter().all(|argument| argument.name != *name));
    let Some((unknown, _)) = unknown else { return Ok(()) };
    let names: Vec<String> = known.iter().map(|argument| plain(&argument.name)).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(format!("the prompt `{}` has no argument `{unknown}`; its arguments: {names}", prompt.name))
}

//! `tools/list` with pagination. Each tool is validated separately, so that an invalid one does not affect the others.

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, RequestOptionalParam,
        ServerResult, Tool,
    },
};
use serde_json::Value;

use crate::outputs::to_plain_text;

/// Limits for a server whose list never ends.
const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 2_000;
const MAX_ERRORS: usize = 10;

/// The tools of a server.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    pub(super) tools: Vec<Tool>,
    /// Why other tools of the server cannot be used.
    pub(super) errors: Vec<String>,
    /// Number of errors that are not in `errors`.
    more_errors: usize,
}

pub(super) async fn list_tools(peer: &Peer<RoleClient>) -> Result<ToolList, ServiceError> {
    let mut list = ToolList::default();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.take();
        let request: ListToolsRequest = RequestOptionalParam::with_param(params);
        match peer.send_request(ClientRequest::ListToolsRequest(request)).await {
            Ok(ServerResult::ListToolsResult(page)) => {
                page.tools.into_iter().for_each(|tool| list.push(Ok(tool)));
                cursor = page.next_cursor;
            }
            // A page with an invalid tool is not parsed by the library.
            Ok(ServerResult::CustomResult(page)) => {
                let tools = page.0.get("tools").and_then(Value::as_array);
                let tools = tools.ok_or(ServiceError::UnexpectedResponse)?;
                for tool in tools {
                    list.push(parse_tool(tool));
                }
                cursor = page.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            }
            Ok(_) => return Err(ServiceError::UnexpectedResponse),
            // A server without tools may still offer prompts or resources.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return Ok(list.finish(false));
            }
            Err(error) => return Err(error),
        }
        if cursor.is_none() || list.tools.len() >= MAX_TOOLS {
            break;
        }
    }
    Ok(list.finish(cursor.is_some()))
}

impl ToolList {
    fn push(&mut self, tool: Result<Tool, String>) {
        match tool.and_then(validate) {
            Ok(tool) => self.tools.push(tool),
            Err(error) if self.errors.len() < MAX_ERRORS => self.errors.push(error),
            Err(_) => self.more_errors += 1,
        }
    }

    /// Applies the limit of tools. What is left out is reported with the errors.
    fn finish(mut self, has_more_pages: bool) -> Self {
        if self.more_errors > 0 {
            self.errors.push(format!("and {} more", self.more_errors));
        }
        let omitted = self.tools.len().saturating_sub(MAX_TOOLS);
        self.tools.truncate(MAX_TOOLS);
        if omitted > 0 || has_more_pages {
            let more = if has_more_pages { "at least " } else { "" };
            let omitted = omitted.max(1);
            self.errors.push(format!("{more}{omitted} above the limit of {} tools", self.tools.len()));
        }
        self
    }
}

fn parse_tool(tool: &Value) -> Result<Tool, String> {
    serde_json::from_value(tool.clone()).map_err(|_| {
        let name = tool["name"].as_str().unwrap_or("(without a name)");
        let why = if tool["inputSchema"].is_object() {
            "it is malformed"
        } else {
            "its inputSchema is not an object"
        };
        describe_error(name, why)
    })
}

/// Requires that arguments are an object, as providers do.
fn validate(tool: Tool) -> Result<Tool, String> {
    match tool.input_schema.get("type") {
        None => Ok(tool),
        Some(kind) if kind == "object" => Ok(tool),
        Some(_) => Err(describe_error(&tool.name, "its inputSchema does not describe an object")),
    }
}

fn describe_error(name: &str, why: &str) -> String {
    let name: String = to_plain_text(name.as_bytes()).chars().take(100).collect();
    format!("`{name}`: {why}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_tools_are_left_out_and_reported() {
        let mut list = ToolList::default();
        let tools = [
            json!({"name": "good", "inputSchema": {"type": "object"}}),
            json!({"name": "bare", "inputSchema": {}}),
            json!({"name": "text", "inputSchema": {"type": "string"}}),
            json!({"name": "none"}),
            json!({"name": "list\u{1b}[31m", "inputSchema": [1]}),
            json!({"inputSchema": {"type": "object"}}),
        ];
        for tool in &tools {
            list.push(parse_tool(tool));
        }
        let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["good", "bare"]);
        insta::assert_snapshot!(list.errors.join("\n"), @"
        `text`: its inputSchema does not describe an object
        `none`: its inputSchema is not an object
        `list`: its inputSchema is not an object
        `(without a name)`: it is malformed
        ");
    }
    #[test]
    fn omitted_tools_and_errors_are_counted() {
        let tool = |n: usize| {
            Ok(serde_json::from_value(json!({"name": format!("t{n}"), "inputSchema": {}})).unwrap())
        };
        let mut list = ToolList::default();
        (0..MAX_TOOLS + 3).for_each(|n| list.push(tool(n)));
        (0..MAX_ERRORS + 2).for_each(|_| list.push(Err("`x`: bad".to_owned())));
        let list = list.finish(false);
        assert_eq!((list.tools.len(), list.errors.len()), (MAX_TOOLS, MAX_ERRORS + 2));
        assert_eq!(list.errors[MAX_ERRORS..], ["and 2 more", "3 above the limit of 2000 tools"]);
        let endless = ToolList::default().finish(true);
        assert_eq!(endless.errors, ["at least 1 above the limit of 0 tools"]);
        assert!(ToolList::default().finish(false).errors.is_empty());
    }
}

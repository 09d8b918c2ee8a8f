//! What a server lists: page by page, and each tool by itself, so that one that cannot be used takes no other along.

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, RequestOptionalParam,
        ServerResult, Tool,
    },
};
use serde_json::Value;

use crate::outputs::to_plain_text;

/// More than any server has; one that never ends its list must not fill the memory.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) tools: Vec<Tool>,
    /// What is wrong with those that are not among them.
    pub(super) faults: Vec<String>,
}

pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<List, ServiceError> {
    let mut list = List::default();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.take();
        let request: ListToolsRequest = RequestOptionalParam::with_param(params);
        match peer.send_request(ClientRequest::ListToolsRequest(request)).await {
            Ok(ServerResult::ListToolsResult(page)) => {
                page.tools.into_iter().for_each(|tool| list.take(Ok(tool)));
                cursor = page.next_cursor;
            }
            // Some tool in it is none.
            Ok(ServerResult::CustomResult(page)) => {
                let tools = page.0.get("tools").and_then(Value::as_array);
                let tools = tools.ok_or(ServiceError::UnexpectedResponse)?;
                for tool in tools {
                    list.take(read(tool));
                }
                cursor = page.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            }
            Ok(_) => return Err(ServiceError::UnexpectedResponse),
            // A server without tools may have other things.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return Ok(list);
            }
            Err(error) => return Err(error),
        }
        if cursor.is_none() || list.tools.len() >= MOST_TOOLS {
            break;
        }
    }
    list.tools.truncate(MOST_TOOLS);
    Ok(list)
}

impl List {
    fn take(&mut self, tool: Result<Tool, String>) {
        match tool.and_then(usable) {
            Ok(tool) => self.tools.push(tool),
            Err(fault) if self.faults.len() < 10 => self.faults.push(fault),
            Err(_) => {}
        }
    }
}

fn read(tool: &Value) -> Result<Tool, String> {
    serde_json::from_value(tool.clone()).map_err(|_| {
        let name = tool["name"].as_str().unwrap_or("(without a name)");
        let why =
            if tool["inputSchema"].is_object() { "it is no tool" } else { "its inputSchema is no object" };
        fault(name, why)
    })
}

/// Arguments are always an object, for every provider.
fn usable(tool: Tool) -> Result<Tool, String> {
    match tool.input_schema.get("type") {
        None => Ok(tool),
        Some(kind) if kind == "object" => Ok(tool),
        Some(_) => Err(fault(&tool.name, "its inputSchema describes no object")),
    }
}

fn fault(name: &str, why: &str) -> String {
    let name: String = to_plain_text(name.as_bytes()).chars().take(100).collect();
    format!("`{name}`: {why}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_whose_arguments_are_no_object_is_named_and_left_out() {
        let mut list = List::default();
        let tools = [
            json!({"name": "good", "inputSchema": {"type": "object"}}),
            json!({"name": "bare", "inputSchema": {}}),
            json!({"name": "text", "inputSchema": {"type": "string"}}),
            json!({"name": "none"}),
            json!({"name": "list\u{1b}[31m", "inputSchema": [1]}),
            json!({"inputSchema": {"type": "object"}}),
        ];
        for tool in &tools {
            list.take(read(tool));
        }
        let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["good", "bare"]);
        insta::assert_snapshot!(list.faults.join("\n"), @"
        `text`: its inputSchema describes no object
        `none`: its inputSchema is no object
        `list`: its inputSchema is no object
        `(without a name)`: it is no tool
        ");
    }
}

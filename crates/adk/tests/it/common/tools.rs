//! Fake tools from closures.

use adk::{
    error::ToolError,
    model::FunctionDeclaration,
    tool::{Tool, ToolContext, ToolOutcome},
};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;

type CallResult = Result<ToolOutcome, ToolError>;
type Body = Box<dyn Fn(ToolContext, Map<String, Value>) -> BoxFuture<'static, CallResult> + Send + Sync>;

pub(crate) struct FakeTool {
    declaration: FunctionDeclaration,
    long: bool,
    body: Body,
}

/// A tool that accepts any object.
pub(crate) fn tool<F, R>(name: &str, body: F) -> FakeTool
where
    F: Fn(ToolContext, Map<String, Value>) -> R + Send + Sync + 'static,
    R: Future<Output = CallResult> + Send + 'static,
{
    let declaration = FunctionDeclaration {
        name: name.to_owned(),
        description: String::new(),
        parameters_json_schema: json!({"type": "object"}),
    };
    FakeTool { declaration, long: false, body: Box::new(move |context, args| Box::pin(body(context, args))) }
}

impl FakeTool {
    #[expect(clippy::needless_pass_by_value, reason = "callers write json! in place")]
    pub(crate) fn takes(mut self, properties: Value) -> Self {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        self.declaration.parameters_json_schema =
            json!({"type": "object", "properties": properties, "required": required});
        self
    }

    pub(crate) fn long_running(mut self) -> Self {
        self.long = true;
        self
    }

    pub(crate) fn arc(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

impl Tool for FakeTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        self.long
    }

    fn call(&self, context: ToolContext, args: Map<String, Value>) -> BoxFuture<'_, CallResult> {
        (self.body)(context, args)
    }
}

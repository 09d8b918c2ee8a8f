//! `write_file`: creates or replaces a whole file.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    context::{self, FileToolContext},
    write_target::WriteTarget,
};
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, blocking};

const NAME: &str = "write_file";

/// The tool `write_file`.
#[derive(Debug)]
pub struct WriteFile {
    spec: Spec,
    context: FileToolContext,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFileArgs {
    path: String,
    content: String,
}

impl WriteFile {
    pub fn new(context: FileToolContext) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": format!("{} Missing directories are made.", context.roots.path_syntax())},
                "content": {"type": "string", "description": "The whole content."},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        let description =
            "Writes a whole file, new or in place of the old one. To change a part of a file, use edit_file.";
        let spec = Spec::new(NAME, description, parameters, Safety::Write, Effect::Idempotent);
        Self { spec, context }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let context = self.context.clone();
        blocking::call(NAME, request, move |args, _| write(&context, args))
    }

    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        self.context.target(args)
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args: WriteFileArgs = args::parse(NAME, args.clone()).ok()?;
        let target = WriteTarget::find(&self.context.roots, &args.path).ok()?;
        let before = target.before.as_ref().map(|before| before.content.as_slice());
        Some(context::unified_diff(&target.display_path(), before, args.content.as_bytes()))
    }
}

fn write(context: &FileToolContext, args: &WriteFileArgs) -> Result<Value, ToolsError> {
    let target = WriteTarget::find(&context.roots, &args.path)?;
    let after = args.content.as_bytes();
    // A repetition of the call after a crash finds its own result.
    if target.before.as_ref().is_some_and(|before| before.content == after) {
        return Ok(json!({"path": target.display_path(), "bytes": after.len(), "unchanged": true}));
    }
    context.require_unchanged(&target)?;
    context.write(&target, after)
}

//! `undo_edit`: reverts a change by `write_file` or `edit_file`, also after a restart.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    context::{self, FileToolContext},
    versions::ContentDigest,
    write_target::WriteTarget,
};
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, blocking};

const NAME: &str = "undo_edit";

/// The tool `undo_edit`.
#[derive(Debug)]
pub struct UndoEdit {
    spec: Spec,
    context: FileToolContext,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UndoEditArgs {
    undo: String,
}

impl UndoEdit {
    pub fn new(context: FileToolContext) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {"undo": {"type": "string", "description": "The `undo` handle that write_file or edit_file returned."}},
            "required": ["undo"],
            "additionalProperties": false,
        });
        let description =
            "Undoes one change of a file, if the file has not changed since. Undo the newest change first.";
        let spec = Spec::new(NAME, description, parameters, Safety::Write, Effect::Idempotent);
        Self { spec, context }
    }
}

impl Tool for UndoEdit {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let context = self.context.clone();
        blocking::call(NAME, request, move |args, _| undo(&context, args))
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args: UndoEditArgs = args::parse(NAME, args.clone()).ok()?;
        let record = self.context.load_undo(&args.undo).ok()?;
        let before = record.before.unwrap_or_default();
        Some(context::unified_diff(&record.path, Some(&record.after), &before))
    }

    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        let args: UndoEditArgs = args::parse(NAME, args.clone()).ok()?;
        self.context.load_undo(&args.undo).ok().map(|record| record.path)
    }
}

fn undo(context: &FileToolContext, args: &UndoEditArgs) -> Result<Value, ToolsError> {
    let record = context.load_undo(&args.undo)?;
    let target = WriteTarget::find(&context.roots, &record.path)?;
    let now = target.before.as_ref().map(|before| before.content.as_slice());
    if now == record.before.as_deref() {
        return Ok(json!({"path": record.path, "unchanged": true}));
    }
    if now != Some(record.after.as_slice()) {
        return Err(ToolsError::Changed { path: record.path });
    }
    if let Some(before) = &record.before {
        let metadata = target.write(before)?;
        context.versions.record(&target.absolute(), &metadata, Some(ContentDigest::compute(before)));
        Ok(json!({"path": record.path, "bytes": before.len(), "undone": true}))
    } else {
        target.remove()?;
        Ok(json!({"path": record.path, "removed": true}))
    }
}

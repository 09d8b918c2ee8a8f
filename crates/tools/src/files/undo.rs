//! `undo_edit`: what `write_file` or `edit_file` did is taken back, also after a restart.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    change::{self, Desk},
    seen::Digest,
    target::Target,
};
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, blocking};

const NAME: &str = "undo_edit";

/// Takes changes of files back.
#[derive(Debug)]
pub struct UndoEdit {
    spec: Spec,
    desk: Desk,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    undo: String,
}

impl UndoEdit {
    pub fn new(desk: Desk) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {"undo": {"type": "string", "description": "The `undo` handle that write_file or edit_file gave."}},
            "required": ["undo"],
            "additionalProperties": false,
        });
        let description = "Takes one change of a file back, if the file is still as that change left it. The newest change goes first.";
        let spec = Spec::new(NAME, description, parameters, Safety::Write, Effect::Idempotent);
        Self { spec, desk }
    }
}

impl Tool for UndoEdit {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args = args::parse(NAME, request.args)?;
            let desk = self.desk.clone();
            blocking::run(&*request.host, move |_| undo(&desk, &args)).await.map(ToolReply::Done)
        })
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args: Args = args::parse(NAME, args.clone()).ok()?;
        let record = self.desk.record(&args.undo).ok()?;
        let before = record.before.unwrap_or_default();
        Some(change::diff(&record.path, Some(&record.after), &before))
    }

    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        let args: Args = args::parse(NAME, args.clone()).ok()?;
        self.desk.record(&args.undo).ok().map(|record| record.path)
    }
}

fn undo(desk: &Desk, args: &Args) -> Result<Value, ToolsError> {
    let record = desk.record(&args.undo)?;
    let target = Target::find(&desk.roots, &record.path)?;
    let now = target.before.as_ref().map(|before| before.content.as_slice());
    if now == record.before.as_deref() {
        return Ok(json!({"path": record.path, "unchanged": true}));
    }
    if now != Some(record.after.as_slice()) {
        return Err(ToolsError::Changed { path: record.path });
    }
    if let Some(before) = &record.before {
        let metadata = target.write(before)?;
        desk.seen.note(&target.absolute(), &metadata, Some(Digest::of(before)));
        Ok(json!({"path": record.path, "bytes": before.len(), "undone": true}))
    } else {
        target.remove()?;
        Ok(json!({"path": record.path, "removed": true}))
    }
}

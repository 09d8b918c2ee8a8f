//! `write_file`: a whole file, new or replaced.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    change::{self, Desk},
    target::Target,
};
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, blocking};

const NAME: &str = "write_file";

/// Writes files.
#[derive(Debug)]
pub struct WriteFile {
    spec: Spec,
    desk: Desk,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    content: String,
}

impl WriteFile {
    pub fn new(desk: Desk) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": format!("{} Missing directories are made.", desk.roots.how_to_name())},
                "content": {"type": "string", "description": "The whole content."},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        let description =
            "Writes a whole file, new or in place of the old one. To change a part of a file, use edit_file.";
        let spec = Spec::new(NAME, description, parameters, Safety::Write, Effect::Idempotent);
        Self { spec, desk }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args = args::parse(NAME, request.args)?;
            let desk = self.desk.clone();
            blocking::run(&*request.host, move |_| write(&desk, &args)).await.map(ToolReply::Done)
        })
    }

    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        self.desk.target(args)
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args: Args = args::parse(NAME, args.clone()).ok()?;
        let target = Target::find(&self.desk.roots, &args.path).ok()?;
        let before = target.before.as_ref().map(|before| before.content.as_slice());
        Some(change::diff(&target.shown(), before, args.content.as_bytes()))
    }
}

fn write(desk: &Desk, args: &Args) -> Result<Value, ToolsError> {
    let target = Target::find(&desk.roots, &args.path)?;
    let after = args.content.as_bytes();
    // The same call again after a crash: it was done then.
    if target.before.as_ref().is_some_and(|before| before.content == after) {
        return Ok(json!({"path": target.shown(), "bytes": after.len(), "unchanged": true}));
    }
    desk.insist_on_seen(&target)?;
    desk.put(&target, after)
}

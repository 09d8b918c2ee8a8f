//! `edit_file`: one text in a file replaced by another.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    change::{self, Desk},
    target::Target,
};
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, blocking, media};

const NAME: &str = "edit_file";

/// Changes a part of a file.
#[derive(Debug)]
pub struct EditFile {
    spec: Spec,
    desk: Desk,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl EditFile {
    pub fn new(desk: Desk) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": desk.roots.how_to_name()},
                "old": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file, with enough around it to be there once."},
                "new": {"type": "string", "description": "What takes its place."},
                "all": {"type": "boolean", "description": "Replace every occurrence. Default: false."},
            },
            "required": ["path", "old", "new"],
            "additionalProperties": false,
        });
        let description = "Replaces a text in a file and shows the diff. Read the file first: the edit is refused if it has changed since.";
        let spec = Spec::new(NAME, description, parameters, Safety::Write, Effect::Once);
        Self { spec, desk }
    }
}

impl Tool for EditFile {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args = args::parse(NAME, request.args)?;
            let desk = self.desk.clone();
            blocking::run(&*request.host, move |_| edit(&desk, &args)).await.map(ToolReply::Done)
        })
    }

    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        self.desk.target(args)
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args: Args = args::parse(NAME, args.clone()).ok()?;
        let target = Target::find(&self.desk.roots, &args.path).ok()?;
        let before = target.before.as_ref()?.content.as_slice();
        let (after, _) = replaced(before, &args).ok()?;
        Some(change::diff(&target.shown(), Some(before), &after))
    }
}

fn edit(desk: &Desk, args: &Args) -> Result<Value, ToolsError> {
    let target = Target::find(&desk.roots, &args.path)?;
    let Some(before) = &target.before else { return Err(ToolsError::NotFound { path: args.path.clone() }) };
    if let Some(kind) = media::binary_kind(&before.content[..before.content.len().min(media::SNIFF_BYTES)]) {
        return Err(ToolsError::WrongKind { path: target.shown(), is: kind, wanted: "text" });
    }
    desk.insist_on_seen(&target)?;
    let (after, count) = replaced(&before.content, args)?;
    let mut answer = desk.put(&target, &after)?;
    answer["replaced"] = count.into();
    Ok(answer)
}

/// The new content, and how many places changed.
fn replaced(content: &[u8], args: &Args) -> Result<(Vec<u8>, usize), ToolsError> {
    let bad = |reason: String| ToolsError::Arguments { tool: NAME.to_owned(), reason };
    let old = args.old.as_bytes();
    if old.is_empty() {
        return Err(bad("`old` is empty; to write a whole file use write_file".to_owned()));
    }
    if args.old == args.new {
        return Err(bad("`old` and `new` are the same".to_owned()));
    }
    let places = places(content, old);
    match places.len() {
        0 => Err(bad(format!(
            "`old` is not in `{}`; it has to match exactly, white space and line ends included",
            args.path
        ))),
        1 => Ok((replace(content, &places, args), 1)),
        some if args.all => Ok((replace(content, &places, args), some)),
        some => {
            let line = |at: &usize| content[..*at].split(|&byte| byte == b'\n').count();
            let lines: Vec<String> = places.iter().take(5).map(|at| line(at).to_string()).collect();
            let more = if some > 5 { " and more" } else { "" };
            Err(bad(format!(
                "`old` is in `{}` {some} times (lines {}{more}); add what is around the one that is meant, or say all: true",
                args.path,
                lines.join(", ")
            )))
        }
    }
}

/// Where `old` begins, from left to right without overlap.
fn places(content: &[u8], old: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = content[from..].windows(old.len()).position(|text| text == old) {
        found.push(from + at);
        from += at + old.len();
    }
    found
}

fn replace(content: &[u8], places: &[usize], args: &Args) -> Vec<u8> {
    let mut new = Vec::with_capacity(content.len());
    let mut from = 0;
    for &at in places {
        new.extend_from_slice(&content[from..at]);
        new.extend_from_slice(args.new.as_bytes());
        from = at + args.old.len();
    }
    new.extend_from_slice(&content[from..]);
    new
}

#[cfg(test)]
mod tests;

//! `edit_file`: replaces a text in a file.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    context::{self, FileToolContext},
    write_target::WriteTarget,
};
use crate::{Effect, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError, args, blocking, media};

const NAME: &str = "edit_file";

/// The tool `edit_file`.
#[derive(Debug)]
pub struct EditFile {
    spec: Spec,
    context: FileToolContext,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditFileArgs {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl EditFile {
    pub fn new(context: FileToolContext) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": context.roots.path_syntax()},
                "old": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file, with enough around it to be there once."},
                "new": {"type": "string", "description": "The replacement."},
                "all": {"type": "boolean", "description": "Replace every occurrence. Default: false."},
            },
            "required": ["path", "old", "new"],
            "additionalProperties": false,
        });
        let description = "Replaces a text in a file and shows the diff. Read the file first: the edit is refused if it has changed since.";
        let spec = Spec::new(NAME, description, parameters, Safety::Write, Effect::Once);
        Self { spec, context }
    }
}

impl Tool for EditFile {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let context = self.context.clone();
        blocking::call(NAME, request, move |args, _| edit(&context, args))
    }

    fn target(&self, args: &Map<String, Value>) -> Option<String> {
        self.context.target(args)
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args: EditFileArgs = args::parse(NAME, args.clone()).ok()?;
        let target = WriteTarget::find(&self.context.roots, &args.path).ok()?;
        let before = target.before.as_ref()?.content.as_slice();
        let (after, _) = replace_checked(before, &args).ok()?;
        Some(context::unified_diff(&target.display_path(), Some(before), &after))
    }
}

fn edit(context: &FileToolContext, args: &EditFileArgs) -> Result<Value, ToolsError> {
    let target = WriteTarget::find(&context.roots, &args.path)?;
    let Some(before) = &target.before else { return Err(ToolsError::NotFound { path: args.path.clone() }) };
    if let Some(kind) = media::binary_kind(&before.content[..before.content.len().min(media::SNIFF_BYTES)]) {
        return Err(ToolsError::WrongKind { path: target.display_path(), is: kind, wanted: "text" });
    }
    context.require_unchanged(&target)?;
    let (after, count) = replace_checked(&before.content, args)?;
    let mut answer = context.write(&target, &after)?;
    answer["replaced"] = count.into();
    Ok(answer)
}

/// The new content and the number of replacements. Fails unless `old` occurs once, or `all` is set.
fn replace_checked(content: &[u8], args: &EditFileArgs) -> Result<(Vec<u8>, usize), ToolsError> {
    let invalid = |reason: String| ToolsError::Arguments { tool: NAME.to_owned(), reason };
    let old = args.old.as_bytes();
    if old.is_empty() {
        return Err(invalid("`old` is empty; to write a whole file use write_file".to_owned()));
    }
    if args.old == args.new {
        return Err(invalid("`old` and `new` are the same".to_owned()));
    }
    let matches = find_all(content, old);
    match matches.len() {
        0 => Err(invalid(format!(
            "`old` does not occur in `{}`; it must match exactly, including white space and line ends",
            args.path
        ))),
        1 => Ok((replace(content, &matches, args), 1)),
        count if args.all => Ok((replace(content, &matches, args), count)),
        count => {
            let line = |at: &usize| content[..*at].split(|&byte| byte == b'\n').count();
            let lines: Vec<String> = matches.iter().take(5).map(|at| line(at).to_string()).collect();
            let more = if count > 5 { " and more" } else { "" };
            Err(invalid(format!(
                "`old` occurs in `{}` {count} times (lines {}{more}); include more of the surrounding text, or set all: true",
                args.path,
                lines.join(", ")
            )))
        }
    }
}

/// Offsets of all occurrences of `old`, from left to right without overlap.
fn find_all(content: &[u8], old: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = content[from..].windows(old.len()).position(|text| text == old) {
        found.push(from + at);
        from += at + old.len();
    }
    found
}

fn replace(content: &[u8], matches: &[usize], args: &EditFileArgs) -> Vec<u8> {
    let mut new = Vec::with_capacity(content.len());
    let mut from = 0;
    for &at in matches {
        new.extend_from_slice(&content[from..at]);
        new.extend_from_slice(args.new.as_bytes());
        from = at + args.old.len();
    }
    new.extend_from_slice(&content[from..]);
    new
}

#[cfg(test)]
mod tests;

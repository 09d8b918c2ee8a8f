//! One change of one file: kept so that it can be undone, made in one step, shown as a diff.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::{
    roots::Roots,
    seen::{Digest, Seen},
    target::Target,
};
use crate::{
    ToolsError,
    outputs::{HandleKind, OutputStore},
};

/// How much of a diff is shown to a model.
const MAX_DIFF: usize = 16 * 1024;

/// What the tools that change files share.
#[derive(Debug, Clone)]
pub struct Desk {
    pub roots: Roots,
    pub seen: Seen,
    pub outputs: OutputStore,
}

/// The first line of what is kept of a change; the old content and the new one follow it.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    root: String,
    path: String,
    /// How many bytes there were; `None` if there was no file.
    before: Option<usize>,
    after: usize,
}

/// A change that was made.
pub(super) struct Record {
    pub(super) path: String,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

impl Desk {
    /// The file that a call would change, wherever a link leads to.
    pub(super) fn target(&self, args: &Map<String, Value>) -> Option<String> {
        let path = args.get("path")?.as_str()?;
        Some(Target::find(&self.roots, path).map_or_else(|_| path.to_owned(), |target| target.shown()))
    }

    /// Refuses what somebody else has changed since it was read here.
    pub(super) fn insist_on_seen(&self, target: &Target) -> Result<(), ToolsError> {
        let Some(before) = &target.before else { return Ok(()) };
        if self.seen.has_changed(&target.absolute(), &before.metadata, &before.content) {
            return Err(ToolsError::Changed { path: target.shown() });
        }
        Ok(())
    }

    /// Writes the new content; the answer says what changed, and how to undo it.
    pub(super) fn put(&self, target: &Target, after: &[u8]) -> Result<Value, ToolsError> {
        let before = target.before.as_ref().map(|before| before.content.as_slice());
        let undo = self.keep(target, before, after)?;
        let metadata = target.write(after)?;
        self.seen.note(&target.absolute(), &metadata, Some(Digest::of(after)));
        let diff = diff(&target.shown(), before, after);
        Ok(json!({"path": target.shown(), "bytes": after.len(), "diff": shortened(diff), "undo": undo}))
    }

    fn keep(&self, target: &Target, before: Option<&[u8]>, after: &[u8]) -> Result<String, ToolsError> {
        let header = Header {
            root: target.root().path().display().to_string(),
            path: target.relative().display().to_string(),
            before: before.map(<[u8]>::len),
            after: after.len(),
        };
        let mut bytes =
            serde_json::to_vec(&header).map_err(|error| ToolsError::OutputStore { source: error.into() })?;
        bytes.push(b'\n');
        bytes.extend_from_slice(before.unwrap_or_default());
        bytes.extend_from_slice(after);
        let (handle, mut file) = self.outputs.create(HandleKind::Edit)?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_data())
            .map_err(|source| ToolsError::OutputStore { source })?;
        Ok(handle)
    }

    pub(super) fn record(&self, handle: &str) -> Result<Record, ToolsError> {
        let file = self.outputs.open(HandleKind::Edit, handle)?;
        let (header, before, after) = parts(file).map_err(|source| ToolsError::OutputStore { source })?;
        let Some(root) = self.roots.at(header.root.as_ref()) else {
            let reason = format!("`{handle}` is an edit in another working directory");
            return Err(ToolsError::Failed(reason));
        };
        Ok(Record { path: root.shown(header.path.as_ref()), before, after })
    }
}

fn parts(file: File) -> std::io::Result<(Header, Option<Vec<u8>>, Vec<u8>)> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let header: Header = serde_json::from_slice(&line)?;
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest)?;
    let length = header.before.unwrap_or(0);
    if rest.len() != length + header.after {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let after = rest.split_off(length);
    let before = header.before.map(|_| rest);
    Ok((header, before, after))
}

/// The change as a unified diff.
pub(super) fn diff(path: &str, before: Option<&[u8]>, after: &[u8]) -> String {
    let old = String::from_utf8_lossy(before.unwrap_or_default());
    let new = String::from_utf8_lossy(after);
    let from = if before.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    // A diff that takes longer is coarser, not wrong.
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(&*old, &*new);
    diff.unified_diff().header(&from, &format!("b/{path}")).to_string()
}

fn shortened(mut diff: String) -> String {
    if diff.len() > MAX_DIFF {
        let cut = diff.floor_char_boundary(MAX_DIFF);
        let left_out = diff.len() - cut;
        diff.truncate(cut);
        diff.extend(["\n[… ", &left_out.to_string(), " bytes of the diff left out …]\n"]);
    }
    diff
}

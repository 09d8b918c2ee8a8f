//! The context that the writing file tools share. A change of a file is stored for undo, written atomically, and returned as
//! a diff.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::{
    roots::FileRoots,
    versions::{ContentDigest, FileVersions},
    write_target::WriteTarget,
};
use crate::{
    ToolsError,
    outputs::{HandleKind, OutputStore},
};

/// How many bytes of a diff the model gets.
const MAX_DIFF: usize = 16 * 1024;

/// Roots, file versions and undo store, shared by the tools that change files.
#[derive(Debug, Clone)]
pub struct FileToolContext {
    pub roots: FileRoots,
    pub versions: FileVersions,
    pub outputs: OutputStore,
}

/// The first line of a stored change; the old and the new content follow it.
#[derive(Debug, Serialize, Deserialize)]
struct UndoHeader {
    root: String,
    path: String,
    /// Length of the old content; `None` if the file did not exist.
    before: Option<usize>,
    after: usize,
}

/// A stored change.
pub(super) struct UndoRecord {
    pub(super) path: String,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

impl FileToolContext {
    /// The path of the file that a call would change, with links resolved.
    pub(super) fn target(&self, args: &Map<String, Value>) -> Option<String> {
        let path = args.get("path")?.as_str()?;
        Some(
            WriteTarget::find(&self.roots, path)
                .map_or_else(|_| path.to_owned(), |target| target.display_path()),
        )
    }

    /// Fails if the file has changed since these tools last read or wrote it.
    pub(super) fn require_unchanged(&self, target: &WriteTarget) -> Result<(), ToolsError> {
        let Some(before) = &target.before else { return Ok(()) };
        if self.versions.has_changed(&target.absolute(), &before.metadata, &before.content) {
            return Err(ToolsError::Changed { path: target.display_path() });
        }
        Ok(())
    }

    /// Writes the new content. The result has the diff and the undo handle.
    pub(super) fn write(&self, target: &WriteTarget, after: &[u8]) -> Result<Value, ToolsError> {
        let before = target.before.as_ref().map(|before| before.content.as_slice());
        let undo = self.store_undo(target, before, after)?;
        let metadata = target.write(after)?;
        self.versions.record(&target.absolute(), &metadata, Some(ContentDigest::compute(after)));
        let diff = unified_diff(&target.display_path(), before, after);
        Ok(
            json!({"path": target.display_path(), "bytes": after.len(), "diff": truncate_diff(diff), "undo": undo}),
        )
    }

    fn store_undo(
        &self,
        target: &WriteTarget,
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Result<String, ToolsError> {
        let header = UndoHeader {
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

    pub(super) fn load_undo(&self, handle: &str) -> Result<UndoRecord, ToolsError> {
        let file = self.outputs.open(HandleKind::Edit, handle)?;
        let (header, before, after) = read_undo(file).map_err(|source| ToolsError::OutputStore { source })?;
        let Some(root) = self.roots.find(header.root.as_ref()) else {
            let reason = format!("`{handle}` belongs to another working directory");
            return Err(ToolsError::Failed(reason));
        };
        Ok(UndoRecord { path: root.display_path(header.path.as_ref()), before, after })
    }
}

fn read_undo(file: File) -> std::io::Result<(UndoHeader, Option<Vec<u8>>, Vec<u8>)> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let header: UndoHeader = serde_json::from_slice(&line)?;
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

/// A change as a unified diff.
pub(super) fn unified_diff(path: &str, before: Option<&[u8]>, after: &[u8]) -> String {
    let old = String::from_utf8_lossy(before.unwrap_or_default());
    let new = String::from_utf8_lossy(after);
    let from = if before.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    // After the timeout the diff is coarser, but still correct.
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(&*old, &*new);
    diff.unified_diff().header(&from, &format!("b/{path}")).to_string()
}

fn truncate_diff(mut diff: String) -> String {
    if diff.len() > MAX_DIFF {
        let cut = diff.floor_char_boundary(MAX_DIFF);
        let left_out = diff.len() - cut;
        diff.truncate(cut);
        diff.extend(["\n[… ", &left_out.to_string(), " bytes of the diff left out …]\n"]);
    }
    diff
}

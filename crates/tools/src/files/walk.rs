//! Directory traversal for listing and searching. It skips hidden and git-ignored files and follows no links.

use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

use super::root::{FileRoot, ResolvedPath};
use crate::{ToolsError, blocking::CancelFlag};

/// Visits the entries below `directory` in order of their names, at most `depth` levels down.
///
/// The walk starts at the root, so that every `.gitignore` on the way applies. The requested directory itself is walked
/// even if it is ignored.
pub(super) fn walk(
    directory: &ResolvedPath,
    depth: Option<usize>,
    cancel: &CancelFlag,
    visit: &mut dyn FnMut(&DirEntry),
) -> Result<(), ToolsError> {
    let (root, target) = (&directory.root, directory.absolute());
    let levels_above = directory.relative.components().count();
    let found =
        visit_below(root, (root.path(), &target), depth.map(|depth| depth + levels_above), cancel, visit)?;
    if !found {
        visit_below(root, (&target, &target), depth, cancel, visit)?;
    }
    Ok(())
}

/// Walks from `start`, visits the entries below `target`, and returns whether it reached `target`.
fn visit_below(
    root: &FileRoot,
    (start, target): (&Path, &Path),
    depth: Option<usize>,
    cancel: &CancelFlag,
    visit: &mut dyn FnMut(&DirEntry),
) -> Result<bool, ToolsError> {
    let (requested, root) = (target.to_owned(), root.clone());
    let entries = WalkBuilder::new(start)
        .max_depth(depth)
        .sort_by_file_name(Ord::cmp)
        // Ignore files above the root have no effect.
        .parents(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(move |entry| {
            // Cargo's build directory is skipped without a `.gitignore`, too. A file called `target` is not.
            let is_build = entry.file_name() == "target" && entry.path().join("CACHEDIR.TAG").is_file();
            let is_on_path = requested.starts_with(entry.path());
            is_on_path || (entry.path().starts_with(&requested) && !is_build && !root.denies(entry.path()))
        })
        .build();
    let mut found = false;
    // Unreadable entries are skipped: one of them must not hide the rest.
    for entry in entries.filter_map(Result::ok) {
        cancel.check()?;
        if entry.path() == target {
            found = true;
        } else if entry.path().starts_with(target) {
            visit(&entry);
        }
    }
    Ok(found)
}

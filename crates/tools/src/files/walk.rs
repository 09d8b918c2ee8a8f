//! Which files a listing or a search sees: neither hidden ones nor those that `.gitignore` names, and no link is followed.

use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

use super::root::Place;
use crate::{ToolsError, blocking::CancelFlag};

/// Visits what lies below `place`, at most `depth` levels down, in the order of names, until `visit` says stop.
///
/// The walk starts at the root, so that the rules of every `.gitignore` on the way count. What the caller names itself is
/// walked even if those rules hide it.
pub(super) fn walk(
    place: &Place,
    depth: Option<usize>,
    cancel: &CancelFlag,
    visit: &mut dyn FnMut(&DirEntry),
) -> Result<(), ToolsError> {
    let (root, target) = (place.root.path(), place.absolute());
    let levels_above = place.relative.components().count();
    let found = visit_below(root, &target, depth.map(|depth| depth + levels_above), cancel, visit)?;
    if !found {
        visit_below(&target, &target, depth, cancel, visit)?;
    }
    Ok(())
}

/// Whether the walk from `start` came across `target` at all.
fn visit_below(
    start: &Path,
    target: &Path,
    depth: Option<usize>,
    cancel: &CancelFlag,
    visit: &mut dyn FnMut(&DirEntry),
) -> Result<bool, ToolsError> {
    let on_the_way = target.to_owned();
    let entries = WalkBuilder::new(start)
        .max_depth(depth)
        .sort_by_file_name(Ord::cmp)
        // Nothing above the root is read, not even its rules.
        .parents(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(move |entry| {
            // A build directory is skipped also where no `.gitignore` says so; a file may well be called `target`.
            let is_build = entry.file_name() == "target" && entry.path().join("CACHEDIR.TAG").is_file();
            let is_named = on_the_way.starts_with(entry.path());
            is_named || (entry.path().starts_with(&on_the_way) && !is_build)
        })
        .build();
    let mut found = false;
    // An entry that cannot be read is not there for the model: one locked directory must not hide the rest.
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

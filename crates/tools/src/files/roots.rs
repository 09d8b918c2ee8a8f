//! The root directories of file tools: relative paths refer to the first, absolute paths to any of them. Path traversal
//! out of the roots is refused.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use super::root::{ABSOLUTE_OUTSIDE, FileRoot, HAS_PARENT_DIR, ResolvedPath};
use crate::ToolsError;

/// One or more roots. Each is confined separately: a link from one root into another counts as leading outside.
#[derive(Debug, Clone)]
pub struct FileRoots(Arc<[FileRoot]>);

impl From<FileRoot> for FileRoots {
    fn from(root: FileRoot) -> Self {
        Self([root].into())
    }
}

impl FileRoots {
    /// The first root is the working directory. Nested roots are rejected, because their permissions would be ambiguous.
    pub fn new(first: FileRoot, others: Vec<FileRoot>) -> Result<Self, ToolsError> {
        let others = others.into_iter().map(FileRoot::absolute_only);
        let all: Vec<FileRoot> = std::iter::once(first).chain(others).collect();
        for (at, root) in all.iter().enumerate() {
            let overlap = |(other_at, other): &(usize, &FileRoot)| {
                *other_at != at && root.path().starts_with(other.path())
            };
            if let Some((_, outer)) = all.iter().enumerate().find(overlap) {
                let (inner, outer) = (root.path().to_owned(), outer.path().to_owned());
                return Err(ToolsError::Overlap { inner, outer });
            }
        }
        Ok(Self(all.into()))
    }

    /// The working directory.
    pub fn first(&self) -> &FileRoot {
        &self.0[0]
    }

    pub fn iter(&self) -> impl Iterator<Item = &FileRoot> {
        self.0.iter()
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.iter().map(|root| root.path().to_owned()).collect()
    }

    /// The root with this path.
    pub(super) fn find(&self, dir: &Path) -> Option<&FileRoot> {
        self.iter().find(|root| root.path() == dir)
    }

    /// Resolves `path` to an existing file or directory inside one of the roots.
    pub(crate) fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolsError> {
        let (root, relative) = self.split(path)?;
        root.resolve(&relative).map_err(|error| self.with_path(error, path))
    }

    /// Splits a path into its root and the relative path from there.
    pub(super) fn split(&self, path: &str) -> Result<(&FileRoot, String), ToolsError> {
        let requested = Path::new(path);
        if !requested.is_absolute() {
            return Ok((self.first(), path.to_owned()));
        }
        let refused = |why| self.with_path(ToolsError::outside(path, why), path);
        if requested.components().any(|part| part == Component::ParentDir) {
            return Err(refused(HAS_PARENT_DIR));
        }
        let inside = self.iter().find_map(|root| Some((root, requested.strip_prefix(root.path()).ok()?)));
        let (root, rest) = inside.ok_or_else(|| refused(ABSOLUTE_OUTSIDE))?;
        let slash = if path.ends_with('/') && !rest.as_os_str().is_empty() { "/" } else { "" };
        Ok((root, format!("{}{slash}", rest.display())))
    }

    /// Replaces the path in an error by the one that the caller used, and lists the other roots.
    pub(super) fn with_path(&self, error: ToolsError, requested: &str) -> ToolsError {
        let path = requested.to_owned();
        match error {
            ToolsError::Outside { why, .. } => ToolsError::Outside { path, why, others: self.others() },
            ToolsError::NotFound { .. } => ToolsError::NotFound { path },
            other => other,
        }
    }

    /// The roots other than the working directory, for [`ToolsError::Outside`].
    fn others(&self) -> String {
        let others: Vec<String> = self.iter().skip(1).map(FileRoot::to_string).collect();
        match others.as_slice() {
            [] => String::new(),
            some => format!(", or an absolute path inside {}", some.join(", ")),
        }
    }

    /// How paths are written, for the JSON Schema of a tool.
    pub(crate) fn path_syntax(&self) -> String {
        let others: Vec<String> = self.iter().skip(1).map(FileRoot::to_string).collect();
        match others.as_slice() {
            [] => "Relative to the working directory.".to_owned(),
            some => format!("Relative to the working directory, or absolute inside {}.", some.join(", ")),
        }
    }
}

/// A comma-separated list.
impl fmt::Display for FileRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().map(FileRoot::to_string).collect::<Vec<_>>().join(", "))
    }
}

//! The directories that file tools reach: the first by relative paths, the others by absolute ones.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use super::root::{ELSEWHERE, Place, Root};
use crate::ToolsError;

/// One root or several. Each is closed for itself: a link from one into another leads outside.
#[derive(Debug, Clone)]
pub struct Roots(Arc<[Root]>);

impl From<Root> for Roots {
    fn from(root: Root) -> Self {
        Self([root].into())
    }
}

impl Roots {
    /// The first is the working directory. Of a root inside another nobody could say what it may.
    pub fn new(first: Root, others: Vec<Root>) -> Result<Self, ToolsError> {
        let others = others.into_iter().map(Root::beside);
        let all: Vec<Root> = std::iter::once(first).chain(others).collect();
        for (at, root) in all.iter().enumerate() {
            let overlap =
                |(other_at, other): &(usize, &Root)| *other_at != at && root.path().starts_with(other.path());
            if let Some((_, outer)) = all.iter().enumerate().find(overlap) {
                let (inner, outer) = (root.path().to_owned(), outer.path().to_owned());
                return Err(ToolsError::Overlap { inner, outer });
            }
        }
        Ok(Self(all.into()))
    }

    /// The working directory.
    pub fn first(&self) -> &Root {
        &self.0[0]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.0.iter()
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.iter().map(|root| root.path().to_owned()).collect()
    }

    /// The root that has this path.
    pub(super) fn at(&self, dir: &Path) -> Option<&Root> {
        self.iter().find(|root| root.path() == dir)
    }

    /// Finds what `path` names, if that is inside one of them.
    pub(crate) fn resolve(&self, path: &str) -> Result<Place, ToolsError> {
        let (root, relative) = self.split(path)?;
        root.resolve(&relative).map_err(|error| self.named(error, path))
    }

    /// The root that a path is meant to be in, and the way from there.
    pub(super) fn split(&self, path: &str) -> Result<(&Root, String), ToolsError> {
        let meant = Path::new(path);
        if !meant.is_absolute() {
            return Ok((self.first(), path.to_owned()));
        }
        let refused = |why| self.named(ToolsError::outside(path, why), path);
        if meant.components().any(|part| part == Component::ParentDir) {
            return Err(refused("goes up with `..`"));
        }
        let inside = self.iter().find_map(|root| Some((root, meant.strip_prefix(root.path()).ok()?)));
        let (root, rest) = inside.ok_or_else(|| refused(ELSEWHERE))?;
        let slash = if path.ends_with('/') && !rest.as_os_str().is_empty() { "/" } else { "" };
        Ok((root, format!("{}{slash}", rest.display())))
    }

    /// An error about a path inside a root, in the words of the caller and with all that can be reached.
    pub(super) fn named(&self, error: ToolsError, asked: &str) -> ToolsError {
        let path = asked.to_owned();
        match error {
            ToolsError::Outside { why, .. } => ToolsError::Outside { path, why, others: self.others() },
            ToolsError::NotFound { .. } => ToolsError::NotFound { path },
            other => other,
        }
    }

    /// What a model is told beside the working directory; nothing where that is all.
    fn others(&self) -> String {
        let others: Vec<String> = self.iter().skip(1).map(Root::to_string).collect();
        match others.as_slice() {
            [] => String::new(),
            some => format!(", or inside {}, by an absolute one", some.join(", ")),
        }
    }

    /// How a path is to be written, for the schema of a tool.
    pub(crate) fn how_to_name(&self) -> String {
        let others: Vec<String> = self.iter().skip(1).map(Root::to_string).collect();
        match others.as_slice() {
            [] => "Relative to the working directory.".to_owned(),
            some => format!("Relative to the working directory, or absolute inside {}.", some.join(", ")),
        }
    }
}

/// For people.
impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().map(Root::to_string).collect::<Vec<_>>().join(", "))
    }
}

//! File tools, confined to a set of root directories.
//!
//! | module | contents |
//! |---|---|
//! | `read`, `list`, `search` | the tools that read: `read_file`, `list_files`, `search_files` |
//! | `write`, `edit`, `undo` | the tools that write: `write_file`, `edit_file`, `undo_edit` |
//! | `root`, `roots` | root directories and path resolution that cannot escape them |
//! | `context` | shared context of the writing tools; undo records and diffs |
//! | `versions` | the last known version of each file, to detect changes by others |
//! | `write_target` | atomic replacement of a file |
//! | `walk` | directory traversal that respects `.gitignore` |

mod context;
mod edit;
mod list;
mod read;
mod root;
mod roots;
mod search;
mod undo;
mod versions;
mod walk;
mod write;
mod write_target;

pub use context::FileToolContext;
pub use edit::EditFile;
pub use list::ListFiles;
pub use read::ReadFile;
pub use root::FileRoot;
pub use roots::FileRoots;
pub use search::SearchFiles;
pub use undo::UndoEdit;
pub use versions::FileVersions;
pub use write::WriteFile;

#[cfg(test)]
mod attacks;

//! The tools that look at files and change them, and the directories that they cannot leave.

mod change;
mod edit;
mod list;
mod read;
mod root;
mod roots;
mod search;
mod seen;
mod target;
mod undo;
mod walk;
mod write;

pub use change::Desk;
pub use edit::EditFile;
pub use list::ListFiles;
pub use read::ReadFile;
pub use root::Root;
pub use roots::Roots;
pub use search::SearchFiles;
pub use seen::Seen;
pub use undo::UndoEdit;
pub use write::WriteFile;

#[cfg(test)]
mod attacks;

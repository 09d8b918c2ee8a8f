//! The tools that look at files, and the directory that they cannot leave.

mod list;
mod media;
mod read;
mod root;
mod search;
mod walk;
mod work;

pub use list::ListFiles;
pub use read::ReadFile;
pub use root::Root;
pub use search::SearchFiles;

#[cfg(test)]
mod attacks;

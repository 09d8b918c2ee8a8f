//! What an agent may do to the world: one small port, and the tools that are built in.
//!
//! | read | for |
//! |---|---|
//! | [`tool`] | the port: what a tool says of itself, and one call of it |
//! | [`host`] | what a tool may ask of the turn it runs in |
//! | [`policy`] | whether a call may run: rules, and a reading of shell commands |
//! | [`rules`] | what a person allowed for good, to be listed and revoked |
//! | [`registry`] | the tools of one agent, each name once |
//! | [`error`] | why a call failed, in words that the model reads |
//! | [`now`], [`calculate`] | the clock and the calculator |
//! | [`files`] | `read_file`, `list_files`, `search_files`, `write_file`, `edit_file`, `undo_edit`, all inside the roots |
//! | [`exec`] | `exec`, `exec_start`, `exec_status`, `exec_stop`, and the cage that commands run in |
//! | [`fetch`] | `fetch`: pages from the open Internet |
//! | [`mcp`] | tools of MCP servers |
//! | [`command`] | tools that are commands of one's own |
//! | [`mask`] | secrets that no answer of a tool may hold |
//! | [`kept`] | whole outputs beside the conversation, and `read_output` |
//! | [`stub`] | tools that a configuration makes up: fixed answers, failures, long jobs |
//!
//! **Invariant.** A tool knows no session, no event and no provider: it reaches the turn through [`Host`] alone. It never
//! ends a turn either: whatever goes wrong is an [`Error`], and its text is an answer for the model.

use std::{path::Path, sync::Arc};

mod args;
pub mod calculate;
pub mod command;
pub mod error;
pub mod exec;
pub mod fetch;
pub mod files;
pub mod host;
pub mod kept;
pub mod mask;
pub mod mcp;
mod media;
pub mod now;
mod paging;
pub mod policy;
pub mod registry;
pub mod rules;
pub mod stub;
#[cfg(test)]
mod testing;
pub mod tool;
mod work;

pub use error::Error;
pub use host::{Body, File, Host, Owner};
pub use kept::Kept;
pub use mask::Mask;
pub use registry::Registry;
pub use rules::RuleBook;
pub use tool::{Call, Effect, Outcome, Safety, Spec, Tool};

/// The tools that need no configuration; those for files see nothing outside `root`.
pub fn built_in(root: &Path) -> Result<Registry, Error> {
    let roots = files::Root::new(root)?.into();
    let mut registry = Registry::new();
    for tool in looking(&roots, &files::Seen::default()) {
        registry.add("built in", tool)?;
    }
    Ok(registry)
}

/// All tools that are built in. Those that act are for agents that somebody watches, or that a [`policy`] holds.
/// `reach` is what `fetch` may reach beside the open Internet.
pub fn all_built_in(shell: exec::Shell, reach: fetch::Allowed) -> Result<Registry, Error> {
    let desk =
        files::Desk { roots: shell.roots.clone(), seen: files::Seen::default(), kept: shell.kept.clone() };
    let shell = Arc::new(shell);
    let jobs = exec::Jobs::new(Arc::clone(&shell));
    let acting: [Arc<dyn Tool>; 9] = [
        Arc::new(files::WriteFile::new(desk.clone())),
        Arc::new(files::EditFile::new(desk.clone())),
        Arc::new(files::UndoEdit::new(desk.clone())),
        Arc::new(exec::Exec::new(shell)),
        Arc::new(exec::ExecStart::new(Arc::clone(&jobs))),
        Arc::new(exec::ExecStatus::new(Arc::clone(&jobs))),
        Arc::new(exec::ExecStop::new(jobs)),
        Arc::new(kept::ReadOutput::new(desk.kept.clone())),
        Arc::new(fetch::Fetch::new(desk.kept.clone(), reach)),
    ];
    let mut registry = Registry::new();
    for tool in looking(&desk.roots, &desk.seen).into_iter().chain(acting) {
        registry.add("built in", tool)?;
    }
    Ok(registry)
}

fn looking(roots: &files::Roots, seen: &files::Seen) -> [Arc<dyn Tool>; 5] {
    [
        Arc::new(now::Now::new()),
        Arc::new(calculate::Calculate::new()),
        Arc::new(files::ReadFile::new(roots.clone(), seen.clone())),
        Arc::new(files::ListFiles::new(roots.clone())),
        Arc::new(files::SearchFiles::new(roots.clone())),
    ]
}

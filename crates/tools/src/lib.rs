//! Tools that an agent can call: the port that they implement, the built-in tools, and the approval policy.
//!
//! | module | contents |
//! |---|---|
//! | [`tool`] | the port [`Tool`]: the description of a tool, and one call of it |
//! | [`host`] | [`ToolHost`]: services of a turn for its tools |
//! | [`policy`] | approval: rules, stored rules, and the analysis of shell commands |
//! | [`registry`] | [`ToolRegistry`]: the tools of one agent, with unique names |
//! | [`error`] | [`ToolsError`]: why a call failed, as text for the model |
//! | [`now`], [`calculate`] | clock and calculator |
//! | [`files`] | `read_file`, `list_files`, `search_files`, `write_file`, `edit_file`, `undo_edit`, confined to root directories |
//! | [`exec`] | `exec`, `exec_start`, `exec_status`, `exec_stop`, and the sandbox of commands |
//! | [`fetch`] | `fetch`: HTTP GET with protection against SSRF |
//! | [`mcp`] | tools of MCP servers |
//! | [`command`] | configured commands as tools |
//! | [`mask`] | redaction of secrets in results |
//! | [`outputs`] | the store of long outputs, and `read_output` |
//! | [`stub`] | stub tools for tests and demonstrations |
//! | `args`, `blocking`, `charset`, `http`, `media`, `paging` | argument parsing, cancellable blocking work, character encodings, HTTP clients, binary detection, excerpts of long text |
//!
//! **Invariant.** A tool knows no session, event or provider: it reaches the turn only through [`ToolHost`]. A failing tool
//! never ends the turn: every failure is a [`ToolsError`], whose text becomes the result for the model.

use std::{path::Path, sync::Arc};

mod args;
mod blocking;
pub mod calculate;
mod charset;
pub mod command;
pub mod error;
pub mod exec;
pub mod fetch;
pub mod files;
pub mod host;
mod http;
pub mod mask;
pub mod mcp;
mod media;
pub mod now;
pub mod outputs;
mod paging;
pub mod policy;
pub mod registry;
pub mod stub;
#[cfg(test)]
mod testing;
pub mod tool;

pub use error::ToolsError;
pub use host::{AppUser, ArtifactBody, ArtifactFile, ToolHost};
pub use mask::Mask;
pub use outputs::{OutputStore, is_untrusted_handle};
pub use policy::RuleBook;
pub use registry::ToolRegistry;
pub use tool::{Effect, Safety, SandboxAccess, SandboxProfile, Spec, Tool, ToolReply, ToolRequest};

/// The built-in tools that need no configuration and change nothing. File tools are confined to `root`.
pub fn built_in(root: &Path) -> Result<ToolRegistry, ToolsError> {
    let roots = files::FileRoot::new(root)?.into();
    let mut registry = ToolRegistry::new();
    for tool in read_only_tools(&roots, &files::FileVersions::default()) {
        registry.add("built in", tool)?;
    }
    Ok(registry)
}

/// All built-in tools. Those with side effects need a [`policy`] or a person who approves calls. `allowed` lists addresses
/// that `fetch` may connect to in addition to the public Internet.
pub fn all_built_in(
    exec: exec::ExecToolContext,
    allowed: fetch::AllowedAddrs,
) -> Result<ToolRegistry, ToolsError> {
    let files = files::FileToolContext {
        roots: exec.roots.clone(),
        versions: files::FileVersions::default(),
        outputs: exec.outputs.clone(),
    };
    let exec = Arc::new(exec);
    let jobs = exec::BackgroundJobs::new(Arc::clone(&exec));
    let others: [Arc<dyn Tool>; 9] = [
        Arc::new(files::WriteFile::new(files.clone())),
        Arc::new(files::EditFile::new(files.clone())),
        Arc::new(files::UndoEdit::new(files.clone())),
        Arc::new(exec::Exec::new(exec)),
        Arc::new(exec::ExecStart::new(Arc::clone(&jobs))),
        Arc::new(exec::ExecStatus::new(Arc::clone(&jobs))),
        Arc::new(exec::ExecStop::new(jobs)),
        Arc::new(outputs::ReadOutput::new(files.outputs.clone())),
        Arc::new(fetch::Fetch::new(files.outputs.clone(), allowed)),
    ];
    let mut registry = ToolRegistry::new();
    for tool in read_only_tools(&files.roots, &files.versions).into_iter().chain(others) {
        registry.add("built in", tool)?;
    }
    Ok(registry)
}

fn read_only_tools(roots: &files::FileRoots, versions: &files::FileVersions) -> [Arc<dyn Tool>; 5] {
    [
        Arc::new(now::Now::new()),
        Arc::new(calculate::Calculate::new()),
        Arc::new(files::ReadFile::new(roots.clone(), versions.clone())),
        Arc::new(files::ListFiles::new(roots.clone())),
        Arc::new(files::SearchFiles::new(roots.clone())),
    ]
}

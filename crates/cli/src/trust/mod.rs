//! Folder trust: settings that are found in a folder apply only after a person has trusted the folder.
//!
//! | read | for |
//! |---|---|
//! | [`permission`] | what settings can do, as a list |
//! | `keys` | the rule of every key of `lango.toml` |
//! | `derive` | the list of a folder, derived from the files that were read |
//! | `list`, `prompt` | the list as text, and the question on the terminal |
//! | `store` | the trusted folders and their lists, in the data directory |
//!
//! **Invariant.** The list is derived from the parsed files that are then used, so that a file that changes meanwhile is not used
//! unjudged. Agents are read again later; each time, their own list must be a subset of the trusted one.

mod derive;
mod keys;
mod list;
mod permission;
mod prompt;
mod store;

pub(crate) use list::{lines, visible};
pub(crate) use permission::Permissions;
pub(crate) use store::{TrustError, TrustStore};

use crate::config::AgentConfig;
use derive::FolderPaths;
use lock::LockExt;
use permission::Permission;
use serde_json::{Map, Value};
use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// The settings files of a folder, parsed.
pub(crate) struct FolderFiles<'a> {
    /// Without symbolic links.
    pub(crate) folder: &'a Path,
    /// The `lango.toml`.
    pub(crate) file: Option<&'a Map<String, Value>>,
    /// The `.mcp.json`.
    pub(crate) project: Option<&'a Value>,
    /// The agents that can be parsed.
    pub(crate) agents: &'a [(String, AgentConfig)],
    /// The person's own configuration file, which the folder's file replaces.
    pub(crate) own_file: Option<PathBuf>,
}

/// A folder with the permissions that its settings need.
#[derive(Clone, Debug)]
pub(crate) struct TrustRequest {
    pub(crate) folder: PathBuf,
    pub(crate) permissions: Permissions,
    /// The person's own configuration file, which the folder's file replaces. Not a permission: it is not the folder that changes
    /// when a person creates that file.
    own_file: Option<PathBuf>,
}

impl TrustRequest {
    pub(crate) fn new(files: &FolderFiles<'_>) -> Self {
        let paths = FolderPaths { folder: files.folder, real: &real_path };
        let mut permissions = Permissions::new();
        if let Some(file) = files.file {
            permissions.extend(derive::of_file(file, paths));
        }
        permissions.extend(files.project.map(|file| derive::of_project(file, paths)).into_iter().flatten());
        permissions.extend(files.agents.iter().flat_map(|(app, config)| derive::of_agent(app, config)));
        permissions.extend(writers(files.folder));
        let own_file = files.own_file.clone().filter(|_| files.file.is_some());
        Self { folder: files.folder.to_owned(), permissions, own_file }
    }

    /// Says that the person's own settings do not apply in the folder.
    pub(crate) fn own_settings_note(&self) -> Option<String> {
        let file = visible(&self.own_file.as_ref()?.display().to_string());
        Some(format!("Your own settings in {file} do not apply there."))
    }
}

/// Resolves the symbolic links of a path as far as it exists. `..` behind a part that does not exist is resolved textually.
fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(std::path::Component::Normal(name))) => real_path(parent).join(name),
        (Some(parent), Some(std::path::Component::ParentDir)) => {
            let parent = real_path(parent);
            parent.parent().map_or_else(|| parent.clone(), Path::to_path_buf)
        }
        (Some(parent), Some(_)) => real_path(parent),
        (None, _) | (_, None) => path.to_owned(),
    }
}

/// Other users who can change the settings files.
fn writers(folder: &Path) -> Permissions {
    let own = rustix::process::geteuid().as_raw();
    let mut found = Permissions::new();
    for name in ["", "lango.toml", ".mcp.json", "agents"] {
        let Ok(metadata) = fs::metadata(folder.join(name)) else { continue };
        let owner =
            (![own, 0].contains(&metadata.uid())).then(|| format!("the user with the id {}", metadata.uid()));
        let everyone = (metadata.mode() & 0o002 != 0).then(|| "every user of this machine".to_owned());
        found.extend(owner.into_iter().chain(everyone).map(|who| Permission::ChangedByOthers { who }));
    }
    found
}

/// Whether the settings of the working directory apply.
#[derive(Clone, Debug, Default)]
pub(crate) enum FolderStatus {
    /// It has none, or all of them were named explicitly.
    #[default]
    NoSettings,
    Trusted,
    Untrusted(UntrustedFolder),
}

impl FolderStatus {
    pub(crate) fn untrusted(&self) -> Option<&UntrustedFolder> {
        match self {
            Self::Untrusted(folder) => Some(folder),
            Self::NoSettings | Self::Trusted => None,
        }
    }

    /// Fails if the folder has settings that are not trusted.
    pub(crate) fn require_trust(&self) -> anyhow::Result<()> {
        match self.untrusted() {
            Some(folder) => Err(anyhow::anyhow!(folder.explain("pass --trust for this start only, or "))),
            None => Ok(()),
        }
    }
}

/// A folder whose settings are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UntrustedFolder {
    pub(crate) folder: PathBuf,
    /// Whether it was trusted with fewer permissions.
    is_known: bool,
    /// Why the trusted folders cannot be read or stored.
    problem: Option<String>,
}

impl UntrustedFolder {
    /// One line that says what happens instead.
    pub(crate) fn note(&self) -> String {
        format!("the settings of this folder are not used: {self}")
    }

    /// The reason and the command that grants trust, with an alternative before the command.
    fn explain(&self, alternative: &str) -> String {
        if let Some(problem) = &self.problem {
            return problem.clone();
        }
        let folder = visible(&self.folder.display().to_string());
        let (why, again) = if self.is_known {
            ("does more than when it was trusted", " again")
        } else {
            ("is not trusted", "")
        };
        let path = shell_word(&folder);
        format!("{folder} {why}; {alternative}review and trust it{again} with: lango trust add {path}")
    }
}

impl fmt::Display for UntrustedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain(""))
    }
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Whether a person may be asked about a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustPrompt {
    Allowed,
    Never,
}

/// Decides whether the settings of a folder apply, by the stored list or by asking.
pub(crate) fn decide(
    request: &TrustRequest,
    store: &TrustStore,
    prompt: TrustPrompt,
) -> Result<FolderGuard, UntrustedFolder> {
    let refused = |is_known: bool, problem: Option<String>| UntrustedFolder {
        folder: request.folder.clone(),
        is_known,
        problem,
    };
    let failed = |error: TrustError| refused(false, Some(format!("the folder is not trusted: {error}")));
    let granted = store.granted(&request.folder).map_err(failed)?;
    let is_known = granted.is_some();
    let new: Permissions = match &granted {
        Some(granted) => request.permissions.difference(granted).cloned().collect(),
        None => request.permissions.clone(),
    };
    if let Some(granted) = granted.filter(|_| new.is_empty()) {
        return Ok(FolderGuard::new(request, store, granted));
    }
    let answer = match prompt {
        TrustPrompt::Allowed => prompt::ask(request, &new, is_known).unwrap_or_default(),
        TrustPrompt::Never => None,
    };
    if answer != Some(true) {
        return Err(refused(is_known, None));
    }
    let all = store.extend(&request.folder, &request.permissions).map_err(failed)?;
    Ok(FolderGuard::new(request, store, all))
}

/// Checks the agents of a trusted folder each time that they are read.
#[derive(Clone, Debug)]
pub(crate) struct FolderGuard {
    folder: PathBuf,
    store: TrustStore,
    granted: Arc<Mutex<Permissions>>,
}

impl FolderGuard {
    fn new(request: &TrustRequest, store: &TrustStore, granted: Permissions) -> Self {
        let granted = Arc::new(Mutex::new(granted));
        Self { folder: request.folder.clone(), store: store.clone(), granted }
    }

    /// Fails if the agent does more than the folder was trusted with. Trust that was added meanwhile counts.
    pub(crate) fn check(&self, app: &str, config: &AgentConfig) -> Result<(), UntrustedFolder> {
        let needed = derive::of_agent(app, config);
        let mut granted = self.granted.locked();
        if needed.is_subset(&granted) {
            return Ok(());
        }
        let refused = |problem| UntrustedFolder { folder: self.folder.clone(), is_known: true, problem };
        let stored = self.store.granted(&self.folder).map_err(|error| refused(Some(error.to_string())))?;
        match stored.filter(|stored| needed.is_subset(stored)) {
            Some(stored) => {
                *granted = stored;
                Ok(())
            }
            None => Err(refused(None)),
        }
    }
}

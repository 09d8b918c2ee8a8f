//! Finds the configuration and the settings of the working directory. Each file is read once: what trust is decided on is what is
//! used.

use super::{
    AgentsDir, ConfigError, Env, agents,
    file::ConfigFile,
    mcp::{PROJECT_FILE, ProjectSource},
    regular_file::{self, read_regular_file},
};
use crate::{
    args::LocationArgs,
    trust::{self, FolderFiles, FolderGuard, FolderStatus, TrustPrompt, TrustRequest, TrustStore},
};
use ::tools::policy::Decision;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The name of the configuration file.
const FILE: &str = "lango.toml";

/// Where settings come from, which decides whether they need trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsOrigin {
    /// Found in the working directory. They need trust.
    Folder,
    /// Named by an option or a variable.
    Explicit,
    /// In the data directory.
    Home,
}

/// The places where settings are searched.
#[derive(Clone, Copy)]
pub(super) struct SearchPlaces<'a> {
    pub(super) location: &'a LocationArgs,
    pub(super) env: &'a Env,
    pub(super) workdir: &'a Path,
    /// The working directory as it is prefixed to paths: empty, so that errors show relative paths.
    pub(super) prefix: &'a Path,
    pub(super) home: &'a Path,
}

/// The settings that apply, before variables are resolved.
pub(super) struct SettingsSources {
    pub(super) path: Option<PathBuf>,
    pub(super) file: ConfigFile,
    /// The origin of the file.
    pub(super) origin: SettingsOrigin,
    pub(super) project: Option<ProjectSource>,
    pub(super) agents: AgentsDir,
    pub(super) status: FolderStatus,
}

/// A configuration file as it was read.
struct FoundFile {
    path: Option<PathBuf>,
    file: ConfigFile,
    /// The same text without types.
    table: Map<String, Value>,
    origin: SettingsOrigin,
}

/// Everything that was found, trusted or not.
struct FoundSettings {
    config: FoundFile,
    project: Option<(ProjectSource, SettingsOrigin)>,
    agents: (PathBuf, SettingsOrigin),
    /// The agents of the folder that can be parsed, and whether there are any.
    apps: (Vec<(String, super::AgentConfig)>, bool),
}

impl SearchPlaces<'_> {
    /// Finds the settings, and decides on trust. Settings of a folder that is not trusted are left out as if they did not exist.
    pub(super) fn find(self, prompt: TrustPrompt) -> Result<SettingsSources, ConfigError> {
        let found = self.read(true)?;
        if !found.has_folder_settings() {
            return Ok(found.into_sources(FolderStatus::NoSettings, None));
        }
        if self.location.trust {
            return Ok(found.into_sources(FolderStatus::Trusted, None));
        }
        let request = self.request(&found, &self.folder()?);
        match trust::decide(&request, &TrustStore::new(self.home), prompt) {
            Ok(guard) => Ok(found.into_sources(FolderStatus::Trusted, Some(guard))),
            Err(untrusted) => {
                let ignored = (found.agents.1 == SettingsOrigin::Folder).then_some(found.agents.0);
                let remaining = self.read(false)?.without_folder();
                let has_agents = remaining.agents.1 != SettingsOrigin::Folder;
                let mut sources = remaining.into_sources(FolderStatus::NoSettings, None);
                sources.agents.path = sources.agents.path.filter(|_| has_agents);
                sources.agents.ignored = ignored.map(|dir| (dir, untrusted.clone()));
                Ok(SettingsSources { status: FolderStatus::Untrusted(untrusted), ..sources })
            }
        }
    }

    /// The permissions that the settings of this folder need; `None` if it has no settings.
    pub(super) fn trust_request(self) -> Result<Option<TrustRequest>, ConfigError> {
        let found = self.read(true)?;
        let folder = self.folder()?;
        Ok(found.has_folder_settings().then(|| self.request(&found, &folder)))
    }

    fn folder(self) -> Result<PathBuf, ConfigError> {
        self.workdir.canonicalize().map_err(ConfigError::WorkingDirectory)
    }

    fn request(self, found: &FoundSettings, folder: &Path) -> TrustRequest {
        let from_folder = found.config.origin == SettingsOrigin::Folder && found.config.path.is_some();
        let own = self.home.join(FILE);
        TrustRequest::new(&FolderFiles {
            folder,
            file: from_folder.then_some(&found.config.table),
            project: match &found.project {
                Some((project, SettingsOrigin::Folder)) => project.value(),
                Some(_) | None => None,
            },
            agents: &found.apps.0,
            own_file: own.exists().then_some(own),
        })
    }

    fn read(self, with_folder: bool) -> Result<FoundSettings, ConfigError> {
        let config = self.config_file(with_folder)?;
        let project = self.project(&config);
        let agents = self.agents_dir(&config);
        let apps = if agents.1 == SettingsOrigin::Folder {
            agents::parse_all(&agents.0)
        } else {
            Default::default()
        };
        Ok(FoundSettings { config, project, agents, apps })
    }

    /// The file of `--config`, or the first default file that exists, or none.
    fn config_file(self, with_folder: bool) -> Result<FoundFile, ConfigError> {
        if let Some(path) = &self.location.config {
            if !path.exists() {
                return Err(ConfigError::Missing { path: path.clone(), named_by: "--config".to_owned() });
            }
            // Any kind of file: the person has named it, and it may be the pipe of a shell.
            let text = std::fs::read_to_string(path).map_err(|source| read_error(path, source))?;
            return FoundFile::parse(path.clone(), &text, SettingsOrigin::Explicit);
        }
        let in_folder = (self.prefix.join(FILE), self.folder_origin());
        let in_home = (self.home.join(FILE), SettingsOrigin::Home);
        let places = with_folder.then_some(in_folder).into_iter().chain([in_home]);
        for (path, origin) in places.filter(|(path, _)| !is_empty_dir(path)) {
            let text = regular_file::if_exists(read_regular_file(&path))
                .map_err(|source| read_error(&path, source))?;
            if let Some(text) = text {
                return FoundFile::parse(path, &text, origin);
            }
        }
        let (file, table) = Default::default();
        Ok(FoundFile { path: None, file, table, origin: self.folder_origin() })
    }

    /// The data directory is trusted also if it is the working directory.
    fn folder_origin(self) -> SettingsOrigin {
        let is_home = self
            .home
            .canonicalize()
            .is_ok_and(|home| self.workdir.canonicalize().is_ok_and(|dir| dir == home));
        if is_home { SettingsOrigin::Home } else { SettingsOrigin::Folder }
    }

    fn agents_dir(self, config: &FoundFile) -> (PathBuf, SettingsOrigin) {
        let named = self.location.agents_dir.clone().or_else(|| self.env.path("LANGO_AGENTS_DIR"));
        if let Some(dir) = named {
            return (dir, SettingsOrigin::Explicit);
        }
        let base = config.path.as_deref().map_or(self.prefix, |path| path.parent().unwrap_or(Path::new("")));
        let dir = config.file.agents_dir.clone().unwrap_or_else(|| PathBuf::from("agents"));
        (base.join(dir), config.origin)
    }

    /// The working directory's `.mcp.json`. `mcpJson = "allow"` in a file that is not the folder's allows that of every folder.
    fn project(self, config: &FoundFile) -> Option<(ProjectSource, SettingsOrigin)> {
        let decision = config.file.mcp_json.unwrap_or(Decision::Ask);
        let origin = if decision == Decision::Allow { config.origin } else { self.folder_origin() };
        let file = self.workdir.join(PROJECT_FILE);
        if decision == Decision::Deny || is_empty_dir(&file) {
            return None;
        }
        let text = regular_file::if_exists(read_regular_file(&file)).transpose()?;
        Some((ProjectSource::new(file, text), origin))
    }
}

impl FoundSettings {
    fn into_sources(self, status: FolderStatus, guard: Option<FolderGuard>) -> SettingsSources {
        let FoundSettings { config: FoundFile { path, file, origin, .. }, project, agents, .. } = self;
        let (dir, agents_origin) = agents;
        let guard = guard.filter(|_| agents_origin == SettingsOrigin::Folder);
        let agents = AgentsDir { path: Some(dir), guard, ignored: None };
        SettingsSources { path, file, origin, project: project.map(|(project, _)| project), agents, status }
    }

    fn has_folder_settings(&self) -> bool {
        let Self { config, project, agents, apps } = self;
        let of_folder = |origin: SettingsOrigin| origin == SettingsOrigin::Folder;
        let has_servers =
            project.as_ref().is_some_and(|(project, origin)| of_folder(*origin) && project.has_servers());
        config.path.is_some() && of_folder(config.origin) || has_servers || of_folder(agents.1) && apps.1
    }

    fn without_folder(self) -> Self {
        let project = self.project.filter(|(_, origin)| *origin != SettingsOrigin::Folder);
        Self { project, ..self }
    }
}

impl FoundFile {
    fn parse(path: PathBuf, text: &str, origin: SettingsOrigin) -> Result<Self, ConfigError> {
        let file = ConfigFile::parse(&path, text)?;
        let table = toml::from_str(text).map_err(|error| super::file::syntax(&path, text, &error))?;
        Ok(Self { path: Some(path), file, table, origin })
    }
}

/// An empty directory is a placeholder of the sandbox: a command that is running must not create the file.
fn is_empty_dir(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}

fn read_error(path: &Path, source: std::io::Error) -> ConfigError {
    ConfigError::Read { path: path.to_path_buf(), source }
}

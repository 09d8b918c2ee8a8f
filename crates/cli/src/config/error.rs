//! Errors of the configuration: one sentence each, with the location and the fix.

use crate::trust::UntrustedFolder;
use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("the working directory cannot be found")]
    WorkingDirectory(#[source] io::Error),
    #[error("there is no home directory to store sessions in; set LANGO_HOME to a directory of your choice")]
    NoHome,
    #[error("{} cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{named_by} names {}, which does not exist", path.display())]
    Missing { path: PathBuf, named_by: String },
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, column: usize, message: String },
    #[error("{}: {message}", path.display())]
    Value { path: PathBuf, message: String },
    #[error("{name} is {value:?}, which is not {wanted}")]
    Variable { name: String, value: String, wanted: &'static str },
    #[error("there is no agent {name:?} in {}; the agents are {known}", dir.display())]
    UnknownApp { name: String, dir: PathBuf, known: String },
    #[error("{} is not read; rename it to root_agent.yaml", path.display())]
    MisnamedAgent { path: PathBuf },
    #[error("{} has several agents ({known}); choose one with --app NAME, or with `app` in lango.toml", dir.display())]
    WhichApp { dir: PathBuf, known: String },
    #[error("{0}")]
    Untrusted(UntrustedFolder),
    #[error("the agent {name:?} cannot be used: {folder}")]
    UntrustedApp { name: String, folder: UntrustedFolder },
    #[error("{}: {key} needs Python, which does not run here; {instead}", path.display())]
    NeedsPython { path: PathBuf, key: String, instead: &'static str },
}

//! Findings on configured programs: `[commands]` and MCP servers.

use super::{Finding, Health};
use crate::{config::Settings, wiring::Toolbox};
use rustix::fs::{Access, access};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tools::command::CommandConfig;

/// Each configured command whose program or working directory is missing.
pub(super) fn commands(settings: &Settings) -> Vec<Finding> {
    let path = &settings.tools.environment.path;
    let check = |command: &CommandConfig| match problem(command, path) {
        Some(problem) => {
            let message = format!("[commands.{}] in lango.toml: {problem}", command.spec.name);
            Finding::new("command", Health::Bad, message)
        }
        None => {
            Finding::new("command", Health::Ok, format!("{} runs {}", command.spec.name, command.argv[0]))
        }
    };
    settings.commands.iter().filter(|command| !command.argv.is_empty()).map(check).collect()
}

fn problem(command: &CommandConfig, path: &str) -> Option<String> {
    let (program, cwd) = (&command.argv[0], &command.cwd);
    if !cwd.is_dir() {
        return Some(format!(
            "its working directory {} does not exist; create it or correct `cwd`",
            cwd.display()
        ));
    }
    let found = candidates(program, cwd, path).into_iter().any(|file| is_executable(&file));
    let problem = if program.contains('/') {
        format!("{program} is not an executable file; correct the path or make it executable")
    } else {
        format!("the program {program} is not in PATH; install it or write its path")
    };
    (!found).then_some(problem)
}

fn candidates(program: &str, cwd: &Path, path: &str) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![cwd.join(program)];
    }
    std::env::split_paths(path).map(|dir| cwd.join(dir).join(program)).collect()
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Each MCP server: it is started, and its tools are listed.
pub(super) async fn servers(settings: &Settings) -> Vec<Finding> {
    // The finding on tools reports why there is no toolbox.
    let Ok(toolbox) = Toolbox::quiet(settings) else { return Vec::new() };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for server in settings.mcp.all() {
        counts.insert(&server.name, 0);
    }
    for listed in toolbox.servers.tools().await {
        if let Some(count) = counts.get_mut(&*listed.server) {
            *count += 1;
        }
    }
    let problems = toolbox.servers.problems();
    let works = |name: &str| !problems.iter().any(|(server, _)| server == name);
    let working = counts.iter().filter(|(name, _)| works(name)).map(|(name, count)| {
        let tools = if *count == 1 { "tool" } else { "tools" };
        Finding::new("mcp", Health::Ok, format!("{name} answers and has {count} {tools}"))
    });
    let broken = problems.iter().map(|(_, problem)| Finding::new("mcp", Health::Bad, problem.clone()));
    working.chain(broken).collect()
}

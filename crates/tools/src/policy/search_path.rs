//! Which programs of `PATH` belong to the project, and are therefore not the well-known ones of the same name.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Commands that the shell runs itself, whatever `PATH` contains.
const BUILTINS: [&str; 14] = [
    ":", "[", "cd", "command", "echo", "exit", "false", "printf", "pwd", "test", "true", "type", "wait",
    "times",
];

/// `PATH` for the classification of commands. Relative entries and entries inside a root belong to the project.
#[derive(Debug, Clone, Default)]
pub struct SearchPath {
    entries: Vec<PathBuf>,
    drops_project_entries: bool,
}

impl SearchPath {
    pub fn new(path: &str) -> Self {
        let entries = path.split(':').map(PathBuf::from).filter(|_| !path.is_empty()).collect();
        Self { entries, drops_project_entries: false }
    }

    /// The `read-only` profile searches only the entries outside of the project.
    pub fn without_project_entries(self) -> Self {
        Self { drops_project_entries: true, ..self }
    }

    /// The entry of the project that `name` would be found in, relative to any of `directories`.
    pub(super) fn project_entry(
        &self,
        name: &str,
        roots: &[PathBuf],
        directories: &[PathBuf],
    ) -> Option<&Path> {
        if BUILTINS.contains(&name) || name.contains('/') {
            return None;
        }
        let mut from_project = None;
        for entry in &self.entries {
            let is_found = if entry.is_absolute() {
                is_program(&entry.join(name))
            } else {
                directories.iter().any(|dir| is_program(&dir.join(entry).join(name)))
            };
            match (is_found, is_of_project(entry, roots)) {
                (true, true) => from_project = from_project.or(Some(entry.as_path())),
                (true, false) if self.drops_project_entries => return None,
                (true, false) => return from_project,
                (false, _) => {}
            }
        }
        from_project
    }
}

fn is_of_project(entry: &Path, roots: &[PathBuf]) -> bool {
    let resolved = entry.canonicalize();
    let found = resolved.as_deref().unwrap_or(entry);
    !entry.is_absolute() || roots.iter().any(|root| found.starts_with(root) || entry.starts_with(root))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn program_of_the_project_is_not_the_well_known_one() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, system) = (base.join("project"), base.join("system"));
        program(&root.join("bin/ls"));
        program(&system.join("ls"));
        program(&system.join("cat"));
        let roots = [root.clone()];
        let found = |path: String, name: &str| {
            let search = SearchPath::new(&path);
            let is_of_project = |search: &SearchPath| search.project_entry(name, &roots, &roots).is_some();
            (is_of_project(&search), is_of_project(&search.clone().without_project_entries()))
        };
        let system = system.display();
        let inside = root.join("bin");
        assert_eq!(found(format!("{}:{system}", inside.display()), "ls"), (true, false));
        assert_eq!(found(format!("bin:{system}"), "ls"), (true, false));
        assert_eq!(found(format!("{system}:bin"), "ls"), (false, false));
        assert_eq!(found("bin".to_owned(), "ls"), (true, true));
        assert_eq!(found(format!("bin:{system}"), "cat"), (false, false));
        assert_eq!(found("bin".to_owned(), "echo"), (false, false), "a builtin");
        assert_eq!(found(String::new(), "ls"), (false, false));
        std::os::unix::fs::symlink(&inside, base.join("link")).unwrap();
        assert_eq!(found(format!("{}:{system}", base.join("link").display()), "ls"), (true, false));
        // An empty entry is the working directory.
        program(&root.join("wc"));
        assert_eq!(found(format!(":{system}"), "wc"), (true, true));
    }
}

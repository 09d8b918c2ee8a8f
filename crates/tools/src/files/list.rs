//! `list_files`: lists a directory.

use futures::future::BoxFuture;
use ignore::DirEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{root::FileRoot, roots::FileRoots, walk::walk};
use crate::{
    Spec, Tool, ToolReply, ToolRequest, ToolsError, args,
    blocking::{self, CancelFlag},
};

const NAME: &str = "list_files";
const MAX_ENTRIES: usize = 400;
const MAX_DEPTH: usize = 16;

/// The tool `list_files`.
#[derive(Debug)]
pub struct ListFiles {
    spec: Spec,
    roots: FileRoots,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFilesArgs {
    path: Option<String>,
    #[serde(default, deserialize_with = "args::integer")]
    depth: Option<usize>,
}

impl ListFiles {
    pub fn new(roots: impl Into<FileRoots>) -> Self {
        let roots = roots.into();
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": format!("A directory. {} Default: the working directory.", roots.path_syntax())},
                "depth": {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH, "description": "How many levels to go down. Default: 1."},
            },
            "additionalProperties": false,
        });
        let description = "Lists files and directories (these end in /, links in @). Hidden and git-ignored ones are left out.";
        Self { spec: Spec::read_only(NAME, description, parameters), roots }
    }
}

impl Tool for ListFiles {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let roots = self.roots.clone();
        blocking::call(NAME, request, move |args, cancel| list(&roots, args, cancel))
    }
}

fn list(roots: &FileRoots, args: &ListFilesArgs, cancel: &CancelFlag) -> Result<Value, ToolsError> {
    let target = roots.resolve(args.path.as_deref().unwrap_or("."))?;
    if !target.metadata.is_dir() {
        return Err(ToolsError::WrongKind {
            path: target.display_path(),
            is: "a file",
            wanted: "a directory",
        });
    }
    let depth = args.depth.unwrap_or(1).clamp(1, MAX_DEPTH);
    let (mut entries, mut total) = (Vec::new(), 0_usize);
    walk(&target, Some(depth), cancel, &mut |entry| {
        total += 1;
        if entries.len() < MAX_ENTRIES {
            entries.push(format_entry(&target.root, entry));
        }
    })?;
    let mut answer = json!({"path": target.display_path(), "entries": entries, "total": total});
    if total > entries.len() {
        answer["note"] =
            format!("the first {} of {total}; list a subdirectory to see the rest", entries.len()).into();
    }
    Ok(answer)
}

fn format_entry(root: &FileRoot, entry: &DirEntry) -> String {
    let path = root.display_path(entry.path().strip_prefix(root.path()).unwrap_or(entry.path()));
    match entry.file_type() {
        Some(kind) if kind.is_dir() => format!("{path}/"),
        Some(kind) if kind.is_symlink() => format!("{path}@"),
        Some(_) | None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::call_tool;

    fn tree(files: &[&str]) -> (tempfile::TempDir, ListFiles) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let root = FileRoot::new(dir.path()).unwrap();
        (dir, ListFiles::new(root))
    }

    #[tokio::test]
    async fn lists_one_level_unless_depth_is_given() {
        let (_dir, tool) = tree(&["b.txt", "a/c.txt", "a/d/e.txt", ".hidden", ".git/config"]);
        let one = call_tool(&tool, json!({})).await.unwrap();
        assert_eq!(one, json!({"path": ".", "entries": ["a/", "b.txt"], "total": 2}));
        let two = call_tool(&tool, json!({"depth": 2})).await.unwrap();
        assert_eq!(two["entries"], json!(["a/", "a/c.txt", "a/d/", "b.txt"]));
        let below = call_tool(&tool, json!({"path": "a/"})).await.unwrap();
        assert_eq!(below, json!({"path": "a", "entries": ["a/c.txt", "a/d/"], "total": 2}));
    }

    #[tokio::test]
    async fn ignored_files_are_left_out_unless_their_directory_is_requested() {
        let (dir, tool) =
            tree(&["a/b/keep.rs", "a/b/drop.log", "out/x.o", "target/y.o", "target/CACHEDIR.TAG", ".ci/run"]);
        fs::write(dir.path().join(".gitignore"), "*.log\n/out\n").unwrap();
        assert_eq!(call_tool(&tool, json!({})).await.unwrap()["entries"], json!(["a/"]));
        assert_eq!(
            call_tool(&tool, json!({"path": "a/b"})).await.unwrap()["entries"],
            json!(["a/b/keep.rs"])
        );
        assert_eq!(call_tool(&tool, json!({"path": "out"})).await.unwrap()["entries"], json!(["out/x.o"]));
        assert_eq!(call_tool(&tool, json!({"path": ".ci"})).await.unwrap()["entries"], json!([".ci/run"]));
    }

    #[tokio::test]
    async fn gitignore_above_the_root_has_no_effect() {
        let (dir, _) = tree(&["inner/a.log", ".git/config"]);
        fs::write(dir.path().join(".gitignore"), "*.log\n").unwrap();
        let tool = ListFiles::new(FileRoot::new(&dir.path().join("inner")).unwrap());
        assert_eq!(call_tool(&tool, json!({})).await.unwrap()["entries"], json!(["a.log"]));
    }

    #[tokio::test]
    async fn long_list_is_truncated_with_the_total_count() {
        let names: Vec<String> = (0..500).map(|n| format!("f{n:03}")).collect();
        let (_dir, tool) = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let answer = call_tool(&tool, json!({})).await.unwrap();
        assert_eq!((answer["entries"].as_array().unwrap().len(), &answer["total"]), (400, &json!(500)));
        assert_eq!(answer["note"], "the first 400 of 500; list a subdirectory to see the rest");
    }

    #[tokio::test]
    async fn empty_directory_has_no_entries_and_a_file_is_rejected() {
        let (dir, tool) = tree(&["a.txt"]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        assert_eq!(call_tool(&tool, json!({"path": "empty"})).await.unwrap()["total"], 0);
        assert_eq!(
            call_tool(&tool, json!({"path": "a.txt"})).await.unwrap_err(),
            "`a.txt` is a file, not a directory"
        );
    }
}

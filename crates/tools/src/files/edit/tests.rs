//! `write_file`, `edit_file` and `undo_edit` on real files.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    files::{FileRoot, FileVersions, ReadFile, UndoEdit, WriteFile},
    outputs::OutputStore,
    testing::call_tool,
};

struct FileTools {
    dir: TempDir,
    read: ReadFile,
    write: WriteFile,
    edit: EditFile,
    undo: UndoEdit,
}

impl FileTools {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self::at(dir)
    }

    fn at(dir: TempDir) -> Self {
        let root = FileRoot::new(&dir.path().join("root")).unwrap();
        let context = FileToolContext {
            roots: root.into(),
            versions: FileVersions::default(),
            outputs: OutputStore::new(&dir.path().join("outputs")),
        };
        Self {
            read: ReadFile::new(context.roots.clone(), context.versions.clone()),
            write: WriteFile::new(context.clone()),
            edit: EditFile::new(context.clone()),
            undo: UndoEdit::new(context),
            dir,
        }
    }

    fn restarted(self) -> Self {
        Self::at(self.dir)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("root").join(name)
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    async fn edit(&self, old: &str, new: &str) -> Result<Value, String> {
        call_tool(&self.edit, json!({"path": "a.txt", "old": old, "new": new})).await
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn write_creates_missing_directories_and_leaves_no_temporary_file() {
    let tools = FileTools::new();
    let answer = call_tool(&tools.write, json!({"path": "a/b/c.txt", "content": "one\n"})).await.unwrap();
    assert_eq!((&answer["path"], &answer["bytes"]), (&json!("a/b/c.txt"), &json!(4)));
    assert_snapshot!(answer["diff"].as_str().unwrap(), @"
    --- /dev/null
    +++ b/a/b/c.txt
    @@ -0,0 +1 @@
    +one
    ");
    assert_eq!(tools.content("a/b/c.txt"), "one\n");
    assert_eq!(names(&tools.path("a/b")), ["c.txt"]);
}

#[tokio::test]
async fn edit_returns_the_previewed_diff_and_preserves_the_mode() {
    let tools = FileTools::new();
    fs::write(tools.path("a.txt"), "one\ntwo\nthree\n").unwrap();
    fs::set_permissions(tools.path("a.txt"), fs::Permissions::from_mode(0o750)).unwrap();
    let args = json!({"path": "a.txt", "old": "two", "new": "2"});
    let preview = tools.edit.preview(args.as_object().unwrap()).unwrap();
    assert_eq!(tools.content("a.txt"), "one\ntwo\nthree\n");
    let answer = call_tool(&tools.edit, args).await.unwrap();
    assert_eq!(answer["diff"], preview.as_str());
    assert_snapshot!(preview, @"
    --- a/a.txt
    +++ b/a.txt
    @@ -1,3 +1,3 @@
     one
    -two
    +2
     three
    ");
    assert_eq!(tools.content("a.txt"), "one\n2\nthree\n");
    assert_eq!(fs::metadata(tools.path("a.txt")).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn edit_requires_a_unique_match_unless_all_is_set() {
    let tools = FileTools::new();
    fs::write(tools.path("a.txt"), "x\ny\nx\n").unwrap();
    assert_eq!(
        tools.edit("x", "z").await.unwrap_err(),
        "bad arguments for `edit_file`: `old` occurs in `a.txt` 2 times (lines 1, 3); include more of the surrounding text, or set all: true"
    );
    assert!(tools.edit("q", "z").await.unwrap_err().contains("`old` does not occur in `a.txt`"));
    assert!(tools.edit("", "z").await.unwrap_err().contains("`old` is empty"));
    assert!(tools.edit("x", "x").await.unwrap_err().contains("are the same"));
    assert_eq!(tools.content("a.txt"), "x\ny\nx\n");
    let args = json!({"path": "a.txt", "old": "x", "new": "zz", "all": true});
    assert_eq!(call_tool(&tools.edit, args).await.unwrap()["replaced"], 2);
    assert_eq!(tools.content("a.txt"), "zz\ny\nzz\n");
}

#[tokio::test]
async fn file_changed_since_it_was_read_is_not_written() {
    let tools = FileTools::new();
    fs::write(tools.path("a.txt"), "one two").unwrap();
    call_tool(&tools.read, json!({"path": "a.txt"})).await.unwrap();
    // Same size, and possibly the same modification time.
    fs::write(tools.path("a.txt"), "one 222").unwrap();
    let changed = "`a.txt` has changed since it was read; read it again before you change it";
    assert_eq!(tools.edit("one", "1").await.unwrap_err(), changed);
    let write = json!({"path": "a.txt", "content": "new"});
    assert_eq!(call_tool(&tools.write, write.clone()).await.unwrap_err(), changed);
    assert_eq!(tools.content("a.txt"), "one 222");
    call_tool(&tools.read, json!({"path": "a.txt"})).await.unwrap();
    tools.edit("one", "1").await.unwrap();
    // The tools' own writes do not count as changes.
    tools.edit("1", "11").await.unwrap();
    call_tool(&tools.write, write).await.unwrap();
}

#[tokio::test]
async fn change_is_detected_after_a_partial_read() {
    let tools = FileTools::new();
    fs::write(tools.path("a.txt"), "one\ntwo\n").unwrap();
    call_tool(&tools.read, json!({"path": "a.txt", "offset": 2})).await.unwrap();
    fs::write(tools.path("a.txt"), "one\ntwo\nthree\n").unwrap();
    assert!(tools.edit("one", "1").await.unwrap_err().contains("has changed since it was read"));
}

#[tokio::test]
async fn repeated_write_of_the_same_content_does_not_touch_the_file() {
    let tools = FileTools::new();
    let args = json!({"path": "a.txt", "content": "one"});
    call_tool(&tools.write, args.clone()).await.unwrap();
    let before = fs::metadata(tools.path("a.txt")).unwrap().modified().unwrap();
    assert_eq!(call_tool(&tools.write, args).await.unwrap()["unchanged"], true);
    assert_eq!(fs::metadata(tools.path("a.txt")).unwrap().modified().unwrap(), before);
}

#[tokio::test]
async fn undo_reports_its_target_file() {
    let tools = FileTools::new();
    let made = call_tool(&tools.write, json!({"path": "lango.toml", "content": "x"})).await.unwrap();
    let args = json!({"undo": made["undo"]});
    assert_eq!(tools.undo.target(args.as_object().unwrap()).as_deref(), Some("lango.toml"));
}

#[tokio::test]
async fn changes_can_be_undone_after_a_restart_newest_first() {
    let tools = FileTools::new();
    let first = call_tool(&tools.write, json!({"path": "a.txt", "content": "one"})).await.unwrap();
    let second = tools.edit("one", "two").await.unwrap();
    let tools = tools.restarted();
    let early = call_tool(&tools.undo, json!({"undo": first["undo"]})).await.unwrap_err();
    assert!(early.contains("has changed since"), "{early}");
    assert_eq!(call_tool(&tools.undo, json!({"undo": second["undo"]})).await.unwrap()["undone"], true);
    assert_eq!(tools.content("a.txt"), "one");
    assert_eq!(call_tool(&tools.undo, json!({"undo": second["undo"]})).await.unwrap()["unchanged"], true);
    assert_eq!(call_tool(&tools.undo, json!({"undo": first["undo"]})).await.unwrap()["removed"], true);
    assert!(!tools.path("a.txt").exists());
    let unknown = call_tool(&tools.undo, json!({"undo": "edit-0123456789abcdef"})).await.unwrap_err();
    assert!(unknown.contains("is not a handle"), "{unknown}");
}

#[tokio::test]
async fn binary_and_oversized_files_are_not_edited() {
    let tools = FileTools::new();
    fs::write(tools.path("a.txt"), b"a\0b").unwrap();
    assert_eq!(tools.edit("a", "b").await.unwrap_err(), "`a.txt` is binary data, not text");
    fs::File::create(tools.path("a.txt")).unwrap().set_len(9 << 20).unwrap();
    assert!(tools.edit("a", "b").await.unwrap_err().contains("is larger than 8 MiB"));
}

#[tokio::test]
async fn write_refuses_paths_outside_the_root_and_special_files() {
    let tools = FileTools::new();
    let outside = tools.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.txt"), "SECRET").unwrap();
    fs::create_dir(tools.path("sub")).unwrap();
    symlink(outside.join("secret.txt"), tools.path("link_file")).unwrap();
    symlink(&outside, tools.path("link_dir")).unwrap();
    symlink(outside.join("nowhere"), tools.path("dangling")).unwrap();
    fs::write(tools.path("file"), "x").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, tools.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let rows = [
        ("../outside/new.txt", "contains `..`"),
        ("new/../../outside/new.txt", "contains `..`"),
        ("/tmp/new.txt", "is an absolute path outside"),
        ("link_file", "leads outside through a link"),
        ("link_dir/new.txt", "leads outside through a link"),
        ("link_dir/new/new.txt", "leads outside through a link"),
        ("dangling", "a dangling link"),
        ("dangling/new.txt", "a dangling link"),
        ("pipe", "is a pipe, not a file"),
        ("sub", "is a directory, not a file"),
        ("new/", "is a directory, not a file"),
        ("", "is a directory, not a file"),
        ("file/x", "could not be read"),
        ("a\0b", "contains a NUL byte"),
    ];
    for (path, reason) in rows {
        let error = call_tool(&tools.write, json!({"path": path, "content": "X"})).await.expect_err(path);
        assert!(error.contains(reason), "{path}: {error}");
        call_tool(&tools.edit, json!({"path": path, "old": "SECRET", "new": "X"})).await.expect_err(path);
    }
    assert_eq!(names(&outside), ["secret.txt"]);
    assert_eq!(fs::read_to_string(outside.join("secret.txt")).unwrap(), "SECRET");
}

#[test]
fn link_swapped_in_after_the_check_is_not_followed() {
    let tools = FileTools::new();
    let root = FileRoot::new(&tools.dir.path().join("root")).unwrap();
    let outside = tools.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "SECRET").unwrap();
    fs::create_dir(tools.path("sub")).unwrap();
    fs::write(tools.path("sub/a.txt"), "one").unwrap();

    // Replace the file by a link.
    let target = WriteTarget::find(&root.clone().into(), "sub/a.txt").unwrap();
    fs::remove_file(tools.path("sub/a.txt")).unwrap();
    symlink(outside.join("a.txt"), tools.path("sub/a.txt")).unwrap();
    assert!(target.write(b"X").is_err_and(|error| error.to_string().contains("has changed")));

    // Replace its directory by a link, for an existing and for a new file.
    let new = WriteTarget::find(&root.clone().into(), "sub/new/b.txt").unwrap();
    fs::remove_dir_all(tools.path("sub")).unwrap();
    symlink(&outside, tools.path("sub")).unwrap();
    for target in [target, new] {
        let error = target.write(b"X").unwrap_err().to_string();
        assert!(error.contains("was replaced while it was being opened"), "{error}");
    }
    assert_eq!(names(&outside), ["a.txt"]);
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "SECRET");
}

#[test]
fn file_created_after_the_check_is_not_overwritten() {
    let tools = FileTools::new();
    let root = FileRoot::new(&tools.dir.path().join("root")).unwrap();
    let target = WriteTarget::find(&root.clone().into(), "a.txt").unwrap();
    fs::write(tools.path("a.txt"), "theirs").unwrap();
    assert!(target.write(b"ours").is_err_and(|error| error.to_string().contains("has changed")));
    assert_eq!(names(&tools.path("")), ["a.txt"]);
    assert_eq!(tools.content("a.txt"), "theirs");
}

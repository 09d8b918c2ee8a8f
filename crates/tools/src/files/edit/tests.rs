//! Files changed and changed back.

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
    files::{ReadFile, Root, Seen, UndoEdit, WriteFile},
    outputs::OutputStore,
    testing::call_tool,
};

struct Tools {
    dir: TempDir,
    read: ReadFile,
    write: WriteFile,
    edit: EditFile,
    undo: UndoEdit,
}

impl Tools {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self::at(dir)
    }

    fn at(dir: TempDir) -> Self {
        let root = Root::new(&dir.path().join("root")).unwrap();
        let desk = Desk {
            roots: root.into(),
            seen: Seen::default(),
            outputs: OutputStore::new(&dir.path().join("kept")),
        };
        Self {
            read: ReadFile::new(desk.roots.clone(), desk.seen.clone()),
            write: WriteFile::new(desk.clone()),
            edit: EditFile::new(desk.clone()),
            undo: UndoEdit::new(desk),
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
async fn a_new_file_is_made_with_its_directories_and_no_other_file_stays() {
    let tools = Tools::new();
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
async fn an_edit_shows_its_diff_and_keeps_the_mode() {
    let tools = Tools::new();
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
async fn what_is_replaced_is_there_once_or_all_is_said() {
    let tools = Tools::new();
    fs::write(tools.path("a.txt"), "x\ny\nx\n").unwrap();
    assert_eq!(
        tools.edit("x", "z").await.unwrap_err(),
        "bad arguments for `edit_file`: `old` is in `a.txt` 2 times (lines 1, 3); add what is around the one that is meant, or say all: true"
    );
    assert!(tools.edit("q", "z").await.unwrap_err().contains("`old` is not in `a.txt`"));
    assert!(tools.edit("", "z").await.unwrap_err().contains("`old` is empty"));
    assert!(tools.edit("x", "x").await.unwrap_err().contains("are the same"));
    assert_eq!(tools.content("a.txt"), "x\ny\nx\n");
    let args = json!({"path": "a.txt", "old": "x", "new": "zz", "all": true});
    assert_eq!(call_tool(&tools.edit, args).await.unwrap()["replaced"], 2);
    assert_eq!(tools.content("a.txt"), "zz\ny\nzz\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_left_alone() {
    let tools = Tools::new();
    fs::write(tools.path("a.txt"), "one two").unwrap();
    call_tool(&tools.read, json!({"path": "a.txt"})).await.unwrap();
    // The same size within the same tick of the clock.
    fs::write(tools.path("a.txt"), "one 222").unwrap();
    let changed = "`a.txt` has changed since it was read; read it again and decide anew";
    assert_eq!(tools.edit("one", "1").await.unwrap_err(), changed);
    let write = json!({"path": "a.txt", "content": "new"});
    assert_eq!(call_tool(&tools.write, write.clone()).await.unwrap_err(), changed);
    assert_eq!(tools.content("a.txt"), "one 222");
    call_tool(&tools.read, json!({"path": "a.txt"})).await.unwrap();
    tools.edit("one", "1").await.unwrap();
    // What was written here is known here.
    tools.edit("1", "11").await.unwrap();
    call_tool(&tools.write, write).await.unwrap();
}

#[tokio::test]
async fn a_part_that_was_read_stands_for_its_file() {
    let tools = Tools::new();
    fs::write(tools.path("a.txt"), "one\ntwo\n").unwrap();
    call_tool(&tools.read, json!({"path": "a.txt", "offset": 2})).await.unwrap();
    fs::write(tools.path("a.txt"), "one\ntwo\nthree\n").unwrap();
    assert!(tools.edit("one", "1").await.unwrap_err().contains("has changed since it was read"));
}

#[tokio::test]
async fn the_same_write_again_changes_nothing() {
    let tools = Tools::new();
    let args = json!({"path": "a.txt", "content": "one"});
    call_tool(&tools.write, args.clone()).await.unwrap();
    let before = fs::metadata(tools.path("a.txt")).unwrap().modified().unwrap();
    assert_eq!(call_tool(&tools.write, args).await.unwrap()["unchanged"], true);
    assert_eq!(fs::metadata(tools.path("a.txt")).unwrap().modified().unwrap(), before);
}

#[tokio::test]
async fn the_file_that_an_undo_changes_is_known_before() {
    let tools = Tools::new();
    let made = call_tool(&tools.write, json!({"path": "lango.toml", "content": "x"})).await.unwrap();
    let args = json!({"undo": made["undo"]});
    assert_eq!(tools.undo.target(args.as_object().unwrap()).as_deref(), Some("lango.toml"));
}

#[tokio::test]
async fn changes_are_undone_after_a_restart_newest_first() {
    let tools = Tools::new();
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
    assert!(unknown.contains("is no handle"), "{unknown}");
}

#[tokio::test]
async fn binary_and_huge_files_are_not_edited() {
    let tools = Tools::new();
    fs::write(tools.path("a.txt"), b"a\0b").unwrap();
    assert_eq!(tools.edit("a", "b").await.unwrap_err(), "`a.txt` is binary data, not text");
    fs::File::create(tools.path("a.txt")).unwrap().set_len(9 << 20).unwrap();
    assert!(tools.edit("a", "b").await.unwrap_err().contains("has more than 8 MiB"));
}

#[tokio::test]
async fn nothing_outside_is_written_and_nothing_but_a_file_is_replaced() {
    let tools = Tools::new();
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
        ("../outside/new.txt", "goes up with `..`"),
        ("new/../../outside/new.txt", "goes up with `..`"),
        ("/tmp/new.txt", "is an absolute path"),
        ("link_file", "leads outside by a link"),
        ("link_dir/new.txt", "leads outside by a link"),
        ("link_dir/new/new.txt", "leads outside by a link"),
        ("dangling", "a link to nothing inside"),
        ("dangling/new.txt", "a link to nothing inside"),
        ("pipe", "is a pipe, not a file"),
        ("sub", "is a directory, not a file"),
        ("new/", "is a directory, not a file"),
        ("", "is a directory, not a file"),
        ("file/x", "could not be read"),
        ("a\0b", "has a NUL byte"),
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
fn a_link_swapped_in_after_the_check_is_not_followed() {
    let tools = Tools::new();
    let root = Root::new(&tools.dir.path().join("root")).unwrap();
    let outside = tools.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "SECRET").unwrap();
    fs::create_dir(tools.path("sub")).unwrap();
    fs::write(tools.path("sub/a.txt"), "one").unwrap();

    // The file becomes a link.
    let target = Target::find(&root.clone().into(), "sub/a.txt").unwrap();
    fs::remove_file(tools.path("sub/a.txt")).unwrap();
    symlink(outside.join("a.txt"), tools.path("sub/a.txt")).unwrap();
    assert!(target.write(b"X").is_err_and(|error| error.to_string().contains("has changed")));

    // Its directory becomes one, before and after the file existed.
    let new = Target::find(&root.clone().into(), "sub/new/b.txt").unwrap();
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
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let tools = Tools::new();
    let root = Root::new(&tools.dir.path().join("root")).unwrap();
    let target = Target::find(&root.clone().into(), "a.txt").unwrap();
    fs::write(tools.path("a.txt"), "theirs").unwrap();
    assert!(target.write(b"ours").is_err_and(|error| error.to_string().contains("has changed")));
    assert_eq!(names(&tools.path("")), ["a.txt"]);
    assert_eq!(tools.content("a.txt"), "theirs");
}

//! Attempts to escape a root, and special files: each is refused with its reason.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
    sync::Arc,
};

use serde_json::json;
use tempfile::TempDir;

use super::{
    EditFile, FileRoot, FileRoots, FileToolContext, FileVersions, ListFiles, ReadFile, SearchFiles, UndoEdit,
    WriteFile,
};
use crate::{
    OutputStore,
    exec::sandbox::deny::{DEFAULT_DENY_READ, DenyList},
    testing::call_tool,
};

/// `outside/secret.txt` beside `root/`, every kind of link between them, and a FIFO.
fn root_with_links() -> (TempDir, FileRoot) {
    let dir = tempfile::tempdir().unwrap();
    let (outside, root) = (dir.path().join("outside"), dir.path().join("root"));
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("secret.txt"), "SECRET").unwrap();
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("sub/inside.txt"), "inside").unwrap();
    symlink(outside.join("secret.txt"), root.join("link_file")).unwrap();
    symlink("../outside/secret.txt", root.join("relative_link")).unwrap();
    symlink(&outside, root.join("link_dir")).unwrap();
    symlink(outside.join("nowhere"), root.join("dangling_out")).unwrap();
    symlink("nowhere", root.join("dangling_in")).unwrap();
    symlink("link_dir", root.join("link_to_link")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("sub/inside.txt", root.join("good_link")).unwrap();
    symlink("/dev/zero", root.join("device_link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    (dir, FileRoot::new(&root).unwrap())
}

const OUTSIDE: &str = "use a relative path inside the working directory";

const REFUSED: [(&str, &str); 24] = [
    ("../outside/secret.txt", "contains `..`"),
    ("sub/../../outside/secret.txt", "contains `..`"),
    ("sub/../sub/inside.txt", "contains `..`"),
    ("..", "contains `..`"),
    ("/etc/passwd", "is an absolute path outside of the roots"),
    ("//etc/passwd", "is an absolute path outside of the roots"),
    ("/", "is an absolute path outside of the roots"),
    ("link_file", "leads outside through a link"),
    ("relative_link", "leads outside through a link"),
    ("link_dir/secret.txt", "leads outside through a link"),
    ("link_dir/not_there", "leads outside through a link"),
    ("link_dir/deep/not/there", "leads outside through a link"),
    ("link_to_link/secret.txt", "leads outside through a link"),
    ("device_link", "leads outside through a link"),
    ("dangling_out", "a dangling link"),
    ("dangling_in", "a dangling link"),
    ("loop", "could not be read"),
    ("sub/inside.txt\0.png", "contains a NUL byte"),
    ("sub", "`sub` is a directory, not a file"),
    ("", "`.` is a directory, not a file"),
    ("pipe", "`pipe` is a pipe, not a file"),
    ("socket", "`socket` is a socket, not a file"),
    ("sub/inside.txt/x", "could not be read"),
    ("~/x", "`~/x` does not exist"),
];

#[tokio::test]
async fn read_refuses_paths_outside_the_root_and_special_files() {
    let (_dir, root) = root_with_links();
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    let tool = ReadFile::new(root, FileVersions::default());
    for (path, reason) in REFUSED {
        let error = call_tool(&tool, json!({"path": path})).await.expect_err(path);
        assert!(error.contains(reason), "{path}: {error}");
        assert!(!error.contains("SECRET"), "{path}: {error}");
    }
    assert_eq!(call_tool(&tool, json!({"path": "good_link"})).await.unwrap()["text"], "inside");
}

/// A working directory, and [`root_with_links`] as a second root.
fn two_roots() -> (TempDir, FileRoots, FileRoot) {
    let (dir, root) = root_with_links();
    fs::create_dir(dir.path().join("first")).unwrap();
    fs::write(dir.path().join("first/own.txt"), "own").unwrap();
    let first = FileRoot::new(&dir.path().join("first")).unwrap();
    (dir, FileRoots::new(first, vec![root.clone()]).unwrap(), root)
}

fn context(dir: &TempDir, roots: FileRoots) -> FileToolContext {
    FileToolContext {
        roots,
        versions: FileVersions::default(),
        outputs: OutputStore::new(&dir.path().join("outputs")),
    }
}

#[tokio::test]
async fn second_root_cannot_be_escaped() {
    let (dir, roots, root) = two_roots();
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    let context = context(&dir, roots.clone());
    let (read, write) = (ReadFile::new(roots, FileVersions::default()), WriteFile::new(context));
    let (inside, prefix) = (root.path().display(), format!("{}/", root.path().display()));
    for (path, reason) in REFUSED {
        if path.starts_with('/') || path.is_empty() {
            continue;
        }
        let error = call_tool(&read, json!({"path": format!("{prefix}{path}")})).await.expect_err(path);
        // Errors quote the absolute path.
        let reason = reason.strip_prefix('`').map_or(reason.to_owned(), |rest| format!("`{prefix}{rest}"));
        assert!(error.contains(&reason), "{path}: {error}");
        assert!(!error.contains("SECRET"), "{path}: {error}");
    }
    for path in ["link_dir/new", "link_to_link/new", "../outside/new", "relative_link", "dangling_out"] {
        let error = call_tool(&write, json!({"path": format!("{prefix}{path}"), "content": "x"})).await;
        error.expect_err(path);
    }
    let sibling = format!("{inside}-not/a.txt");
    for path in ["../root/sub/inside.txt", "/etc/passwd", &sibling, "//", "/", "sub/inside.txt"] {
        call_tool(&read, json!({"path": path})).await.expect_err(path);
    }
    let error = call_tool(&read, json!({"path": "/etc/passwd"})).await.unwrap_err();
    assert_eq!(
        error,
        format!(
            "`/etc/passwd` is an absolute path outside of the roots; use a relative path inside the working directory, or an absolute path inside {inside}"
        )
    );
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 2);
    let good = call_tool(&read, json!({"path": format!("{prefix}good_link")})).await.unwrap();
    assert_eq!((&good["text"], &good["path"]), (&json!("inside"), &json!(format!("{prefix}sub/inside.txt"))));
    assert_eq!(call_tool(&read, json!({"path": "own.txt"})).await.unwrap()["text"], "own");
}

#[tokio::test]
async fn link_from_one_root_into_another_leads_outside() {
    let (dir, roots, root) = two_roots();
    symlink(root.path().join("sub"), dir.path().join("first/link")).unwrap();
    let error =
        call_tool(&ReadFile::new(roots, FileVersions::default()), json!({"path": "link/inside.txt"})).await;
    assert!(error.unwrap_err().contains("leads outside through a link"));
}

#[tokio::test]
async fn all_file_tools_work_in_a_second_root() {
    let (dir, roots, root) = two_roots();
    let context = context(&dir, roots.clone());
    let inside = root.path().display();
    let listed =
        call_tool(&ListFiles::new(roots.clone()), json!({"path": inside.to_string()})).await.unwrap();
    assert!(listed["entries"].to_string().contains(&format!("{inside}/sub/")), "{listed}");
    let search = SearchFiles::new(roots.clone());
    assert_eq!(call_tool(&search, json!({"pattern": "inside"})).await.unwrap()["total"], 0);
    let found =
        call_tool(&search, json!({"pattern": "inside", "path": format!("{inside}/sub")})).await.unwrap();
    assert_eq!(found["matches"][0]["path"], format!("{inside}/sub/inside.txt"));

    let path = format!("{inside}/sub/inside.txt");
    let edit = json!({"path": path, "old": "inside", "new": "changed"});
    let edited = call_tool(&EditFile::new(context.clone()), edit).await.unwrap();
    assert_eq!(edited["path"], path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "changed");
    let undone = call_tool(&UndoEdit::new(context.clone()), json!({"undo": edited["undo"]})).await.unwrap();
    assert_eq!((&undone["undone"], fs::read_to_string(&path).unwrap().as_str()), (&json!(true), "inside"));
    // A change by another process is detected there, too.
    fs::write(&path, "theirs").unwrap();
    let error = call_tool(&WriteFile::new(context), json!({"path": path, "content": "x"})).await.unwrap_err();
    assert!(error.contains("has changed since it was read"), "{error}");
}

#[tokio::test]
async fn read_only_root_can_be_read_but_not_written() {
    let (dir, _, root) = two_roots();
    let first = FileRoot::new(&dir.path().join("first")).unwrap();
    let roots = FileRoots::new(first, vec![root.clone().read_only()]).unwrap();
    let (context, inside) = (context(&dir, roots.clone()), root.path().display());
    let path = format!("{inside}/sub/inside.txt");
    assert_eq!(
        call_tool(&ReadFile::new(roots, FileVersions::default()), json!({"path": path})).await.unwrap()["bytes"],
        6
    );
    let read_only = |path: &str| format!("`{path}` is inside a read-only root and cannot be written");
    let edit = json!({"path": path, "old": "inside", "new": "changed"});
    assert_eq!(call_tool(&EditFile::new(context.clone()), edit).await.unwrap_err(), read_only(&path));
    let new = format!("{inside}/made/new.txt");
    let error = call_tool(&WriteFile::new(context), json!({"path": new, "content": "x"})).await.unwrap_err();
    assert_eq!(error, read_only(&new));
    assert!(!root.path().join("made").exists());
}

#[test]
fn nested_roots_are_rejected() {
    let (dir, root) = root_with_links();
    let (outer, inner) = (FileRoot::new(dir.path()).unwrap(), root.clone().read_only());
    let error = FileRoots::new(outer, vec![inner.clone()]).unwrap_err().to_string();
    assert!(error.ends_with("and both are roots of file tools; remove one of them"), "{error}");
    assert!(FileRoots::new(root, vec![inner]).is_err());
}

#[tokio::test]
async fn list_and_search_refuse_paths_outside_and_follow_no_links() {
    let (_dir, root) = root_with_links();
    let (list, search) = (ListFiles::new(root.clone()), SearchFiles::new(root));
    for path in ["..", "/", "link_dir", "link_dir/deep", "link_to_link"] {
        for error in [
            call_tool(&list, json!({"path": path})).await.expect_err(path),
            call_tool(&search, json!({"path": path, "pattern": "SECRET"})).await.expect_err(path),
        ] {
            assert!(error.contains(OUTSIDE), "{path}: {error}");
        }
    }
    assert_eq!(call_tool(&search, json!({"pattern": "SECRET"})).await.unwrap()["total"], 0);
    assert_eq!(call_tool(&search, json!({"pattern": "inside"})).await.unwrap()["total"], 1);
    let listed = call_tool(&list, json!({"depth": 5})).await.unwrap()["entries"].to_string();
    assert!(listed.contains("link_dir@") && !listed.contains("secret.txt"), "{listed}");
}

#[tokio::test]
async fn link_swapped_in_after_the_check_is_not_followed() {
    let (dir, roots, root) = two_roots();
    let file = roots.resolve(&root.path().join("sub/inside.txt").display().to_string()).unwrap();
    fs::remove_file(root.path().join("sub/inside.txt")).unwrap();
    symlink(dir.path().join("outside/secret.txt"), root.path().join("sub/inside.txt")).unwrap();
    assert!(file.open().unwrap_err().to_string().contains("was replaced while it was being opened"));

    fs::remove_dir_all(root.path().join("sub")).unwrap();
    fs::write(dir.path().join("outside/inside.txt"), "SECRET").unwrap();
    symlink(dir.path().join("outside"), root.path().join("sub")).unwrap();
    assert!(file.open().unwrap_err().to_string().contains("was replaced while it was being opened"));
}

#[tokio::test]
async fn file_name_that_is_not_utf8_is_listed_and_searched() {
    let (_dir, root) = root_with_links();
    let name = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
    if fs::write(root.path().join(name), "needle").is_err() {
        return; // Some file systems reject such names.
    }
    let (list, search) = (ListFiles::new(root.clone()), SearchFiles::new(root.clone()));
    assert!(call_tool(&list, json!({})).await.unwrap()["entries"].to_string().contains("caf\u{fffd}.txt"));
    assert_eq!(call_tool(&search, json!({"pattern": "needle"})).await.unwrap()["total"], 1);
    let error = call_tool(&ReadFile::new(root, FileVersions::default()), json!({"path": "caf\u{fffd}.txt"}))
        .await
        .unwrap_err();
    assert!(error.contains("does not exist"), "{error}");
}

#[tokio::test]
async fn device_inside_the_root_is_not_opened() {
    let root = FileRoot::new(Path::new("/dev")).unwrap();
    let error =
        call_tool(&ReadFile::new(root, FileVersions::default()), json!({"path": "zero"})).await.unwrap_err();
    assert_eq!(error, "`zero` is a device, not a file");
}

#[tokio::test]
async fn reading_a_huge_file_returns_only_head_and_tail() {
    let (_dir, root) = root_with_links();
    let file = fs::File::create(root.path().join("huge.txt")).unwrap();
    fs::write(root.path().join("huge.txt"), "start\n".repeat(2000)).unwrap();
    file.set_len(1 << 40).unwrap();
    let answer =
        call_tool(&ReadFile::new(root, FileVersions::default()), json!({"path": "huge.txt"})).await.unwrap();
    assert_eq!(answer["bytes"], 1_u64 << 40);
    assert!(answer["text"].as_str().unwrap().len() < 64 * 1024);
}

#[test]
fn root_must_be_an_existing_directory() {
    let (_dir, root) = root_with_links();
    let error = FileRoot::new(&root.path().join("good_link")).unwrap_err().to_string();
    assert!(error.contains("cannot be used as a root of file tools"), "{error}");
    assert!(FileRoot::new(Path::new("/no/such/dir")).is_err());
}

#[tokio::test]
async fn denied_files_are_neither_read_nor_found() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        (".env", "TOKEN=canary"),
        ("id_rsa", "canary"),
        ("sub/own.pem", "-----BEGIN PRIVATE KEY-----canary"),
        ("fine.txt", "canary"),
        (".env.example", "canary"),
    ] {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), text).unwrap();
    }
    symlink(".env", dir.path().join("plain")).unwrap();
    symlink("fine.txt", dir.path().join(".env.local")).unwrap();
    let deny = DenyList::new(DEFAULT_DENY_READ, Path::new("/u/ann"));
    let root = FileRoot::new(dir.path()).unwrap().without(Arc::new(deny));
    let outputs = OutputStore::new(&dir.path().join("outputs"));
    let context = FileToolContext { roots: root.clone().into(), versions: FileVersions::default(), outputs };
    let (read, search) = (ReadFile::new(root.clone(), FileVersions::default()), SearchFiles::new(root));
    for path in [".env", "./.env", "id_rsa", "sub/own.pem", "plain", ".env.local"] {
        for answer in [
            call_tool(&read, json!({"path": path})).await,
            call_tool(&search, json!({"pattern": "canary", "path": path})).await,
            call_tool(&EditFile::new(context.clone()), json!({"path": path, "old": "c", "new": "d"})).await,
            call_tool(&WriteFile::new(context.clone()), json!({"path": path, "content": "d"})).await,
        ] {
            assert!(answer.as_ref().unwrap_err().contains("[tools] denyRead"), "{path}: {answer:?}");
        }
    }
    assert!(call_tool(&read, json!({"path": ".env.example"})).await.is_ok());
    let found = call_tool(&search, json!({"pattern": "canary"})).await.unwrap();
    assert_eq!(found["matches"].as_array().unwrap().len(), 1, "{found}");
}

//! Ways out of the root, and things that only look like files. Each row is refused, with its reason.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
};

use serde_json::json;
use tempfile::TempDir;

use super::{ListFiles, ReadFile, Root, SearchFiles, Seen};
use crate::testing::ask;

/// `outside/secret.txt` beside `root/`, and every kind of link between them.
fn trap() -> (TempDir, Root) {
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
    (dir, Root::new(&root).unwrap())
}

const OUTSIDE: &str = "only what lies inside the working directory can be reached";

const REFUSED: [(&str, &str); 24] = [
    ("../outside/secret.txt", "goes up with `..`"),
    ("sub/../../outside/secret.txt", "goes up with `..`"),
    ("sub/../sub/inside.txt", "goes up with `..`"),
    ("..", "goes up with `..`"),
    ("/etc/passwd", "is an absolute path"),
    ("//etc/passwd", "is an absolute path"),
    ("/", "is an absolute path"),
    ("link_file", "leads outside by a link"),
    ("relative_link", "leads outside by a link"),
    ("link_dir/secret.txt", "leads outside by a link"),
    ("link_dir/not_there", "leads outside by a link"),
    ("link_dir/deep/not/there", "leads outside by a link"),
    ("link_to_link/secret.txt", "leads outside by a link"),
    ("device_link", "leads outside by a link"),
    ("dangling_out", "a link to nothing inside"),
    ("dangling_in", "a link to nothing inside"),
    ("loop", "could not be read"),
    ("sub/inside.txt\0.png", "has a NUL byte in it"),
    ("sub", "`sub` is a directory, not a file"),
    ("", "`.` is a directory, not a file"),
    ("pipe", "`pipe` is a pipe, not a file"),
    ("socket", "`socket` is a socket, not a file"),
    ("sub/inside.txt/x", "could not be read"),
    ("~/x", "there is no `~/x`"),
];

#[tokio::test]
async fn no_path_leads_out_and_nothing_but_a_file_is_read() {
    let (_dir, root) = trap();
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    let tool = ReadFile::new(root, Seen::default());
    for (path, reason) in REFUSED {
        let error = ask(&tool, json!({"path": path})).await.expect_err(path);
        assert!(error.contains(reason), "{path}: {error}");
        assert!(!error.contains("SECRET"), "{path}: {error}");
    }
    assert_eq!(ask(&tool, json!({"path": "good_link"})).await.unwrap()["text"], "inside");
}

#[tokio::test]
async fn listing_and_searching_stay_inside_too() {
    let (_dir, root) = trap();
    let (list, search) = (ListFiles::new(root.clone()), SearchFiles::new(root));
    for path in ["..", "/", "link_dir", "link_dir/deep", "link_to_link"] {
        for error in [
            ask(&list, json!({"path": path})).await.expect_err(path),
            ask(&search, json!({"path": path, "pattern": "SECRET"})).await.expect_err(path),
        ] {
            assert!(error.contains(OUTSIDE), "{path}: {error}");
        }
    }
    assert_eq!(ask(&search, json!({"pattern": "SECRET"})).await.unwrap()["total"], 0);
    assert_eq!(ask(&search, json!({"pattern": "inside"})).await.unwrap()["total"], 1);
    let listed = ask(&list, json!({"depth": 5})).await.unwrap()["entries"].to_string();
    assert!(listed.contains("link_dir@") && !listed.contains("secret.txt"), "{listed}");
}

#[tokio::test]
async fn a_link_swapped_in_after_the_check_is_not_followed() {
    let (dir, root) = trap();
    let file = root.resolve("sub/inside.txt").unwrap();
    fs::remove_file(root.path().join("sub/inside.txt")).unwrap();
    symlink(dir.path().join("outside/secret.txt"), root.path().join("sub/inside.txt")).unwrap();
    assert!(root.open(&file).unwrap_err().to_string().contains("was replaced while it was being opened"));

    fs::remove_dir_all(root.path().join("sub")).unwrap();
    fs::write(dir.path().join("outside/inside.txt"), "SECRET").unwrap();
    symlink(dir.path().join("outside"), root.path().join("sub")).unwrap();
    assert!(root.open(&file).unwrap_err().to_string().contains("was replaced while it was being opened"));
}

#[tokio::test]
async fn a_name_that_is_no_text_is_listed_and_breaks_nothing() {
    let (_dir, root) = trap();
    let name = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
    if fs::write(root.path().join(name), "needle").is_err() {
        return; // Some file systems take no such name.
    }
    let (list, search) = (ListFiles::new(root.clone()), SearchFiles::new(root.clone()));
    assert!(ask(&list, json!({})).await.unwrap()["entries"].to_string().contains("caf\u{fffd}.txt"));
    assert_eq!(ask(&search, json!({"pattern": "needle"})).await.unwrap()["total"], 1);
    let error =
        ask(&ReadFile::new(root, Seen::default()), json!({"path": "caf\u{fffd}.txt"})).await.unwrap_err();
    assert!(error.starts_with("there is no"), "{error}");
}

#[tokio::test]
async fn a_device_inside_the_root_is_not_opened() {
    let root = Root::new(Path::new("/dev")).unwrap();
    let error = ask(&ReadFile::new(root, Seen::default()), json!({"path": "zero"})).await.unwrap_err();
    assert_eq!(error, "`zero` is a device, not a file");
}

#[tokio::test]
async fn a_huge_file_costs_no_more_than_its_ends() {
    let (_dir, root) = trap();
    let file = fs::File::create(root.path().join("huge.txt")).unwrap();
    fs::write(root.path().join("huge.txt"), "start\n".repeat(2000)).unwrap();
    file.set_len(1 << 40).unwrap();
    let answer = ask(&ReadFile::new(root, Seen::default()), json!({"path": "huge.txt"})).await.unwrap();
    assert_eq!(answer["bytes"], 1_u64 << 40);
    assert!(answer["text"].as_str().unwrap().len() < 64 * 1024);
}

#[test]
fn a_root_that_is_no_directory_is_refused() {
    let (_dir, root) = trap();
    let error = Root::new(&root.path().join("good_link")).unwrap_err().to_string();
    assert!(error.contains("cannot be used as the root of file tools"), "{error}");
    assert!(Root::new(Path::new("/no/such/dir")).is_err());
}

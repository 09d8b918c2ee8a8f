//! Ways out of the root, and things that only look like files. Each row is refused, with its reason.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
};

use serde_json::json;
use tempfile::TempDir;

use super::{Desk, EditFile, ListFiles, ReadFile, Root, Roots, SearchFiles, Seen, UndoEdit, WriteFile};
use crate::{OutputStore, testing::call_tool};

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
    ("/etc/passwd", "is an absolute path to somewhere else"),
    ("//etc/passwd", "is an absolute path to somewhere else"),
    ("/", "is an absolute path to somewhere else"),
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
        let error = call_tool(&tool, json!({"path": path})).await.expect_err(path);
        assert!(error.contains(reason), "{path}: {error}");
        assert!(!error.contains("SECRET"), "{path}: {error}");
    }
    assert_eq!(call_tool(&tool, json!({"path": "good_link"})).await.unwrap()["text"], "inside");
}

/// The trap beside a working directory that has nothing to do with it.
fn second() -> (TempDir, Roots, Root) {
    let (dir, root) = trap();
    fs::create_dir(dir.path().join("first")).unwrap();
    fs::write(dir.path().join("first/own.txt"), "own").unwrap();
    let first = Root::new(&dir.path().join("first")).unwrap();
    (dir, Roots::new(first, vec![root.clone()]).unwrap(), root)
}

fn desk(dir: &TempDir, roots: Roots) -> Desk {
    Desk { roots, seen: Seen::default(), outputs: OutputStore::new(&dir.path().join("kept")) }
}

#[tokio::test]
async fn no_path_leads_out_of_another_root_either() {
    let (dir, roots, root) = second();
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    let desk = desk(&dir, roots.clone());
    let (read, write) = (ReadFile::new(roots, Seen::default()), WriteFile::new(desk));
    let (inside, prefix) = (root.path().display(), format!("{}/", root.path().display()));
    for (path, reason) in REFUSED {
        if path.starts_with('/') || path.is_empty() {
            continue;
        }
        let error = call_tool(&read, json!({"path": format!("{prefix}{path}")})).await.expect_err(path);
        // What is named by its kind is named as the model named it.
        let reason = reason.strip_prefix('`').map_or(reason.to_owned(), |rest| format!("`{prefix}{rest}"));
        let reason = reason.replace("there is no `", &format!("there is no `{prefix}"));
        assert!(error.contains(&reason), "{path}: {error}");
        assert!(!error.contains("SECRET"), "{path}: {error}");
    }
    for path in ["link_dir/new", "link_to_link/new", "../outside/new", "relative_link", "dangling_out"] {
        let error = call_tool(&write, json!({"path": format!("{prefix}{path}"), "content": "x"})).await;
        error.expect_err(path);
    }
    let beside = format!("{inside}-not/a.txt");
    for path in ["../root/sub/inside.txt", "/etc/passwd", &beside, "//", "/", "sub/inside.txt"] {
        call_tool(&read, json!({"path": path})).await.expect_err(path);
    }
    let error = call_tool(&read, json!({"path": "/etc/passwd"})).await.unwrap_err();
    let reach = format!("by a relative path, or inside {inside}, by an absolute one");
    assert_eq!(
        error,
        format!(
            "`/etc/passwd` is an absolute path to somewhere else; only what lies inside the working directory can be reached, {reach}"
        )
    );
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 2);
    let good = call_tool(&read, json!({"path": format!("{prefix}good_link")})).await.unwrap();
    assert_eq!((&good["text"], &good["path"]), (&json!("inside"), &json!(format!("{prefix}sub/inside.txt"))));
    assert_eq!(call_tool(&read, json!({"path": "own.txt"})).await.unwrap()["text"], "own");
}

#[tokio::test]
async fn a_link_from_one_root_into_another_leads_outside() {
    let (dir, roots, root) = second();
    symlink(root.path().join("sub"), dir.path().join("first/link")).unwrap();
    let error = call_tool(&ReadFile::new(roots, Seen::default()), json!({"path": "link/inside.txt"})).await;
    assert!(error.unwrap_err().contains("leads outside by a link"));
}

#[tokio::test]
async fn each_root_is_listed_searched_changed_and_undone_for_itself() {
    let (dir, roots, root) = second();
    let desk = desk(&dir, roots.clone());
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
    let edited = call_tool(&EditFile::new(desk.clone()), edit).await.unwrap();
    assert_eq!(edited["path"], path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "changed");
    let undone = call_tool(&UndoEdit::new(desk.clone()), json!({"undo": edited["undo"]})).await.unwrap();
    assert_eq!((&undone["undone"], fs::read_to_string(&path).unwrap().as_str()), (&json!(true), "inside"));
    // Somebody else's change is seen there, too.
    fs::write(&path, "theirs").unwrap();
    let error = call_tool(&WriteFile::new(desk), json!({"path": path, "content": "x"})).await.unwrap_err();
    assert!(error.contains("has changed since it was read"), "{error}");
}

#[tokio::test]
async fn a_root_that_is_there_to_be_read_is_not_written() {
    let (dir, _, root) = second();
    let first = Root::new(&dir.path().join("first")).unwrap();
    let roots = Roots::new(first, vec![root.clone().read_only()]).unwrap();
    let (desk, inside) = (desk(&dir, roots.clone()), root.path().display());
    let path = format!("{inside}/sub/inside.txt");
    assert_eq!(
        call_tool(&ReadFile::new(roots, Seen::default()), json!({"path": path})).await.unwrap()["bytes"],
        6
    );
    let only_read =
        |path: &str| format!("`{path}` lies in a directory that is there to be read, not written");
    let edit = json!({"path": path, "old": "inside", "new": "changed"});
    assert_eq!(call_tool(&EditFile::new(desk.clone()), edit).await.unwrap_err(), only_read(&path));
    let new = format!("{inside}/made/new.txt");
    let error = call_tool(&WriteFile::new(desk), json!({"path": new, "content": "x"})).await.unwrap_err();
    assert_eq!(error, only_read(&new));
    assert!(!root.path().join("made").exists());
}

#[test]
fn a_root_inside_another_is_refused() {
    let (dir, root) = trap();
    let (outer, inner) = (Root::new(dir.path()).unwrap(), root.clone().read_only());
    let error = Roots::new(outer, vec![inner.clone()]).unwrap_err().to_string();
    assert!(error.ends_with("and both are roots of file tools; name one of them"), "{error}");
    assert!(Roots::new(root, vec![inner]).is_err());
}

#[tokio::test]
async fn listing_and_searching_stay_inside_too() {
    let (_dir, root) = trap();
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
async fn a_link_swapped_in_after_the_check_is_not_followed() {
    let (dir, roots, root) = second();
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
async fn a_name_that_is_no_text_is_listed_and_breaks_nothing() {
    let (_dir, root) = trap();
    let name = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
    if fs::write(root.path().join(name), "needle").is_err() {
        return; // Some file systems take no such name.
    }
    let (list, search) = (ListFiles::new(root.clone()), SearchFiles::new(root.clone()));
    assert!(call_tool(&list, json!({})).await.unwrap()["entries"].to_string().contains("caf\u{fffd}.txt"));
    assert_eq!(call_tool(&search, json!({"pattern": "needle"})).await.unwrap()["total"], 1);
    let error = call_tool(&ReadFile::new(root, Seen::default()), json!({"path": "caf\u{fffd}.txt"}))
        .await
        .unwrap_err();
    assert!(error.starts_with("there is no"), "{error}");
}

#[tokio::test]
async fn a_device_inside_the_root_is_not_opened() {
    let root = Root::new(Path::new("/dev")).unwrap();
    let error = call_tool(&ReadFile::new(root, Seen::default()), json!({"path": "zero"})).await.unwrap_err();
    assert_eq!(error, "`zero` is a device, not a file");
}

#[tokio::test]
async fn a_huge_file_costs_no_more_than_its_ends() {
    let (_dir, root) = trap();
    let file = fs::File::create(root.path().join("huge.txt")).unwrap();
    fs::write(root.path().join("huge.txt"), "start\n".repeat(2000)).unwrap();
    file.set_len(1 << 40).unwrap();
    let answer = call_tool(&ReadFile::new(root, Seen::default()), json!({"path": "huge.txt"})).await.unwrap();
    assert_eq!(answer["bytes"], 1_u64 << 40);
    assert!(answer["text"].as_str().unwrap().len() < 64 * 1024);
}

#[test]
fn a_root_that_is_no_directory_is_refused() {
    let (_dir, root) = trap();
    let error = Root::new(&root.path().join("good_link")).unwrap_err().to_string();
    assert!(error.contains("cannot be used as a root of file tools"), "{error}");
    assert!(Root::new(Path::new("/no/such/dir")).is_err());
}

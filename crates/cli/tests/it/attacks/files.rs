//! Names of artifacts, and paths of the web page.

use super::{
    engine::{Attack, Expect},
    request::request,
    world::World,
};
use serde_json::json;

const ARTIFACTS: &str = "/apps/lango/users/bob/sessions/s/artifacts";

pub(super) fn rows(world: &World) -> Vec<Attack> {
    let mut rows = Vec::new();
    for path in PAGES {
        let request = request("GET", path);
        rows.push(Attack::http(format!("page {path}"), world, &request, Expect::Is(&[400, 401, 404])));
    }
    for name in READ {
        let request = request("GET", &format!("{ARTIFACTS}/{name}")).token(&world.bob);
        rows.push(Attack::http(format!("read {name}"), world, &request, Expect::Harmless));
    }
    for name in DELETED {
        let request = request("DELETE", &format!("{ARTIFACTS}/{name}")).token(&world.bob);
        rows.push(Attack::http(format!("delete {name}"), world, &request, Expect::Harmless));
    }
    let long = "n".repeat(100_000);
    for name in SAVED.iter().copied().chain([long.as_str()]) {
        let body = json!({"filename": name, "artifact": {"text": "x"}}).to_string();
        let request = request("POST", ARTIFACTS).token(&world.bob).body(body);
        rows.push(Attack::http(
            format!("save {:?}", name.chars().take(40).collect::<String>()),
            world,
            &request,
            Expect::Refused,
        ));
    }
    for name in ABSOLUTE {
        let body = json!({"filename": name, "artifact": {"text": "x"}}).to_string();
        let request = request("POST", ARTIFACTS).token(&world.bob).body(body);
        rows.push(Attack::http(format!("save {name:?}"), world, &request, Expect::Harmless).may_store());
    }
    for (id, body) in INVALID {
        let request = request("POST", ARTIFACTS).token(&world.bob).body(body);
        rows.push(Attack::http(format!("save {id}"), world, &request, Expect::Refused));
    }
    rows
}

const PAGES: &[&str] = &[
    "/dev-ui/../../etc/passwd",
    "/dev-ui/../outside.txt",
    "/dev-ui/%2e%2e/outside.txt",
    "/dev-ui/%2e%2e%2foutside.txt",
    "/dev-ui/..%2foutside.txt",
    "/dev-ui/..%5coutside.txt",
    "/dev-ui/..\\outside.txt",
    "/dev-ui/%252e%252e%252foutside.txt",
    "/dev-ui/deep/../../outside.txt",
    "/dev-ui/deep/..%2f..%2foutside.txt",
    "/dev-ui/....//outside.txt",
    "/dev-ui//etc/passwd",
    "/dev-ui/%2fetc%2fpasswd",
    "/dev-ui/%2Fetc/passwd",
    "/dev-ui/file:///etc/passwd",
    "/dev-ui/link.txt",
    "/dev-ui/up/outside.txt",
    "/dev-ui/up/lango.toml",
    "/dev-ui/etc/passwd",
    "/dev-ui/deep",
    "/dev-ui/deep/",
    "/dev-ui/index.html/",
    "/dev-ui/index.html%00.txt",
    "/dev-ui/..%00/outside.txt",
    "/dev-ui/..%c0%afoutside.txt",
    "/dev-ui/%ff",
    "/dev-ui/C:/windows/win.ini",
    "/dev-ui/~/.ssh/id_rsa",
    "/dev-ui/%2e%2e/page/../lango.toml",
    "/dev-ui/assets/../../lango.toml",
];

const READ: &[&str] = &[
    "..%2f..%2f..%2f..%2fann%2fsessions%2fs%2fartifacts%2ff.txt",
    "../../../ann/sessions/s/artifacts/f.txt",
    "%2e%2e/%2e%2e/%2e%2e/ann/sessions/s/artifacts/f.txt",
    "%2fetc%2fpasswd",
    "..%2f..%2foutside.txt",
    "user:f.txt",
    "user:ann/f.txt",
    "user%3Af.txt",
    "user:..%2fann%2ff.txt",
    "ann%2ff.txt",
    "f.txt%00",
    "f.txt/versions/-1",
    "f.txt/versions/99999999999999999999",
    "f.txt/versions/0%20OR%201=1",
    "f.txt/versions/../../../../../ann/sessions/s/artifacts/f.txt",
    "f.txt?version=-1",
    "f.txt?user_id=ann",
    "%25",
    "*",
];

const DELETED: &[&str] = &[
    "..%2f..%2f..%2fann%2fsessions%2fs%2fartifacts%2ff.txt",
    "../../../ann/sessions/s/artifacts/f.txt",
    "user:..%2ff.txt",
    "%25",
    "*",
    "f.txt%00",
    "F.TXT",
];

/// Names that would be paths outside the artifact's own place, or unreadable in a list.
const SAVED: &[&str] = &[
    "",
    "..",
    "../f.txt",
    "../../ann/f.txt",
    "a/../../f.txt",
    "a\u{0}b",
    "a\nb",
    "a\rb",
    "a\u{1b}[31mb",
    "user:",
    "user:../f.txt",
    "..\\f.txt",
    "a\u{85}b",
];

/// Names that are paths elsewhere. They are only keys: no file is written.
const ABSOLUTE: &[&str] = &[
    ".",
    "/etc/passwd",
    "user:/etc/passwd",
    "C:\\f.txt",
    "//host/share",
    "ran",
    "~/x",
    "file:///etc/x",
    "a/./b",
];

const INVALID: &[(&str, &str)] = &[
    ("without a name", r#"{"artifact":{"text":"x"}}"#),
    ("name is a list", r#"{"filename":["f.txt"],"artifact":{"text":"x"}}"#),
    ("without content", r#"{"filename":"g.txt"}"#),
    ("content is text", r#"{"filename":"g.txt","artifact":"x"}"#),
    (
        "data is not base64",
        r#"{"filename":"g.txt","artifact":{"inlineData":{"data":"!","mimeType":"text/plain"}}}"#,
    ),
    ("function call", r#"{"filename":"g.txt","artifact":{"functionCall":{"name":"mark","args":{}}}}"#),
    ("metadata is text", r#"{"filename":"g.txt","artifact":{"text":"x"},"customMetadata":"x"}"#),
];

//! Every manifest inherits the lints of the workspace, and rustls is the only TLS library.

use super::Problem;

const SECOND_TLS: [&str; 3] = ["openssl", "openssl-sys", "native-tls"];

pub(super) fn check_manifest(path: &str, text: &str) -> Option<Problem> {
    let what = "does not inherit the lints of the workspace: add `[lints]` with `workspace = true`";
    (!inherits_lints(text)).then(|| Problem::new(path, what))
}

fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        if section == "[lints]" && line.replace(' ', "") == "workspace=true" {
            return true;
        }
    }
    false
}

pub(super) fn check_lock(lock: &str) -> Vec<Problem> {
    let packages = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let second = packages.filter(|name| SECOND_TLS.contains(name));
    second
        .map(|name| Problem::new("Cargo.lock", format!("contains `{name}`; rustls is the only TLS library")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_without_the_workspace_lints_is_reported() {
        assert!(check_manifest("x/Cargo.toml", "[lints]\nworkspace = true\n").is_none());
        for bad in ["[package]\nname = \"x\"\n", "[dependencies]\nworkspace = true\n", "[lints]\n[package]\n"]
        {
            assert!(check_manifest("x/Cargo.toml", bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn second_tls_library_is_reported() {
        let reported = check_lock("[[package]]\nname = \"native-tls\"\n\n[[package]]\nname = \"rustls\"\n");
        assert_eq!(
            reported,
            [Problem::new("Cargo.lock", "contains `native-tls`; rustls is the only TLS library")]
        );
    }
}

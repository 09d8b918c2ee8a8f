//! Every crate has the workspace's lints, and TLS is rustls alone.

use super::Problem;

const SECOND_TLS: [&str; 3] = ["openssl", "openssl-sys", "native-tls"];

pub(super) fn check_manifest(path: &str, text: &str) -> Option<Problem> {
    let what = "does not take the workspace's lints: add `[lints]` with `workspace = true`";
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
        .map(|name| Problem::new("Cargo.lock", format!("holds `{name}`; TLS is rustls alone here")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_the_lints_is_told() {
        assert!(check_manifest("x/Cargo.toml", "[lints]\nworkspace = true\n").is_none());
        for bad in ["[package]\nname = \"x\"\n", "[dependencies]\nworkspace = true\n", "[lints]\n[package]\n"]
        {
            assert!(check_manifest("x/Cargo.toml", bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_second_tls_stack_is_told() {
        let told = check_lock("[[package]]\nname = \"native-tls\"\n\n[[package]]\nname = \"rustls\"\n");
        assert_eq!(told, [Problem::new("Cargo.lock", "holds `native-tls`; TLS is rustls alone here")]);
    }
}

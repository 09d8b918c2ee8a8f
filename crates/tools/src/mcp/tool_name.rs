//! Names of server tools: `server__tool`, valid for every provider, and unique.

use std::collections::HashSet;

use super::digest;

/// The smallest limit of all providers.
const MAX_NAME: usize = 64;
/// Length of the digest that makes a changed name unique.
const SUFFIX: usize = 8;

/// A name for a tool that is not in `taken`. A name that is too long or taken gets a suffix, a digest of the original names.
pub(super) fn unique_name(server: &str, tool: &str, taken: &HashSet<String>) -> String {
    let name = sanitize(&format!("{server}__{tool}"));
    if name.len() <= MAX_NAME && !taken.contains(&name) {
        return name;
    }
    let mut suffix = digest(&[server, tool]);
    loop {
        suffix.truncate(SUFFIX);
        let prefix = &name[..name.len().min(MAX_NAME - SUFFIX - 1)];
        let candidate = format!("{prefix}_{suffix}");
        if !taken.contains(&candidate) {
            return candidate;
        }
        suffix = digest(&[&suffix]);
    }
}

/// Replaces characters that are not allowed in names.
fn sanitize(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut name: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(pairs: &[(&str, &str)]) -> Vec<String> {
        let mut taken = HashSet::new();
        let one = |(server, tool): &(&str, &str)| {
            let name = unique_name(server, tool, &taken);
            taken.insert(name.clone());
            name
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn name_has_the_server_as_prefix_and_only_allowed_characters() {
        let rows = [("files", "read_file"), ("my.server", "get/page"), ("1st", "größe")];
        assert_eq!(names_of(&rows), ["files__read_file", "my_server__get_page", "_1st__gr__e"]);
    }

    #[test]
    fn colliding_names_are_made_unique() {
        let rows = [("a", "b__c"), ("a__b", "c"), ("s", "x.y"), ("s", "x/y"), ("s", "x_y")];
        let names = names_of(&rows);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), rows.len(), "{names:?}");
        assert_eq!(names[0], "a__b__c");
        assert!(names[1].starts_with("a__b__c_"), "{names:?}");
    }

    #[test]
    fn long_names_are_truncated_and_stay_unique() {
        let (first, second) = ("x".repeat(80), format!("{}y", "x".repeat(80)));
        let names = names_of(&[("files", &first), ("files", &second)]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() == MAX_NAME), "{names:?}");
        assert_eq!(names, names_of(&[("files", &first), ("files", &second)]));
    }
}

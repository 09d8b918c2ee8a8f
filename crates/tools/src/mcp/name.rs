//! What a server's tool is called here: `server__tool`, legal for every provider, and no name twice.

use std::collections::HashSet;

use super::digest;

/// The narrowest of the providers' limits.
const LONGEST: usize = 64;
const MARK: usize = 8;

/// The name of a tool, other than those in `taken`. What has to be changed in it is told apart by a mark that depends on the
/// written names alone.
pub(super) fn name(server: &str, tool: &str, taken: &HashSet<String>) -> String {
    let plain = legal(&format!("{server}__{tool}"));
    if plain.len() <= LONGEST && !taken.contains(&plain) {
        return plain;
    }
    let mut mark = digest(&[server, tool]);
    loop {
        mark.truncate(MARK);
        let kept = &plain[..plain.len().min(LONGEST - MARK - 1)];
        let name = format!("{kept}_{mark}");
        if !taken.contains(&name) {
            return name;
        }
        mark = digest(&[&mark]);
    }
}

fn legal(written: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut name: String = written.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pairs: &[(&str, &str)]) -> Vec<String> {
        let mut taken = HashSet::new();
        let one = |(server, tool): &(&str, &str)| {
            let name = name(server, tool, &taken);
            taken.insert(name.clone());
            name
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn a_tool_is_called_after_its_server() {
        let rows = [("files", "read_file"), ("my.server", "get/page"), ("1st", "größe")];
        assert_eq!(named(&rows), ["files__read_file", "my_server__get_page", "_1st__gr__e"]);
    }

    #[test]
    fn two_tools_never_have_one_name() {
        let rows = [("a", "b__c"), ("a__b", "c"), ("s", "x.y"), ("s", "x/y"), ("s", "x_y")];
        let names = named(&rows);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), rows.len(), "{names:?}");
        assert_eq!(names[0], "a__b__c");
        assert!(names[1].starts_with("a__b__c_"), "{names:?}");
    }

    #[test]
    fn a_long_name_is_cut_and_stays_its_own() {
        let (first, second) = ("x".repeat(80), format!("{}y", "x".repeat(80)));
        let names = named(&[("files", &first), ("files", &second)]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() == LONGEST), "{names:?}");
        assert_eq!(names, named(&[("files", &first), ("files", &second)]));
    }
}

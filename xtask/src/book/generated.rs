//! The parts of pages that are generated from the source: `cargo xtask docs --write` writes them, `cargo xtask tidy` reports
//! outdated ones.

use super::{
    config::{self, Reference},
    spec,
};
use crate::{Result, Workspace, tidy::Problem};
use std::fs;

const CONFIGURATION: &str = "docs/src/configuration.md";
const REMEDY: &str = "is out of date; `cargo xtask docs --write` updates it";

/// A page with up-to-date generated parts.
struct Current {
    path: &'static str,
    text: String,
}

/// Problems of outdated pages and of their sources. `tests` are the names of all tests.
pub(crate) fn check(files: &[(String, String)], tests: &[String]) -> Vec<Problem> {
    let current = match generate(files, tests) {
        Ok(current) => current,
        Err(problems) => return problems,
    };
    let is_stale = |page: &&Current| text(files, page.path) != Some(page.text.as_str());
    let mut problems: Vec<Problem> =
        current.iter().filter(is_stale).map(|page| Problem::new(page.path, REMEDY)).collect();
    let page = text(files, CONFIGURATION).unwrap_or_default();
    let missing = config::unmentioned_variables(files, page);
    problems.extend(missing.into_iter().map(|what| Problem::new(CONFIGURATION, what)));
    problems
}

pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    let files = workspace.texts()?;
    let tests = crate::tidy::spec_tests(&files);
    match generate(&files, &tests) {
        Ok(current) => {
            for page in current {
                fs::write(workspace.root.join(page.path), page.text)?;
                println!("docs: wrote {}", page.path);
            }
            Ok(())
        }
        Err(problems) => {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Err(all.join("\n").into())
        }
    }
}

fn generate(files: &[(String, String)], tests: &[String]) -> std::result::Result<Vec<Current>, Vec<Problem>> {
    let missing = |path: &str| vec![Problem::new(path, "the page is missing")];
    let configuration = text(files, CONFIGURATION).ok_or_else(|| missing(CONFIGURATION))?;
    let specification = text(files, spec::PAGE).ok_or_else(|| missing(spec::PAGE))?;
    let of_types = |all: Vec<String>| {
        all.into_iter().map(|what| Problem::new("crates/cli/src/config", what)).collect::<Vec<_>>()
    };
    let Reference { keys, providers } = Reference::generate(files).map_err(of_types)?;
    let replaced =
        replace(configuration, "keys", &keys).and_then(|text| replace(&text, "providers", &providers));
    let configuration = replaced.map_err(|what| vec![Problem::new(CONFIGURATION, what)])?;
    Ok(vec![
        Current { path: CONFIGURATION, text: configuration },
        Current { path: spec::PAGE, text: spec::with_tests(specification, tests) },
    ])
}

fn text<'a>(files: &'a [(String, String)], path: &str) -> Option<&'a str> {
    files.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_str())
}

/// Replaces the part between its markers.
fn replace(page: &str, name: &str, part: &str) -> std::result::Result<String, String> {
    let (begin, end) = (format!("<!-- generated: {name} -->"), format!("<!-- end: {name} -->"));
    let halves = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, behind) = halves.ok_or_else(|| format!("the markers `{begin}` and `{end}` are missing"))?;
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{behind}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_part_is_replaced_between_its_markers() {
        let page = "a\n<!-- generated: keys -->\nold\n<!-- end: keys -->\nb\n";
        let written = replace(page, "keys", "new\n").unwrap();
        assert_eq!(written, "a\n<!-- generated: keys -->\n\nnew\n\n<!-- end: keys -->\nb\n");
        assert_eq!(replace(&written, "keys", "new\n").unwrap(), written);
        assert!(replace(page, "others", "x").unwrap_err().contains("<!-- generated: others -->"));
    }

    #[test]
    fn missing_page_is_reported() {
        let reported = check(&[], &[]);
        assert_eq!(reported.len(), 1);
        assert!(reported[0].to_string().contains("docs/src/configuration.md: the page is missing"));
    }
}

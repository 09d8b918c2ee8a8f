//! The quality of HTML conversion: recall and precision of words, and the share of link addresses.
//!
//! The pages of this repository are in `fixtures/pages`. The public readability pages come with a package of the Rust registry,
//! which is fetched for the measurement and not stored.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tools::fetch::html;

/// A package whose tests have Mozilla's readability pages with their expected content.
const PACKAGE: (&str, &str) = ("readabilityrs", "0.1.4");
const RECALL: f64 = 0.97;
const PRECISION: f64 = 0.85;
const ADDRESSES: f64 = 0.10;

/// A page and the text of its content.
struct Sample {
    html: String,
    expected: String,
}

/// Sums over pages.
#[derive(Default)]
struct Score {
    pages: f64,
    recall: f64,
    precision: f64,
    addresses: usize,
    characters: usize,
}

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let mut figures = score(&own_pages()?).figures("html/own");
    let project = env.directory()?;
    match public_pages(project.path()) {
        Ok(pages) => figures.extend(score(&pages).figures("html/readability")),
        Err(why) => eprintln!("html/readability: not measured, the pages cannot be fetched: {why}"),
    }
    Ok(figures)
}

impl Score {
    #[expect(clippy::cast_precision_loss, reason = "the numbers of characters are small")]
    fn share(&self) -> f64 {
        self.addresses as f64 / self.characters.max(1) as f64
    }

    fn figures(&self, name: &str) -> Vec<Figure> {
        let mean = |sum: f64| sum / self.pages.max(1.0);
        let figure =
            |kind: &str, value, target| Figure::new(format!("{name}/{kind}"), value, "ratio").target(target);
        vec![
            Figure::new(format!("{name}/pages"), self.pages, "pages"),
            figure("recall", mean(self.recall), Target::AtLeast(RECALL)),
            figure("precision", mean(self.precision), Target::AtLeast(PRECISION)),
            figure("addresses", self.share(), Target::AtMost(ADDRESSES)),
        ]
    }
}

fn own_pages() -> Result<Vec<Sample>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/pages");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "html"));
    paths.sort();
    let sample = |path: &PathBuf| {
        let expected = fs::read_to_string(path.with_extension("txt"))?;
        Ok(Sample { html: fs::read_to_string(path)?, expected })
    };
    paths.iter().map(sample).collect()
}

/// Fetches the package with cargo, and reads its pages.
fn public_pages(project: &Path) -> Result<Vec<Sample>> {
    let (name, version) = PACKAGE;
    fs::create_dir_all(project.join("src"))?;
    fs::write(project.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"pages\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{name} = \"={version}\"\n"
    );
    fs::write(project.join("Cargo.toml"), manifest)?;
    let output =
        Command::new("cargo").args(["metadata", "--format-version", "1"]).current_dir(project).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let package = packages.iter().find(|package| package["name"] == name).ok_or("the package is missing")?;
    let root =
        Path::new(package["manifest_path"].as_str().unwrap_or_default()).with_file_name("tests/test-pages");
    let mut samples = Vec::new();
    for entry in fs::read_dir(root)? {
        let dir = entry?.path();
        let Ok(expected) = fs::read_to_string(dir.join("expected.html")) else { continue };
        let html = String::from_utf8_lossy(&fs::read(dir.join("source.html"))?).into_owned();
        samples.push(Sample { html, expected: without_tags(&expected) });
    }
    Ok(samples)
}

fn score(samples: &[Sample]) -> Score {
    let mut score = Score::default();
    for sample in samples {
        let Ok(url) = "http://fakehost/test/page.html".parse() else { continue };
        let text = html::to_text(&sample.html, &url).text;
        let (body, addresses) = split_links(&text);
        let (found, expected) = (words(&without_marks(body)), words(&sample.expected));
        let common: f64 =
            expected.iter().map(|(word, count)| count.min(*found.get(word).unwrap_or(&0.0))).sum();
        let total = |words: &HashMap<String, f64>| words.values().sum::<f64>().max(1.0);
        score.pages += 1.0;
        score.recall += common / total(&expected);
        score.precision += common / total(&found);
        score.addresses += addresses;
        score.characters += text.chars().count();
    }
    score
}

/// The text before the list of links, and the number of characters of its addresses.
fn split_links(text: &str) -> (&str, usize) {
    let body = text.split("\n\nLinks (").next().unwrap_or(text);
    let body = if body.ends_with("shows all)") {
        body.rsplit_once("\n\n").map_or(body, |(body, _)| body)
    } else {
        body
    };
    let list = &text[body.len()..];
    let addresses = list.lines().filter_map(|line| line.strip_prefix('[')?.split_once("] "));
    (body, addresses.map(|(_, address)| address.chars().count()).sum())
}

/// Drops the title, descriptions of images and numbers of links, which the expected texts do not have.
fn without_marks(body: &str) -> String {
    let body = match body.split_once("\n\n") {
        Some((title, rest)) if !title.starts_with('#') && title.len() < 200 && rest.len() > 300 => rest,
        _ => body,
    };
    let mut text = String::new();
    for piece in body.split('[') {
        match piece.split_once(']') {
            Some((mark, rest))
                if mark.starts_with("image: ") || mark.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                text.push_str(rest);
            }
            _ => text.extend(["[", piece]),
        }
    }
    text
}

/// The words of a text with their counts. Without spaces between words, each character is one.
fn words(text: &str) -> HashMap<String, f64> {
    let mut words = HashMap::new();
    let is_ideograph = |c: char| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}');
    let text = text.to_lowercase();
    for run in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|run| !run.is_empty()) {
        let (single, other): (String, String) = run.chars().partition(|c| is_ideograph(*c));
        for word in single.chars().map(String::from).chain((!other.is_empty()).then_some(other)) {
            *words.entry(word).or_insert(0.0) += 1.0;
        }
    }
    words
}

/// The text of serialised HTML.
fn without_tags(html: &str) -> String {
    const INLINE: [&str; 10] = ["a", "b", "i", "em", "strong", "span", "code", "sup", "sub", "u"];
    let mut text = String::new();
    let mut pieces = html.split('<');
    text.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (tag, rest) = piece.split_once('>').unwrap_or((piece, ""));
        let name =
            tag.trim_start_matches('/').split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        text.push_str(if INLINE.contains(&name) { "" } else { " " });
        text.push_str(rest);
    }
    let entities =
        [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text, |text, (entity, sign)| text.replace(entity, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pages_reach_the_targets() {
        let pages = own_pages().unwrap();
        assert!(pages.len() >= 25);
        let score = score(&pages);
        assert!(score.recall / score.pages >= RECALL, "{}", score.recall / score.pages);
        assert!(score.precision / score.pages >= PRECISION, "{}", score.precision / score.pages);
        assert!(score.share() < ADDRESSES, "{}", score.share());
    }
}

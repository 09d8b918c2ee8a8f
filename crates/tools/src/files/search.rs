//! `search_files`: finds lines that match a text or a regular expression.

use std::io::Read;

use encoding_rs::UTF_8;
use futures::future::BoxFuture;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{root::ResolvedPath, roots::FileRoots, walk::walk};
use crate::{
    Spec, Tool, ToolReply, ToolRequest, ToolsError,
    blocking::{self, CancelFlag},
    charset::{self, SampleKind},
};

const NAME: &str = "search_files";
const MAX_MATCHES: usize = 100;
/// Larger files are skipped and counted.
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// How many bytes of a matching line are returned.
const MAX_LINE: usize = 240;

/// The tool `search_files`.
#[derive(Debug)]
pub struct SearchFiles {
    spec: Spec,
    roots: FileRoots,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchFilesArgs {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    regex: bool,
}

impl SearchFiles {
    pub fn new(roots: impl Into<FileRoots>) -> Self {
        let roots = roots.into();
        let parameters = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "Text to look for. All in lower case, it matches any case."},
                "path": {"type": "string", "description": format!("A file or directory. {} Default: the working directory.", roots.path_syntax())},
                "regex": {"type": "boolean", "description": "The pattern is a regular expression (Rust syntax). Default: false."},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        let description = "Finds lines in text files. Hidden, git-ignored and binary files are left out.";
        Self { spec: Spec::read_only(NAME, description, parameters), roots }
    }
}

impl Tool for SearchFiles {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let roots = self.roots.clone();
        blocking::call(NAME, request, move |args, cancel| search(&roots, args, cancel))
    }
}

#[derive(Default)]
struct SearchResults {
    matches: Vec<Value>,
    lines: usize,
    files: usize,
    too_large: usize,
}

fn search(roots: &FileRoots, args: &SearchFilesArgs, cancel: &CancelFlag) -> Result<Value, ToolsError> {
    let pattern = compile_pattern(args)?;
    let target = roots.resolve(args.path.as_deref().unwrap_or("."))?;
    let mut results = SearchResults::default();
    if target.metadata.is_dir() {
        walk(&target, None, cancel, &mut |entry| {
            let root = &target.root;
            let Ok(relative) = entry.path().strip_prefix(root.path()) else { return };
            let Ok(metadata) = entry.metadata() else { return };
            if metadata.is_file() {
                // A file that vanished or cannot be opened is skipped.
                let file = ResolvedPath { root: root.clone(), relative: relative.to_owned(), metadata };
                let _ = results.search_file(&file, &pattern);
            }
        })?;
    } else {
        results.search_file(&target, &pattern)?;
    }
    Ok(results.into_json(&args.pattern))
}

fn compile_pattern(args: &SearchFilesArgs) -> Result<Regex, ToolsError> {
    let invalid = |reason: String| ToolsError::Arguments { tool: NAME.to_owned(), reason };
    if args.pattern.is_empty() {
        return Err(invalid("the pattern is empty".to_owned()));
    }
    let (source, any_case) = if args.regex {
        (args.pattern.clone(), false)
    } else {
        (regex::escape(&args.pattern), !args.pattern.contains(char::is_uppercase))
    };
    RegexBuilder::new(&source)
        .case_insensitive(any_case)
        .multi_line(true)
        .crlf(true)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| invalid(format!("the pattern is not a valid regular expression: {error}")))
}

impl SearchResults {
    fn search_file(&mut self, target: &ResolvedPath, pattern: &Regex) -> Result<(), ToolsError> {
        let file = target.open()?;
        let mut bytes = Vec::new();
        let fail = |source| super::root::read_error(&target.display_path(), source);
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > MAX_FILE {
            self.too_large += 1;
        } else if let SampleKind::Text(encoding) =
            charset::detect(&bytes[..bytes.len().min(charset::SAMPLE_BYTES)])
        {
            if encoding == UTF_8 {
                self.collect(target, &bytes, pattern);
            } else {
                self.collect(target, charset::decode(&bytes, encoding).as_bytes(), pattern);
            }
        }
        Ok(())
    }

    fn collect(&mut self, target: &ResolvedPath, bytes: &[u8], pattern: &Regex) {
        let before = self.lines;
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let Some(hit) = pattern.find(line) else { continue };
            self.lines += 1;
            if self.matches.len() < MAX_MATCHES {
                let text = excerpt(line, hit.start());
                self.matches.push(json!({"path": target.display_path(), "line": number + 1, "text": text}));
            }
        }
        self.files += usize::from(self.lines > before);
    }

    fn into_json(self, pattern: &str) -> Value {
        let mut answer =
            json!({"pattern": pattern, "matches": self.matches, "total": self.lines, "files": self.files});
        if self.lines > self.matches.len() {
            let count = self.matches.len();
            answer["note"] =
                format!("the first {count} of {}; narrow the pattern or the path", self.lines).into();
        }
        if self.too_large > 0 {
            answer["not_searched"] = format!("{} files over {} MiB", self.too_large, MAX_FILE >> 20).into();
        }
        answer
    }
}

/// The part of a line around the match, cut at character boundaries.
fn excerpt(line: &[u8], hit: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let is_boundary = |at: &usize| *at == 0 || *at == line.len() || line[*at] & 0xc0 != 0x80;
    let start = (0..=hit.saturating_sub(MAX_LINE / 4)).rev().find(is_boundary).unwrap_or(0);
    let end = (start..=line.len().min(start + MAX_LINE)).rev().find(is_boundary).unwrap_or(line.len());
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{after}", String::from_utf8_lossy(&line[start..end]))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{files::FileRoot, testing::call_tool};

    fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, SearchFiles) {
        let dir = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = FileRoot::new(dir.path()).unwrap();
        (dir, SearchFiles::new(root))
    }

    fn matches(answer: &Value) -> Vec<String> {
        let matches = answer["matches"].as_array().unwrap().iter();
        matches
            .map(|hit| {
                format!(
                    "{}:{}: {}",
                    hit["path"].as_str().unwrap(),
                    hit["line"],
                    hit["text"].as_str().unwrap()
                )
            })
            .collect()
    }

    #[tokio::test]
    async fn matches_have_path_and_line_number() {
        let (_dir, tool) = tree(&[
            ("a.rs", b"fn main() {}\r\n// TODO: all\r\n"),
            ("b/c.rs", b"nothing\nlet todo = 1;\n"),
            (".hidden", b"TODO"),
            ("b/x.bin", b"TODO\0"),
        ]);
        let answer = call_tool(&tool, json!({"pattern": "todo"})).await.unwrap();
        assert_eq!(matches(&answer), ["a.rs:2: // TODO: all", "b/c.rs:2: let todo = 1;"]);
        assert_eq!((&answer["total"], &answer["files"]), (&json!(2), &json!(2)));
        let exact = call_tool(&tool, json!({"pattern": "TODO"})).await.unwrap();
        assert_eq!(matches(&exact), ["a.rs:2: // TODO: all"]);
        let below = call_tool(&tool, json!({"pattern": "todo", "path": "b"})).await.unwrap();
        assert_eq!(matches(&below), ["b/c.rs:2: let todo = 1;"]);
        let file = call_tool(&tool, json!({"pattern": "todo", "path": ".hidden"})).await.unwrap();
        assert_eq!(matches(&file), [".hidden:1: TODO"]);
    }

    #[tokio::test]
    async fn pattern_is_literal_unless_regex_is_set() {
        let (_dir, tool) = tree(&[("a.txt", b"a.c\nabc\n(x\n")]);
        assert_eq!(matches(&call_tool(&tool, json!({"pattern": "a.c"})).await.unwrap()), ["a.txt:1: a.c"]);
        assert_eq!(matches(&call_tool(&tool, json!({"pattern": "(x"})).await.unwrap()), ["a.txt:3: (x"]);
        let both = call_tool(&tool, json!({"pattern": "^a.c$", "regex": true})).await.unwrap();
        assert_eq!(both["total"], 2);
        let error = call_tool(&tool, json!({"pattern": "(x", "regex": true})).await.unwrap_err();
        assert!(
            error.contains("the pattern is not a valid regular expression")
                && error.contains("unclosed group"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn matches_are_truncated_with_the_total_count_and_long_lines_are_excerpted() {
        let many = "hit\n".repeat(1000);
        let long = format!("{}needle{}", "ä".repeat(5000), "x".repeat(5000));
        let (_dir, tool) = tree(&[("many.txt", many.as_bytes()), ("long.txt", long.as_bytes())]);
        let answer = call_tool(&tool, json!({"pattern": "hit"})).await.unwrap();
        assert_eq!((answer["matches"].as_array().unwrap().len(), &answer["total"]), (100, &json!(1000)));
        assert_eq!(answer["note"], "the first 100 of 1000; narrow the pattern or the path");
        let answer = call_tool(&tool, json!({"pattern": "needle"})).await.unwrap();
        let text = answer["matches"][0]["text"].as_str().unwrap();
        assert!(
            text.starts_with("…ä") && text.contains("needle") && text.ends_with("x…") && text.len() < 300,
            "{text}"
        );
    }

    #[tokio::test]
    async fn files_in_other_encodings_are_searched() {
        let cyrillic = encoding_rs::WINDOWS_1251.encode("первая строка\nвторая строка\n").0.into_owned();
        let wide: Vec<u8> = "\u{feff}одна\r\nвторая\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (_dir, tool) = tree(&[("a.txt", &cyrillic), ("b.txt", &wide)]);
        let answer = call_tool(&tool, json!({"pattern": "вторая"})).await.unwrap();
        assert_eq!(matches(&answer), ["a.txt:2: вторая строка", "b.txt:2: вторая"]);
    }

    #[tokio::test]
    async fn oversized_files_are_skipped_and_counted() {
        let (dir, tool) = tree(&[("a.txt", b"needle\n")]);
        fs::File::create(dir.path().join("huge.txt")).unwrap().set_len(MAX_FILE + 1).unwrap();
        let answer = call_tool(&tool, json!({"pattern": "needle"})).await.unwrap();
        assert_eq!((&answer["total"], &answer["not_searched"]), (&json!(1), &json!("1 files over 16 MiB")));
    }
}

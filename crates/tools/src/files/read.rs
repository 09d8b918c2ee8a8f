//! `read_file`: a text file or a range of its lines, up to a size limit.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek},
};

use encoding_rs::{Encoding, UTF_8};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    root::{ResolvedPath, read_error},
    roots::FileRoots,
    versions::{ContentDigest, FileVersions},
};
use crate::{
    Spec, Tool, ToolReply, ToolRequest, ToolsError, args,
    blocking::{self, CancelFlag},
    charset::{self, SampleKind},
    paging::{self, Excerpt, HeadAndTail, LineRange},
};

const NAME: &str = "read_file";
/// Size limit of a file that is decoded as a whole.
const MAX_DECODED: u64 = 16 * 1024 * 1024;

/// The tool `read_file`.
#[derive(Debug)]
pub struct ReadFile {
    spec: Spec,
    roots: FileRoots,
    versions: FileVersions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFileArgs {
    path: String,
    #[serde(default, deserialize_with = "args::integer")]
    offset: Option<usize>,
    #[serde(default, deserialize_with = "args::integer")]
    limit: Option<usize>,
}

impl ReadFile {
    /// `versions` records each file that is read, so that a later edit can detect a change.
    pub fn new(roots: impl Into<FileRoots>, versions: FileVersions) -> Self {
        let roots = roots.into();
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": roots.path_syntax()},
                "offset": {"type": "integer", "minimum": 0, "description": "First line to read, counted from 1. Default: 1."},
                "limit": {"type": "integer", "minimum": 0, "description": "How many lines to read. Default: as many as fit."},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let description =
            "Reads a text file. Of a large one, its beginning and end are shown; read on with offset.";
        Self { spec: Spec::read_only(NAME, description, parameters), roots, versions }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        let (roots, versions) = (self.roots.clone(), self.versions.clone());
        blocking::call(NAME, request, move |args, cancel| read(&roots, &versions, args, cancel))
    }
}

fn read(
    roots: &FileRoots,
    versions: &FileVersions,
    args: &ReadFileArgs,
    cancel: &CancelFlag,
) -> Result<Value, ToolsError> {
    let target = roots.resolve(&args.path)?;
    let mut file = target.open()?;
    let fail = |source| read_error(&target.display_path(), source);
    let metadata = file.metadata().map_err(fail)?;
    let size = metadata.len();
    let mut sample = Vec::new();
    (&mut file).take(charset::SAMPLE_BYTES as u64).read_to_end(&mut sample).map_err(fail)?;
    let encoding = match charset::detect(&sample) {
        SampleKind::Text(encoding) => encoding,
        SampleKind::Binary(kind) => {
            return Ok(json!({"path": target.display_path(), "bytes": size, "binary": kind}));
        }
    };
    file.rewind().map_err(fail)?;
    let (answer, digest) = if encoding == UTF_8 {
        read_pages(file, &target, (size, args), cancel)?
    } else {
        read_decoded(file, &target, (encoding, args), cancel)?
    };
    versions.record(&target.absolute(), &metadata, digest);
    Ok(answer)
}

/// Reads what the arguments ask for from UTF-8 text. The digest is known only for a whole file.
fn read_pages(
    file: impl Read + Seek,
    target: &ResolvedPath,
    (size, args): (u64, &ReadFileArgs),
    cancel: &CancelFlag,
) -> Result<(Value, Option<ContentDigest>), ToolsError> {
    if args.offset.is_none() && args.limit.is_none() {
        let fail = |source| read_error(&target.display_path(), source);
        return read_whole_or_ends(file, target, size).map_err(fail);
    }
    let range = LineRange { first: args.offset.unwrap_or(1).max(1), count: args.limit.unwrap_or(usize::MAX) };
    Ok((read_lines(file, target, &range, cancel)?, None))
}

/// Reads a file that is not in UTF-8: it is decoded as a whole, so that pages are cut between characters. The answer names
/// its encoding.
fn read_decoded(
    mut file: File,
    target: &ResolvedPath,
    (encoding, args): (&'static Encoding, &ReadFileArgs),
    cancel: &CancelFlag,
) -> Result<(Value, Option<ContentDigest>), ToolsError> {
    let mut bytes = Vec::new();
    (&mut file)
        .take(MAX_DECODED + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| read_error(&target.display_path(), source))?;
    if bytes.len() as u64 > MAX_DECODED {
        let (path, name) = (target.display_path(), encoding.name());
        return Err(ToolsError::Failed(format!(
            "`{path}` is {name} text of more than {} MiB; convert it to UTF-8 first, for example with iconv",
            MAX_DECODED >> 20
        )));
    }
    let text = charset::decode(&bytes, encoding);
    let size = text.len() as u64;
    let (mut answer, whole) = read_pages(Cursor::new(text.as_bytes()), target, (size, args), cancel)?;
    if whole.is_some() {
        answer["bytes"] = bytes.len().into();
    }
    answer["encoding"] = encoding.name().into();
    // The digest is about the file, not about its decoded text.
    Ok((answer, whole.map(|_| ContentDigest::compute(&bytes))))
}

/// The whole file, or its head and tail with the size of the gap between them. The digest is known only for a whole file.
fn read_whole_or_ends(
    file: impl Read + Seek,
    target: &ResolvedPath,
    size: u64,
) -> io::Result<(Value, Option<ContentDigest>)> {
    let ends = match paging::read_excerpt(file, size)? {
        Excerpt::Whole(text) => {
            let answer = json!({"path": target.display_path(), "bytes": text.len(), "text": decode(&text)});
            return Ok((answer, Some(ContentDigest::compute(&text))));
        }
        Excerpt::HeadAndTail(ends) => ends,
    };
    let HeadAndTail { head, tail, left_out, next } = ends;
    let note = format!("\n[… {left_out} bytes left out; read on with offset {next} …]\n");
    let text = format!("{}{note}{}", decode(&head), decode(&tail));
    let answer = json!({"path": target.display_path(), "bytes": size, "text": text, "left_out_bytes": left_out, "next_offset": next});
    Ok((answer, None))
}

fn read_lines(
    file: impl Read,
    target: &ResolvedPath,
    range: &LineRange,
    cancel: &CancelFlag,
) -> Result<Value, ToolsError> {
    let page = paging::read_lines(file, range, cancel)
        .map_err(|error| error.into_error(&target.display_path(), NAME))?;
    let mut answer =
        json!({"path": target.display_path(), "first_line": range.first, "text": decode(&page.text)});
    if let Some(next) = page.next {
        answer["next_offset"] = next.into();
    }
    Ok(answer)
}

/// Decodes UTF-8 lossily: text with `�` for an invalid byte is more useful than an error.
fn decode(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::{
        files::FileRoot,
        paging::{HEAD_BYTES, MAX_WHOLE, TAIL_BYTES},
        testing::call_tool,
    };

    fn tool(name: &str, content: impl AsRef<[u8]>) -> (TempDir, ReadFile) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), content).unwrap();
        let root = FileRoot::new(dir.path()).unwrap();
        (dir, ReadFile::new(root, FileVersions::default()))
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).fold(String::new(), |text, line| text + "line " + &line.to_string() + "\n")
    }

    #[tokio::test]
    async fn small_file_is_returned_whole() {
        let (_dir, tool) = tool("a.txt", "grüße\r\n日本");
        let answer = call_tool(&tool, json!({"path": "./a.txt"})).await.unwrap();
        assert_eq!(answer, json!({"path": "a.txt", "bytes": 15, "text": "grüße\r\n日本"}));
    }

    #[tokio::test]
    async fn line_range_starts_at_one_and_returns_the_next_offset() {
        let (_dir, tool) = tool("a.txt", numbered(5));
        let page = call_tool(&tool, json!({"path": "a.txt", "offset": 2, "limit": 2.0})).await.unwrap();
        assert_eq!(
            page,
            json!({"path": "a.txt", "first_line": 2, "text": "line 2\nline 3\n", "next_offset": 4})
        );
        let rest = call_tool(&tool, json!({"path": "a.txt", "offset": 4})).await.unwrap();
        assert_eq!(rest, json!({"path": "a.txt", "first_line": 4, "text": "line 4\nline 5\n"}));
        let past = call_tool(&tool, json!({"path": "a.txt", "offset": 9})).await.unwrap_err();
        assert_eq!(
            past,
            "bad arguments for `read_file`: offset 9 is past the end of `a.txt`, which has 5 lines"
        );
    }

    #[tokio::test]
    async fn large_file_returns_head_and_tail_with_the_gap_between_them() {
        let content = numbered(1_000_000);
        let (_dir, tool) = tool("big.log", &content);
        let answer = call_tool(&tool, json!({"path": "big.log"})).await.unwrap();
        let text = answer["text"].as_str().unwrap();
        assert!(text.len() < HEAD_BYTES + TAIL_BYTES + 200);
        assert!(text.starts_with("line 1\n") && text.ends_with("line 1000000\n"));
        let (head, rest) = text.split_once("\n[… ").unwrap();
        let (_, tail) = rest.split_once("…]\n").unwrap();
        let left_out = answer["left_out_bytes"].as_u64().unwrap();
        assert_eq!(head.len() as u64 + left_out + tail.len() as u64, content.len() as u64);
        let next = answer["next_offset"].as_u64().unwrap();
        assert!(head.ends_with(&format!("line {}\n", next - 1)) && tail.starts_with("line "));
    }

    #[tokio::test]
    async fn consecutive_pages_return_every_line_once() {
        let content = numbered(20_000);
        let (_dir, tool) = tool("a.txt", &content);
        let (mut all, mut next) = (String::new(), Some(1));
        while let Some(offset) = next {
            let page = call_tool(&tool, json!({"path": "a.txt", "offset": offset})).await.unwrap();
            all.push_str(page["text"].as_str().unwrap());
            next = page["next_offset"].as_u64();
        }
        assert_eq!(all, content);
    }

    #[tokio::test]
    async fn line_longer_than_a_page_is_truncated_and_the_next_page_follows_it() {
        let long = "é".repeat(MAX_WHOLE);
        let (_dir, tool) = tool("min.js", format!("first\n{long}\nlast\n"));
        let first = call_tool(&tool, json!({"path": "min.js", "offset": 1})).await.unwrap();
        assert_eq!((&first["text"], &first["next_offset"]), (&json!("first\n"), &json!(2)));
        let second = call_tool(&tool, json!({"path": "min.js", "offset": 2})).await.unwrap();
        assert_eq!(second["text"].as_str().unwrap().len(), MAX_WHOLE);
        assert_eq!(second["next_offset"], 3);
        let whole = call_tool(&tool, json!({"path": "min.js"})).await.unwrap();
        assert!(!whole["text"].as_str().unwrap().contains('\u{fffd}'));
    }

    #[tokio::test]
    async fn other_encodings_are_decoded_and_named() {
        let bytes = encoding_rs::SHIFT_JIS.encode("日本語のファイル\n二行目です\n").0.into_owned();
        let (_dir, tool) = tool("a.txt", &bytes);
        let whole = call_tool(&tool, json!({"path": "a.txt"})).await.unwrap();
        let text = "日本語のファイル\n二行目です\n";
        assert_eq!(
            whole,
            json!({"path": "a.txt", "bytes": bytes.len(), "text": text, "encoding": "Shift_JIS"})
        );
        let second = call_tool(&tool, json!({"path": "a.txt", "offset": 2})).await.unwrap();
        assert_eq!(
            second,
            json!({"path": "a.txt", "first_line": 2, "text": "二行目です\n", "encoding": "Shift_JIS"})
        );
    }

    #[tokio::test]
    async fn pages_of_utf16_are_cut_between_characters() {
        let lines = (1..=20_000).fold("\u{feff}".to_owned(), |text, line| format!("{text}строка {line}\r\n"));
        let bytes: Vec<u8> = lines.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (_dir, tool) = tool("a.txt", bytes);
        let answer = call_tool(&tool, json!({"path": "a.txt"})).await.unwrap();
        let text = answer["text"].as_str().unwrap();
        assert!(text.starts_with("строка 1\r\n") && text.ends_with("строка 20000\r\n"), "{text}");
        assert!(!text.contains('\u{fffd}'));
        assert_eq!(answer["encoding"], "UTF-16LE");
        let page = call_tool(&tool, json!({"path": "a.txt", "offset": 19_999})).await.unwrap();
        assert_eq!(page["text"], "строка 19999\r\nстрока 20000\r\n");
    }

    #[tokio::test]
    async fn binary_file_is_identified_without_its_content() {
        let (_dir, tool) = tool("x.png", b"\x89PNG\r\n\x1a\n\0\0\0");
        let answer = call_tool(&tool, json!({"path": "x.png"})).await.unwrap();
        assert_eq!(answer, json!({"path": "x.png", "bytes": 11, "binary": "a PNG image"}));
    }

    #[tokio::test]
    async fn unknown_missing_and_invalid_arguments_are_named() {
        let (_dir, tool) = tool("a.txt", "");
        assert!(call_tool(&tool, json!({})).await.unwrap_err().contains("missing field `path`"));
        assert!(
            call_tool(&tool, json!({"path": "a.txt", "lines": 3}))
                .await
                .unwrap_err()
                .contains("unknown field `lines`")
        );
        let error = call_tool(&tool, json!({"path": "a.txt", "offset": -1})).await.unwrap_err();
        assert!(error.contains("`-1` is not an integer of 0 or more"), "{error}");
    }

    #[tokio::test]
    async fn read_fails_when_the_turn_is_cancelled() {
        let (_dir, tool) = tool("a.txt", "text");
        let host =
            std::sync::Arc::new(crate::testing::RecordingHost { cancelled: true, ..Default::default() });
        let answer = tool.call(crate::testing::request(&host, json!({"path": "a.txt"}))).await;
        assert!(matches!(answer, Err(ToolsError::Cancelled)));
    }
}

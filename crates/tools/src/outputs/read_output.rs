//! `read_output`: pages of a stored output.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{HandleKind, OutputStore, to_plain_text};
use crate::{
    Spec, Tool, ToolReply, ToolRequest, ToolsError, args,
    blocking::{self, CancelFlag},
    media,
    paging::{self, Excerpt, HeadAndTail, LineRange},
};

const NAME: &str = "read_output";
const MAX_MATCHES: usize = 100;
/// How many bytes of a matching line are returned.
const MAX_LINE: usize = 400;
/// How many bytes from the end `tail` searches for lines.
const MAX_TAIL: u64 = 40 * 1024;

/// The tool `read_output`.
#[derive(Debug)]
pub struct ReadOutput {
    spec: Spec,
    store: OutputStore,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadOutputArgs {
    handle: String,
    #[serde(default, deserialize_with = "args::integer")]
    offset: Option<usize>,
    #[serde(default, deserialize_with = "args::integer")]
    limit: Option<usize>,
    #[serde(default, deserialize_with = "args::integer")]
    tail: Option<usize>,
    search: Option<String>,
}

impl ReadOutput {
    pub fn new(store: OutputStore) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle that the tool which made the output returned."},
                "offset": {"type": "integer", "minimum": 0, "description": "First line to read, counted from 1. Default: 1."},
                "limit": {"type": "integer", "minimum": 0, "description": "How many lines to read. Default: as many as fit."},
                "tail": {"type": "integer", "minimum": 1, "description": "Instead: this many lines from the end."},
                "search": {"type": "string", "minLength": 1, "description": "Instead: the lines that contain this text, in any case, with their numbers."},
            },
            "required": ["handle"],
            "additionalProperties": false,
        });
        let description =
            "Reads more of an output that was too long to show: by lines, from the end, or by a text in it.";
        Self { spec: Spec::read_only(NAME, description, parameters), store }
    }
}

impl Tool for ReadOutput {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let args: ReadOutputArgs = args::parse(NAME, request.args)?;
            let file = self.store.open(HandleKind::Output, &args.handle)?;
            blocking::run(&*request.host, move |cancel| read(file, &args, cancel)).await.map(ToolReply::Done)
        })
    }
}

fn read(mut file: File, args: &ReadOutputArgs, cancel: &CancelFlag) -> Result<Value, ToolsError> {
    let fail = |source| ToolsError::Read { path: args.handle.clone(), source };
    let size = file.metadata().map_err(fail)?.len();
    let mut sample = Vec::new();
    (&mut file).take(media::SNIFF_BYTES as u64).read_to_end(&mut sample).map_err(fail)?;
    if let Some(kind) = media::binary_kind(&sample) {
        return Ok(json!({"handle": args.handle, "bytes": size, "binary": kind}));
    }
    file.rewind().map_err(fail)?;
    match (&args.search, args.tail) {
        (Some(text), _) => search(file, args, text, cancel),
        (None, Some(lines)) => read_tail(file, args, size, lines).map_err(fail),
        (None, None) if args.offset.is_none() && args.limit.is_none() => {
            read_excerpt(file, args, size).map_err(fail)
        }
        (None, None) => read_page(file, args, cancel),
    }
}

fn read_excerpt(file: File, args: &ReadOutputArgs, size: u64) -> std::io::Result<Value> {
    Ok(match paging::read_excerpt(file, size)? {
        Excerpt::Whole(text) => json!({"handle": args.handle, "bytes": size, "output": to_plain_text(&text)}),
        Excerpt::HeadAndTail(HeadAndTail { head, tail, left_out, next }) => {
            let note = format!("\n[… {left_out} bytes left out; read on with offset {next} …]\n");
            let text = format!("{}{note}{}", to_plain_text(&head), to_plain_text(&tail));
            json!({"handle": args.handle, "bytes": size, "output": text, "left_out_bytes": left_out, "next_offset": next})
        }
    })
}

fn read_page(file: File, args: &ReadOutputArgs, cancel: &CancelFlag) -> Result<Value, ToolsError> {
    let first = args.offset.unwrap_or(1).max(1);
    let range = LineRange { first, count: args.limit.unwrap_or(usize::MAX) };
    let page =
        paging::read_lines(file, &range, cancel).map_err(|error| error.into_error(&args.handle, NAME))?;
    let mut answer = json!({"handle": args.handle, "first_line": first, "output": to_plain_text(&page.text)});
    if let Some(next) = page.next {
        answer["next_offset"] = next.into();
    }
    Ok(answer)
}

fn read_tail(mut file: File, args: &ReadOutputArgs, size: u64, lines: usize) -> std::io::Result<Value> {
    let start = size.saturating_sub(MAX_TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    file.take(MAX_TAIL).read_to_end(&mut end)?;
    let skipped = if start > 0 { paging::line_start(&end) } else { 0 };
    let end = &end[skipped..];
    let text = end.strip_suffix(b"\n").unwrap_or(end);
    let breaks = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let from = if lines == 0 { end.len() } else { breaks.into_iter().nth(lines - 1).unwrap_or(0) };
    Ok(json!({"handle": args.handle, "bytes": size, "output": to_plain_text(&end[from..])}))
}

/// Searches in one pass. Memory use is bounded: an overlong line is searched in parts.
fn search(file: File, args: &ReadOutputArgs, text: &str, cancel: &CancelFlag) -> Result<Value, ToolsError> {
    let pattern = regex::bytes::RegexBuilder::new(&regex::escape(text))
        .case_insensitive(true)
        .build()
        .map_err(|error| ToolsError::Arguments { tool: NAME.to_owned(), reason: error.to_string() })?;
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let (mut matches, mut total, mut number) = (Vec::new(), 0_usize, 1_usize);
    let mut line = Vec::new();
    loop {
        cancel.check()?;
        line.clear();
        let read = (&mut reader).take(64 * 1024).read_until(b'\n', &mut line);
        if read.map_err(|source| ToolsError::Read { path: args.handle.clone(), source })? == 0 {
            break;
        }
        let ended = line.ends_with(b"\n");
        if let Some(hit) = pattern.find(&line) {
            total += 1;
            if matches.len() < MAX_MATCHES {
                let from = hit.start().saturating_sub(MAX_LINE / 4);
                let excerpt = &line[from..line.len().min(from + MAX_LINE)];
                matches.push(json!({"line": number, "text": to_plain_text(excerpt).trim_end_matches('\n')}));
            }
        }
        number += usize::from(ended);
    }
    let mut answer = json!({"handle": args.handle, "matches": matches, "total": total});
    if total > MAX_MATCHES {
        answer["note"] = format!("the first {MAX_MATCHES} of {total}; search for more of the line").into();
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing::call_tool;

    fn tool(content: &[u8]) -> (tempfile::TempDir, ReadOutput, String) {
        let dir = tempfile::tempdir().unwrap();
        let store = OutputStore::new(dir.path());
        let (handle, mut file) = store.create(HandleKind::Output).unwrap();
        file.write_all(content).unwrap();
        (dir, ReadOutput::new(store), handle)
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).fold(String::new(), |text, line| text + "line " + &line.to_string() + "\n")
    }

    #[tokio::test]
    async fn consecutive_pages_return_every_line_once() {
        let content = numbered(20_000);
        let (_dir, tool, handle) = tool(content.as_bytes());
        let (mut all, mut next) = (String::new(), Some(1));
        while let Some(offset) = next {
            let page = call_tool(&tool, json!({"handle": handle, "offset": offset})).await.unwrap();
            all.push_str(page["output"].as_str().unwrap());
            next = page["next_offset"].as_u64();
        }
        assert_eq!(all, content);
        let ends = call_tool(&tool, json!({"handle": handle})).await.unwrap();
        assert!(ends["output"].as_str().unwrap().ends_with("line 20000\n"));
    }

    #[tokio::test]
    async fn tail_returns_the_last_lines() {
        let (_dir, tool, handle) = tool(numbered(20_000).as_bytes());
        for (lines, expected) in [(1, "line 20000\n"), (2, "line 19999\nline 20000\n")] {
            assert_eq!(
                call_tool(&tool, json!({"handle": handle, "tail": lines})).await.unwrap()["output"],
                expected
            );
        }
        let (_dir, tool, handle) = self::tool(b"one\ntwo");
        assert_eq!(
            call_tool(&tool, json!({"handle": handle, "tail": 9})).await.unwrap()["output"],
            "one\ntwo"
        );
    }

    #[tokio::test]
    async fn search_returns_matching_lines_with_their_numbers() {
        let (_dir, tool, handle) = tool(format!("{}\x1b[1mNeedle\x1b[0m\n", numbered(500)).as_bytes());
        let found = call_tool(&tool, json!({"handle": handle, "search": "needle"})).await.unwrap();
        assert_eq!(
            (&found["matches"], &found["total"]),
            (&json!([{"line": 501, "text": "Needle"}]), &json!(1))
        );
        let many = call_tool(&tool, json!({"handle": handle, "search": "line"})).await.unwrap();
        assert_eq!((many["matches"].as_array().unwrap().len(), &many["total"]), (100, &json!(500)));
    }

    #[tokio::test]
    async fn unknown_handle_is_rejected_and_binary_output_is_identified() {
        let (_dir, tool, handle) = tool(b"\x89PNG\r\n\x1a\n\0");
        assert_eq!(call_tool(&tool, json!({"handle": handle})).await.unwrap()["binary"], "a PNG image");
        let error = call_tool(&tool, json!({"handle": "../x"})).await.unwrap_err();
        assert!(error.contains("`../x` is not a handle"), "{error}");
    }
}

//! Decoding a model's answer from network bytes to events, compared with `eventsource-stream` under the same decoder.
//!
//! Two answers are decoded: one of many small deltas, as for text, and one with 4 MB in a single line, as for images. The
//! second is measured with two chunk sizes, because a splitter that rescans the line for every chunk is quadratic.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, alternate},
};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures::{StreamExt, executor::block_on, stream};
use provider::{
    ModelRequest, StreamEvent, StreamFrame, WireApi,
    http::{Framing, Splitter},
};
use std::{convert::Infallible, time::Instant};

const TOKENS: u16 = 4_000;
const ROUNDS: usize = 9;
/// Payload of a network packet, in bytes.
const PACKET: usize = 1_400;
const LARGE: usize = 4 << 20;

pub(crate) fn run(_: &BenchEnv) -> Result<Vec<Figure>> {
    let mut figures = small_deltas()?;
    figures.extend(long_line()?);
    Ok(figures)
}

fn small_deltas() -> Result<Vec<Figure>> {
    let chunks = cut(&deltas(), PACKET);
    let sides = alternate(ROUNDS, || rate(&chunks, ours), || rate(&chunks, theirs))?;
    let allocations = |read: Read| {
        let mut result = Ok(0);
        let counted = allocation_counter::measure(|| result = read(&chunks));
        result?;
        Ok::<_, Box<dyn std::error::Error>>(
            f64::from(u32::try_from(counted.count_total)?) / f64::from(TOKENS),
        )
    };
    Ok(vec![
        Figure::median("decode/talk", &sides.ours, "MB/s"),
        Figure::median("decode/talk/eventsource-stream", &sides.theirs, "MB/s"),
        Figure::median("decode/talk/ratio", &sides.ratio, "ratio").target(Target::AtLeast(1.0)),
        Figure::new("decode/talk/allocations", allocations(ours)?, "per token"),
        Figure::new("decode/talk/allocations/eventsource-stream", allocations(theirs)?, "per token"),
    ])
}

fn long_line() -> Result<Vec<Figure>> {
    let answer = answer(["x".repeat(LARGE).as_str()]);
    let times = |chunk: usize| -> Result<Samples> {
        let chunks = cut(&answer, chunk);
        let times = (0..ROUNDS).map(|_| rate(&chunks, ours));
        Ok(Samples::new(times.collect::<Result<_>>()?))
    };
    let (packets, large) = (times(PACKET)?, times(64 << 10)?);
    // `eventsource-stream` takes seconds: it is measured once, with large chunks, its better case.
    let other = rate(&cut(&answer, 64 << 10), theirs)?;
    let growth = large.median() / packets.median();
    Ok(vec![
        Figure::median("decode/line/packets", &packets, "MB/s"),
        Figure::median("decode/line/64k", &large, "MB/s"),
        Figure::new("decode/line/64k_to_packets", growth, "ratio").target(Target::AtMost(4.0)),
        Figure::new("decode/line/64k/eventsource-stream", other, "MB/s"),
        Figure::new("decode/line/ratio", large.median() / other, "ratio").target(Target::AtLeast(1.0)),
    ])
}

type Read = fn(&[Bytes]) -> Result<usize>;

/// Returns the throughput in megabytes per second.
fn rate(chunks: &[Bytes], read: Read) -> Result<f64> {
    let bytes = u32::try_from(chunks.iter().map(Bytes::len).sum::<usize>())?;
    let start = Instant::now();
    let text = read(chunks)?;
    let took = start.elapsed().as_secs_f64();
    if text == 0 {
        return Err("no text was decoded".into());
    }
    Ok(f64::from(bytes) / 1e6 / took)
}

/// Decodes an answer and returns the length of its text.
fn ours(chunks: &[Bytes]) -> Result<usize> {
    let mut splitter = Splitter::new(Framing::Sse);
    let mut decoder = WireApi::Chat.decoder("bench", &ModelRequest::default());
    let (mut out, mut text) = (Vec::new(), 0);
    for chunk in chunks {
        splitter.feed(chunk);
        while let Some(frame) = splitter.next_frame()? {
            decoder.read(frame, &mut out)?;
            text += text_length(&mut out);
        }
    }
    Ok(text)
}

fn theirs(chunks: &[Bytes]) -> Result<usize> {
    let body = stream::iter(chunks.iter().cloned().map(Ok::<_, Infallible>));
    let mut events = body.eventsource();
    let mut decoder = WireApi::Chat.decoder("bench", &ModelRequest::default());
    let (mut out, mut text) = (Vec::new(), 0);
    while let Some(event) = block_on(events.next()) {
        let event = event?;
        decoder.read(StreamFrame { event: "", data: &event.data }, &mut out)?;
        text += text_length(&mut out);
    }
    Ok(text)
}

fn text_length(out: &mut Vec<StreamEvent>) -> usize {
    let lengths = out.drain(..).map(|event| match event {
        StreamEvent::TextDelta { text, .. } => text.len(),
        _ => 0,
    });
    lengths.sum()
}

fn deltas() -> String {
    let words = ["The ", "quick ", "brown ", "fox ", "jumps\\n", "über ", "den ", "Hund. "];
    answer(words.iter().copied().cycle().take(usize::from(TOKENS)))
}

/// Returns a stream of chat completions in OpenAI's format.
fn answer<'a>(deltas: impl IntoIterator<Item = &'a str>) -> String {
    let mut body = String::new();
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-9\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":\
             [{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    for delta in deltas {
        body += &chunk(&format!("{{\"content\":\"{delta}\"}}"), "null");
    }
    body + &chunk("{}", "\"stop\"") + "data: [DONE]\n\n"
}

fn cut(body: &str, size: usize) -> Vec<Bytes> {
    body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect()
}

//! How a script goes over the wire: whole or in bytes, slowly, and to which end.

use super::{
    ProviderApi,
    http::FakeConnection,
    script::{self, ScriptedEvent},
};
use std::{io, time::Duration};
use tokio::task;

/// What becomes of the connection after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    NextRequest,
    Close,
}

/// What is asked for, once the URL and the body are understood.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) api: ProviderApi,
    /// How the answer is sent.
    pub(super) scenario: &'a str,
    /// What the answer says: another scenario's script, after a tool's result.
    pub(super) script: &'a str,
    pub(super) key: &'a str,
    pub(super) pause: Duration,
}

pub(super) async fn play(connection: &mut FakeConnection, ask: &Ask<'_>) -> io::Result<After> {
    connection.send(head(ask.api).as_bytes()).await?;
    let events = script::script(ask.api, ask.script, ask.key);
    for (at, event) in events.iter().enumerate() {
        for piece in pieces(ask, event, at + 1 == events.len()) {
            connection.chunk(&piece).await?;
        }
        if ask.scenario == "slowtext" && !ask.pause.is_zero() {
            connection.pause(ask.pause).await?;
        }
        // A client in the same runtime may read what there is.
        task::yield_now().await;
    }
    match ask.scenario {
        "hang" => connection.gone().await?,
        "cut" => return Ok(After::Close),
        "drop" => {
            // Where a reset throws away what was not read yet, this is the time to read it.
            connection.pause(Duration::from_millis(20)).await?;
            connection.reset()?;
            return Ok(After::Close);
        }
        _ => connection.send(b"0\r\n\r\n").await?,
    }
    Ok(After::NextRequest)
}

fn head(api: ProviderApi) -> String {
    let content_type =
        if api == ProviderApi::Ollama { "application/x-ndjson" } else { "text/event-stream; charset=utf-8" };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nx-request-id: req-1\r\ntransfer-encoding: chunked\r\n\r\n"
    )
}

/// The event's bytes, each piece for a chunk of its own.
fn pieces(ask: &Ask<'_>, event: &ScriptedEvent, is_last: bool) -> Vec<Vec<u8>> {
    let bytes = encode(ask, event);
    match ask.scenario {
        "comment" if ask.api == ProviderApi::Ollama => vec![b"\n".to_vec(), bytes],
        "comment" => vec![b": keep-alive\n\n".to_vec(), bytes],
        "bytes1" => bytes.chunks(1).map(<[u8]>::to_vec).collect(),
        "big" => bytes.chunks(16 << 10).map(<[u8]>::to_vec).collect(),
        "noblank" if is_last => vec![bytes.trim_ascii_end().to_vec()],
        _ => vec![bytes],
    }
}

fn encode(ask: &Ask<'_>, event: &ScriptedEvent) -> Vec<u8> {
    let end = if ask.scenario == "crlf" { "\r\n" } else { "\n" };
    if ask.api == ProviderApi::Ollama {
        return format!("{}{end}", event.data).into_bytes();
    }
    let space = if ask.scenario == "nospace" { "" } else { " " };
    let name = match event.name.as_str() {
        "" => String::new(),
        name => format!("event:{space}{name}{end}"),
    };
    format!("{name}data:{space}{}{end}{end}", event.data).into_bytes()
}

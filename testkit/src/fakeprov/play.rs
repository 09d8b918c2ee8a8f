//! Sends a script: the size of chunks, delays, and the end of the connection depend on the scenario.

use super::{
    ProviderApi,
    http::FakeConnection,
    script::{self, ScriptedEvent},
};
use std::{io, time::Duration};
use tokio::task;

/// The state of the connection after a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    NextRequest,
    Close,
}

/// A parsed request.
#[derive(Debug)]
pub(super) struct PlayRequest<'a> {
    pub(super) api: ProviderApi,
    /// Determines how the response is sent.
    pub(super) scenario: &'a str,
    /// The scenario whose script is sent; after a tool result it differs from `scenario`.
    pub(super) script: &'a str,
    pub(super) key: &'a str,
    pub(super) pause: Duration,
}

pub(super) async fn play(connection: &mut FakeConnection, request: &PlayRequest<'_>) -> io::Result<After> {
    connection.send(head(request.api).as_bytes()).await?;
    let events = script::script(request.api, request.script, request.key);
    for (at, event) in events.iter().enumerate() {
        for chunk in chunks(request, event, at + 1 == events.len()) {
            connection.chunk(&chunk).await?;
        }
        if request.scenario == "slowtext" && !request.pause.is_zero() {
            connection.pause(request.pause).await?;
        }
        // Lets a client on the same runtime read this event.
        task::yield_now().await;
    }
    match request.scenario {
        "hang" => connection.until_disconnected().await?,
        "cut" => return Ok(After::Close),
        "drop" => {
            // A reset may discard unread data: gives the client time to read it.
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

/// The bytes of an event, split into the chunks that are sent.
fn chunks(request: &PlayRequest<'_>, event: &ScriptedEvent, is_last: bool) -> Vec<Vec<u8>> {
    let bytes = encode(request.api, request.scenario, event);
    match request.scenario {
        "comment" if request.api == ProviderApi::Ollama => vec![b"\n".to_vec(), bytes],
        "comment" => vec![b": keep-alive\n\n".to_vec(), bytes],
        "bytes1" => bytes.chunks(1).map(<[u8]>::to_vec).collect(),
        "big" => bytes.chunks(16 << 10).map(<[u8]>::to_vec).collect(),
        "eof1" => vec![bytes[..bytes.len() / 2].to_vec()],
        "badbyte" => {
            vec![bytes.iter().map(|byte| if *byte == 1 { 0xff } else { *byte }).collect()]
        }
        "noblank" if is_last => vec![bytes.trim_ascii_end().to_vec()],
        _ => vec![bytes],
    }
}

pub(super) fn encode(api: ProviderApi, scenario: &str, event: &ScriptedEvent) -> Vec<u8> {
    let end = if scenario == "crlf" { "\r\n" } else { "\n" };
    if api == ProviderApi::Ollama {
        return format!("{}{end}", event.data).into_bytes();
    }
    let space = if scenario == "nospace" { "" } else { " " };
    let name = match event.name.as_str() {
        "" => String::new(),
        name => format!("event:{space}{name}{end}"),
    };
    format!("{name}data:{space}{}{end}{end}", event.data).into_bytes()
}

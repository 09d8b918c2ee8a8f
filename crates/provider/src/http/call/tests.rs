//! Streaming calls against servers with all kinds of faults.

use super::*;
use crate::{
    Done, StreamFrame, classify,
    http::{
        build_client,
        fake_server::{self, FakeServer, ServerAction, chunk, head, last_chunk, serve, stream_head},
    },
};
use futures::stream;
use reqwest::{Method, Url};
use serde_json::json;

/// Decodes each frame as text. `stop` is a finish reason, `[DONE]` the end.
#[derive(Default)]
struct PlainTextDecoder {
    stopped: bool,
}

impl StreamDecoder for PlainTextDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        match frame.data {
            "[DONE]" => out.push(StreamEvent::Done(Done::default())),
            "stop" => self.stopped = true,
            error if error.starts_with('{') => {
                let error = serde_json::from_str(error).unwrap();
                return Err(classify::error_in_json("fake", None, &error).unwrap());
            }
            text => out.push(StreamEvent::text(text)),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if !self.stopped {
            return Err(Error::Truncated { provider: "fake".to_owned() });
        }
        out.push(StreamEvent::Done(Done::default()));
        Ok(())
    }
}

const KEY: &str = "sk-canary-0123456789";

fn call(url: &str, framing: Framing) -> StreamingCall {
    let url = Url::parse(url).unwrap();
    let client = build_client(&url, &[], Duration::from_secs(5)).unwrap();
    let mut request = Request::new(Method::POST, url);
    *request.body_mut() = Some("{}".into());
    StreamingCall {
        provider: "fake".to_owned(),
        client,
        request,
        framing,
        decoder: Box::new(PlainTextDecoder::default()),
        idle: Duration::from_secs(20),
        secrets: [SecretString::new(KEY)].into(),
    }
}

fn shape(events: &[StreamEvent]) -> String {
    let line = |event: &StreamEvent| match event {
        StreamEvent::TextDelta { text, .. } if text.len() > 20 => format!("text of {} bytes", text.len()),
        StreamEvent::TextDelta { text, .. } => format!("text {text}"),
        StreamEvent::Done(_) => "done".to_owned(),
        StreamEvent::Error(error) => format!("{}: {error}", error.code()),
        other => format!("{other:?}"),
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

async fn collect(call: StreamingCall) -> String {
    shape(&call.stream().collect::<Vec<_>>().await)
}

/// The events of a call to a server that performs these actions.
async fn respond(actions: impl IntoIterator<Item = ServerAction>) -> String {
    let server = serve(vec![actions.into_iter().collect()]).await;
    collect(call(&server.url, Framing::Sse)).await
}

/// The events of a call whose response has this status, these headers and this body.
async fn respond_with(status: &str, headers: &[(&str, &str)], body: &str) -> String {
    respond([head(status, headers), ServerAction::Send(body.to_owned())]).await
}

#[tokio::test]
async fn events_do_not_depend_on_chunk_boundaries() {
    let body = "data: Grüß\r\n\r\n: comment\n\ndata: dich 🌍\n\ndata: [DONE]\n\ndata: never read\n\n";
    let bytes = body.bytes().map(|byte| chunk([byte]));
    insta::assert_snapshot!(respond([stream_head()].into_iter().chain(bytes)).await, @"
    text Grüß
    text dich 🌍
    done
    ");
}

#[tokio::test]
async fn json_lines_are_decoded_as_frames() {
    let server =
        serve(vec![vec![head("200 OK", &[]), ServerAction::Send("one\r\ntwo\n\n[DONE]".to_owned())]]).await;
    insta::assert_snapshot!(collect(call(&server.url, Framing::JsonLines)).await, @"
    text one
    text two
    done
    ");
}

#[tokio::test]
async fn four_megabyte_event_in_small_chunks_is_one_delta() {
    let line = ["data: ", &"x".repeat(4 << 20), "\n\ndata: [DONE]\n\n"].concat();
    let chunks = line.as_bytes().chunks(1400).map(chunk);
    insta::assert_snapshot!(respond([stream_head()].into_iter().chain(chunks)).await, @"
    text of 4194304 bytes
    done
    ");
}

#[tokio::test]
async fn end_of_body_is_truncated_without_a_finish_reason() {
    insta::assert_snapshot!(respond([stream_head(), chunk("data: a\n\ndata: stop\n\n"), last_chunk()]).await, @"
    text a
    done
    ");
    insta::assert_snapshot!(respond([stream_head(), chunk("data: a\n\n"), last_chunk()]).await, @"
    text a
    TRUNCATED: fake ended the stream before the answer was complete
    ");
    insta::assert_snapshot!(respond([stream_head(), last_chunk()]).await, @"TRUNCATED: fake ended the stream before the answer was complete");
    insta::assert_snapshot!(respond([stream_head(), chunk("data: last"), last_chunk()]).await, @"
    text last
    TRUNCATED: fake ended the stream before the answer was complete
    ");
}

#[tokio::test]
async fn lost_connection_is_transient() {
    insta::assert_snapshot!(respond([stream_head(), chunk("data: a\n\nda")]).await, @"
    text a
    TRANSIENT: fake is temporarily unavailable: the connection was lost: the server closed it before the end of the answer
    ");
    insta::assert_snapshot!(respond([stream_head(), chunk("data: a\n\ndata: stop\n\nda")]).await, @"
    text a
    done
    ");
    insta::assert_snapshot!(respond([]).await, @"TRANSIENT: fake is temporarily unavailable: sending the request failed: connection closed before message completed");
}

#[tokio::test]
async fn connection_reset_is_transient() {
    let error = respond([stream_head(), chunk("data: a\n\n"), ServerAction::Reset]).await;
    // RST may overtake the bytes in front of it.
    let last = error.lines().last().unwrap();
    assert!(
        last.starts_with("TRANSIENT: fake is temporarily unavailable: the connection was lost: "),
        "{error}"
    );
}

#[tokio::test]
async fn idle_timeout_applies_to_the_head_and_the_body() {
    let idle = Duration::from_millis(30);
    for (actions, received) in [(vec![], ""), (vec![stream_head(), chunk("data: a\n\n: co")], "text a\n")] {
        let FakeServer { url, requests: closed } =
            serve(vec![[actions, vec![ServerAction::UntilClosed]].concat()]).await;
        let stalled = collect(StreamingCall { idle, ..call(&url, Framing::Sse) }).await;
        assert_eq!(stalled, format!("{received}STALLED: fake sent no data for 30ms"));
        closed.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_byte_resets_the_idle_timeout() {
    let chunk = |text: &'static str| async move {
        tokio::time::sleep(Duration::from_secs(9)).await;
        Ok(text.into())
    };
    let bytes = stream::iter(["data: ", "a", "\n\n", ": co\n", "data: stop\n", "\n"]).then(chunk).boxed();
    let body =
        ResponseBody { provider: "fake".to_owned(), bytes, idle: Duration::from_secs(10), inflater: None };
    let splitter = Splitter::new(Framing::Sse);
    let answer = ResponseReader {
        body,
        splitter,
        surrogates: SurrogateJoiner::default(),
        documents: None,
        decoder: Box::new(PlainTextDecoder::default()),
    };
    let batches = stream::unfold(CallState::Reading(Box::new(answer)), CallState::advance);
    insta::assert_snapshot!(shape(&batches.flat_map(stream::iter).collect::<Vec<_>>().await), @"
    text a
    done
    ");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let FakeServer { url, requests } =
        serve(vec![vec![stream_head(), chunk("data: a\n\n"), ServerAction::UntilClosed]]).await;
    let mut events = call(&url, Framing::Sse).stream();
    assert_eq!(shape(&[events.next().await.unwrap()]), "text a");
    drop(events);
    requests.await.unwrap();
}

#[tokio::test]
async fn request_is_sent_on_the_first_poll() {
    let only_one = vec![stream_head(), chunk("data: [DONE]\n\n")];
    let server = serve(vec![only_one]).await;
    drop(call(&server.url, Framing::Sse).stream());
    assert_eq!(collect(call(&server.url, Framing::Sse)).await, "done");
}

#[tokio::test]
async fn connection_is_reused_for_the_next_call() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            fake_server::read_request(&mut socket).await;
            for act in [stream_head(), chunk("data: a\n\ndata: [DONE]\n\n"), last_chunk()] {
                fake_server::perform(&mut socket, act).await;
            }
        }
    });
    let first = call(&url, Framing::Sse);
    let second = StreamingCall { client: first.client.clone(), ..call(&url, Framing::Sse) };
    assert_eq!(collect(first).await, "text a\ndone");
    assert_eq!(collect(second).await, "text a\ndone");
    server.await.unwrap();
}

#[tokio::test]
async fn success_status_without_a_stream_is_an_error() {
    let html = [("content-type", "text/html; charset=utf-8")];
    insta::assert_snapshot!(respond_with("200 OK", &html, "<html>Sign in</html>").await, @"PROTOCOL: fake sent a response that cannot be parsed: received an HTML page instead of an API response; check base_url, and whether a proxy requires a login");
    insta::assert_snapshot!(respond_with("200 OK", &[], "\n <!doctype html>").await, @"PROTOCOL: fake sent a response that cannot be parsed: received an HTML page instead of an API response; check base_url, and whether a proxy requires a login");
    let json = [("content-type", "application/json")];
    let error = json!({"error": {"message": "upstream failed", "code": 502}}).to_string();
    insta::assert_snapshot!(respond_with("200 OK", &json, &error).await, @"TRANSIENT: fake is temporarily unavailable: upstream failed");
    insta::assert_snapshot!(respond_with("200 OK", &json, r#"["one", "#).await, @"TRUNCATED: fake ended the stream before the answer was complete");
    insta::assert_snapshot!(respond_with("200 OK", &json, r#"["one", "two"]"#).await, @r#"
    text "one"
    text "two"
    done
    "#);
    insta::assert_snapshot!(respond_with("200 OK", &json, "data: [DONE]\n\n").await, @"done");
}

#[tokio::test]
async fn error_response_keeps_the_server_message_and_retry_after() {
    let server = serve(vec![vec![
        head("429 Too Many", &[("retry-after", "7")]),
        ServerAction::Send("{\"error\": \"slow\"}".to_owned()),
    ]])
    .await;
    let events: Vec<StreamEvent> = call(&server.url, Framing::Sse).stream().collect().await;
    let [StreamEvent::Error(Error::RateLimited { retry_after, message, .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((retry_after, message.as_str()), (&Some(Duration::from_secs(7)), "slow"));

    insta::assert_snapshot!(respond_with("503 X", &[], "no server\n is \x00ready").await, @"TRANSIENT: fake is temporarily unavailable: no server is ready");
    insta::assert_snapshot!(respond_with("500 X", &[], "").await, @"TRANSIENT: fake is temporarily unavailable: HTTP 500 without an error message");
    insta::assert_snapshot!(respond_with("404 X", &[("content-type", "text/html")], "<html>").await, @"MODEL_NOT_FOUND: fake rejected the request: no such model or URL: HTTP 404: received an HTML page instead of an API response; check base_url, and whether a proxy requires a login");
    let long = respond_with("400 X", &[], &"long ".repeat(1 << 20)).await;
    assert!(
        long.starts_with("BAD_REQUEST: fake rejected the request: long long") && long.len() < 1100,
        "{long}"
    );
}

#[tokio::test]
async fn redirect_is_a_configuration_error() {
    let location = [("location", "https://other.example/v1/chat?key=sk-1")];
    insta::assert_snapshot!(respond_with("307 X", &location, "").await, @"SETUP: fake is not configured correctly: the server redirects to https://other.example/v1/chat; set base_url to the final address");
    insta::assert_snapshot!(respond_with("302 X", &[("location", "/login")], "").await, @"SETUP: fake is not configured correctly: the server redirects to another address; set base_url to the final address");
}

#[tokio::test]
async fn api_key_echoed_by_the_server_is_masked() {
    let body = json!({"error": {"message": format!("the key {KEY} is wrong")}}).to_string();
    insta::assert_snapshot!(respond_with("401 X", &[], &body).await, @"AUTH: fake rejected the API key: the key [hidden] is wrong");
    insta::assert_snapshot!(respond_with("400 X", &[], &format!("bad: {KEY}")).await, @"BAD_REQUEST: fake rejected the request: bad: [hidden]");
    insta::assert_snapshot!(respond([stream_head(), chunk(format!("data: {body}\n\n"))]).await, @"TRANSIENT: fake is temporarily unavailable: the key [hidden] is wrong");
}

#[tokio::test]
async fn invalid_byte_does_not_fail_the_answer() {
    insta::assert_snapshot!(respond([stream_head(), chunk(b"data: \xff\n\ndata: [DONE]\n\n")]).await, @"
    text �
    done
    ");
}

#[tokio::test]
async fn connection_error_names_the_origin_without_credentials_or_query() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("http://user:{KEY}@127.0.0.1:{port}/v1?key={KEY}");
    let events: Vec<StreamEvent> = call(&url, Framing::Sse).stream().collect().await;
    let message = shape(&events).replace(&port.to_string(), "PORT");
    let message = message.split(" (os error").next().unwrap();
    insta::assert_snapshot!(message, @"TRANSIENT: fake is temporarily unavailable: cannot connect to http://127.0.0.1:PORT: Connection refused");
    assert!(!format!("{events:?}").contains(KEY));
}

//! What becomes of an answer on its way, with servers that do all that servers do.

use super::*;
use crate::{
    Done, StreamFrame, classify,
    http::{
        build_client,
        fake::{self, FakeServer, ServerAction, chunk, head, last_chunk, serve, stream_head},
    },
};
use futures::stream;
use reqwest::{Method, Url};
use serde_json::json;

/// Takes each frame for a piece of text. `stop` is the reason why the model stopped, `[DONE]` the end.
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
                return Err(classify::in_json("fake", None, &error).unwrap());
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

async fn hear(call: StreamingCall) -> String {
    shape(&call.stream().collect::<Vec<_>>().await)
}

/// What the client makes of a server that does this.
async fn answer(acts: impl IntoIterator<Item = ServerAction>) -> String {
    let server = serve(vec![acts.into_iter().collect()]).await;
    hear(call(&server.url, Framing::Sse)).await
}

/// The same for a head and a body.
async fn refused(status: &str, headers: &[(&str, &str)], body: &str) -> String {
    answer([head(status, headers), ServerAction::Say(body.to_owned())]).await
}

#[tokio::test]
async fn an_answer_comes_as_events_however_it_is_cut() {
    let body = "data: Grüß\r\n\r\n: comment\n\ndata: dich 🌍\n\ndata: [DONE]\n\ndata: never read\n\n";
    let bytes = body.bytes().map(|byte| chunk([byte]));
    insta::assert_snapshot!(answer([stream_head()].into_iter().chain(bytes)).await, @"
    text Grüß
    text dich 🌍
    done
    ");
}

#[tokio::test]
async fn lines_of_json_are_a_stream_too() {
    let server =
        serve(vec![vec![head("200 OK", &[]), ServerAction::Say("one\r\ntwo\n\n[DONE]".to_owned())]]).await;
    insta::assert_snapshot!(hear(call(&server.url, Framing::JsonLines)).await, @"
    text one
    text two
    done
    ");
}

#[tokio::test]
async fn a_line_of_four_megabytes_in_small_pieces_is_one_piece_of_text() {
    let line = ["data: ", &"x".repeat(4 << 20), "\n\ndata: [DONE]\n\n"].concat();
    let chunks = line.as_bytes().chunks(1400).map(chunk);
    insta::assert_snapshot!(answer([stream_head()].into_iter().chain(chunks)).await, @"
    text of 4194304 bytes
    done
    ");
}

#[tokio::test]
async fn an_answer_that_just_ends_is_complete_only_if_the_model_has_stopped() {
    insta::assert_snapshot!(answer([stream_head(), chunk("data: a\n\ndata: stop\n\n"), last_chunk()]).await, @"
    text a
    done
    ");
    insta::assert_snapshot!(answer([stream_head(), chunk("data: a\n\n"), last_chunk()]).await, @"
    text a
    TRUNCATED: fake ended its answer before it was complete
    ");
    insta::assert_snapshot!(answer([stream_head(), last_chunk()]).await, @"TRUNCATED: fake ended its answer before it was complete");
    insta::assert_snapshot!(answer([stream_head(), chunk("data: last"), last_chunk()]).await, @"
    text last
    TRUNCATED: fake ended its answer before it was complete
    ");
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_worth_another_try() {
    insta::assert_snapshot!(answer([stream_head(), chunk("data: a\n\nda")]).await, @"
    text a
    TRANSIENT: fake is not available right now: the connection broke off: unexpected EOF during chunk size line
    ");
    insta::assert_snapshot!(answer([stream_head(), chunk("data: a\n\ndata: stop\n\nda")]).await, @"
    text a
    done
    ");
    insta::assert_snapshot!(answer([]).await, @"TRANSIENT: fake is not available right now: the request broke off: connection closed before message completed");
}

#[tokio::test]
async fn a_reset_is_worth_another_try() {
    let error = answer([stream_head(), chunk("data: a\n\n"), ServerAction::Reset]).await;
    // The reset may overtake the bytes before it.
    let last = error.lines().last().unwrap();
    assert!(
        last.starts_with("TRANSIENT: fake is not available right now: the connection broke off: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_silent_server_has_stalled() {
    let idle = Duration::from_millis(30);
    for (acts, heard) in [(vec![], ""), (vec![stream_head(), chunk("data: a\n\n: co")], "text a\n")] {
        let FakeServer { url, heard: closed } =
            serve(vec![[acts, vec![ServerAction::UntilClosed]].concat()]).await;
        let stalled = hear(StreamingCall { idle, ..call(&url, Framing::Sse) }).await;
        assert_eq!(stalled, format!("{heard}STALLED: fake has been silent for 30ms"));
        closed.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn any_byte_ends_the_wait_for_the_next() {
    let piece = |text: &'static str| async move {
        tokio::time::sleep(Duration::from_secs(9)).await;
        Ok(text.into())
    };
    let bytes = stream::iter(["data: ", "a", "\n\n", ": co\n", "data: stop\n", "\n"]).then(piece).boxed();
    let body = ResponseBody { provider: "fake".to_owned(), bytes, idle: Duration::from_secs(10) };
    let splitter = Splitter::new(Framing::Sse);
    let answer = ResponseReader { body, splitter, decoder: Box::new(PlainTextDecoder::default()) };
    let batches = stream::unfold(CallState::Reading(Box::new(answer)), CallState::go_on);
    insta::assert_snapshot!(shape(&batches.flat_map(stream::iter).collect::<Vec<_>>().await), @"
    text a
    done
    ");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let FakeServer { url, heard } =
        serve(vec![vec![stream_head(), chunk("data: a\n\n"), ServerAction::UntilClosed]]).await;
    let mut events = call(&url, Framing::Sse).stream();
    assert_eq!(shape(&[events.next().await.unwrap()]), "text a");
    drop(events);
    heard.await.unwrap();
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_read() {
    let only_one = vec![stream_head(), chunk("data: [DONE]\n\n")];
    let server = serve(vec![only_one]).await;
    drop(call(&server.url, Framing::Sse).stream());
    assert_eq!(hear(call(&server.url, Framing::Sse)).await, "done");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            fake::request(&mut socket).await;
            for act in [stream_head(), chunk("data: a\n\ndata: [DONE]\n\n"), last_chunk()] {
                fake::play(&mut socket, act).await;
            }
        }
    });
    let first = call(&url, Framing::Sse);
    let second = StreamingCall { client: first.client.clone(), ..call(&url, Framing::Sse) };
    assert_eq!(hear(first).await, "text a\ndone");
    assert_eq!(hear(second).await, "text a\ndone");
    server.await.unwrap();
}

#[tokio::test]
async fn success_is_not_believed() {
    let html = [("content-type", "text/html; charset=utf-8")];
    insta::assert_snapshot!(refused("200 OK", &html, "<html>Sign in</html>").await, @"PROTOCOL: fake answered with something that cannot be read: a web page came instead of an answer; is base_url right, or does a proxy want a sign-in?");
    insta::assert_snapshot!(refused("200 OK", &[], "\n <!doctype html>").await, @"PROTOCOL: fake answered with something that cannot be read: a web page came instead of an answer; is base_url right, or does a proxy want a sign-in?");
    let json = [("content-type", "application/json")];
    let error = json!({"error": {"message": "upstream failed", "code": 502}}).to_string();
    insta::assert_snapshot!(refused("200 OK", &json, &error).await, @"TRANSIENT: fake is not available right now: upstream failed");
    let whole = json!({"choices": [{"message": {"content": "hello"}}]}).to_string();
    insta::assert_snapshot!(refused("200 OK", &json, &whole).await, @"PROTOCOL: fake answered with something that cannot be read: JSON in one piece came instead of a stream; the server seems to ignore `stream`");
    insta::assert_snapshot!(refused("200 OK", &json, "data: [DONE]\n\n").await, @"done");
}

#[tokio::test]
async fn an_error_is_told_in_the_servers_words_with_its_wait() {
    let server = serve(vec![vec![
        head("429 Too Many", &[("retry-after", "7")]),
        ServerAction::Say("{\"error\": \"slow\"}".to_owned()),
    ]])
    .await;
    let events: Vec<StreamEvent> = call(&server.url, Framing::Sse).stream().collect().await;
    let [StreamEvent::Error(Error::RateLimited { retry_after, message, .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((retry_after, message.as_str()), (&Some(Duration::from_secs(7)), "slow"));

    insta::assert_snapshot!(refused("503 X", &[], "no server\n is \x00ready").await, @"TRANSIENT: fake is not available right now: no server is ready");
    insta::assert_snapshot!(refused("500 X", &[], "").await, @"TRANSIENT: fake is not available right now: HTTP 500, without a reason");
    insta::assert_snapshot!(refused("404 X", &[("content-type", "text/html")], "<html>").await, @"BAD_REQUEST: fake does not accept the request: there is no such model or address: HTTP 404: a web page came instead of an answer; is base_url right, or does a proxy want a sign-in?");
    let long = refused("400 X", &[], &"long ".repeat(1 << 20)).await;
    assert!(
        long.starts_with("BAD_REQUEST: fake does not accept the request: long long") && long.len() < 1100,
        "{long}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let location = [("location", "https://other.example/v1/chat?key=sk-1")];
    insta::assert_snapshot!(refused("307 X", &location, "").await, @"SETUP: fake cannot be reached as it is configured: the server redirects to https://other.example/v1/chat; set base_url to the address that it really has");
    insta::assert_snapshot!(refused("302 X", &[("location", "/login")], "").await, @"SETUP: fake cannot be reached as it is configured: the server redirects to another address; set base_url to the address that it really has");
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_hidden() {
    let body = json!({"error": {"message": format!("the key {KEY} is wrong")}}).to_string();
    insta::assert_snapshot!(refused("401 X", &[], &body).await, @"AUTH: fake refuses the key: the key [hidden] is wrong");
    insta::assert_snapshot!(refused("400 X", &[], &format!("bad: {KEY}")).await, @"BAD_REQUEST: fake does not accept the request: bad: [hidden]");
    insta::assert_snapshot!(answer([stream_head(), chunk(format!("data: {body}\n\n"))]).await, @"TRANSIENT: fake is not available right now: the key [hidden] is wrong");
}

#[tokio::test]
async fn a_stream_that_is_not_text_cannot_be_read() {
    insta::assert_snapshot!(answer([stream_head(), chunk(b"data: \xff\n\n")]).await, @"PROTOCOL: fake answered with something that cannot be read: the stream is not UTF-8");
}

#[tokio::test]
async fn a_closed_port_is_named_without_the_query() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("http://user:{KEY}@127.0.0.1:{port}/v1?key={KEY}");
    let events: Vec<StreamEvent> = call(&url, Framing::Sse).stream().collect().await;
    let told = shape(&events).replace(&port.to_string(), "PORT");
    let told = told.split(" (os error").next().unwrap();
    insta::assert_snapshot!(told, @"TRANSIENT: fake is not available right now: no connection to http://127.0.0.1:PORT: Connection refused");
    assert!(!format!("{events:?}").contains(KEY));
}

//! Messages as people type them, and the responses.

use super::*;
use insta::assert_snapshot;
use provider::{MessagePart, ModelMessage, Role, ToolResult};
use serde_json::{Value, json};

const TOOLS: [&str; 5] = ["now", "calculate", "read_file", "list_files", "search_files"];

fn request(messages: Vec<ModelMessage>, tools: &[&str]) -> ModelRequest {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    ModelRequest { messages, tools: tools.iter().map(spec).collect(), ..ModelRequest::default() }
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::text(Role::User, text)
}

/// Text and calls of a response on one line.
fn shape(events: &[StreamEvent]) -> String {
    let mut line = String::new();
    for event in events {
        match event {
            StreamEvent::TextDelta { text, .. } => line.push_str(text),
            StreamEvent::ToolCall(call) => {
                let args: Vec<String> =
                    call.args.values().map(|value| value.as_str().unwrap_or("?").to_owned()).collect();
                let gap = if line.is_empty() { "" } else { " " };
                line = format!("{line}{gap}→ {}({})", call.name, args.join(" @ "));
            }
            StreamEvent::Sent(_)
            | StreamEvent::Thought { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Warning(_)
            | StreamEvent::Done(_)
            | StreamEvent::Error(_) => {}
        }
    }
    line
}

fn ask(text: &str) -> String {
    shape(&respond(&request(vec![user(text)], &TOOLS)))
}

fn table(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("{text}  {}", ask(text))).collect::<Vec<_>>().join("\n")
}

/// A whole turn: the question, the calls, and the answer from these responses.
fn turn(log: &mut Vec<ModelMessage>, text: &str, responses: &[Value]) -> String {
    log.push(user(text));
    let first = respond(&request(log.clone(), &TOOLS));
    let calls: Vec<ToolCall> = first
        .into_iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCall(call) => Some(call),
            StreamEvent::Sent(_)
            | StreamEvent::TextDelta { .. }
            | StreamEvent::Thought { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Warning(_)
            | StreamEvent::Done(_)
            | StreamEvent::Error(_) => None,
        })
        .collect();
    if !calls.is_empty() {
        assert_eq!(calls.len(), responses.len(), "{calls:?}");
        let results = calls.iter().zip(responses).map(|(call, response)| {
            MessagePart::from(ToolResult {
                id: call.id.clone(),
                name: call.name.clone(),
                response: response.clone(),
            })
        });
        let results = results.collect();
        log.push(ModelMessage::new(Role::Assistant, calls.into_iter().map(MessagePart::from).collect()));
        log.push(ModelMessage::new(Role::Tool, results));
    }
    let text = shape(&respond(&request(log.clone(), &TOOLS)));
    log.push(ModelMessage::text(Role::Assistant, text.clone()));
    text
}

#[test]
fn arithmetic_in_digits_and_words_calls_calculate() {
    assert_snapshot!(table(&[
        "2+2", "What is 17 * 3?", "seventeen times three", "how much is 15% of 240", "calculate (1+2)*3^2",
        "divide 100 by eight", "Subtract 5 from twelve please", "whats 3x4", "add 3 and 4", "the sum of 3, 4 and 5",
        "square root of 144", "half of 90", "what's twenty-one plus two hundred and five?", "20% off 80",
        "increase 200 by 10%", "average of 4, 8 and 12", "WHAT IS 1,234.5 MINUS 34.5", "2 to the power of 10",
        "12 squared", "what percent of 80 is 20", "remainder of 17 divided by 5", "three quarters of 200",
        "double 21", "100 minus 10%", "what is -5 + 2", "2+2=", "sqrt(16) + 1", "2 million divided by 4",
        "can you work out 6 multiplied by 7 for me?", "what is 2+2 and 3*3?", "5 plus 3, then multiply it by 2",
    ]), @"
    2+2  → calculate(2 + 2)
    What is 17 * 3?  → calculate(17 * 3)
    seventeen times three  → calculate(17 * 3)
    how much is 15% of 240  → calculate(15 / 100 * 240)
    calculate (1+2)*3^2  → calculate((1 + 2) * 3 ^ 2)
    divide 100 by eight  → calculate(100 / 8)
    Subtract 5 from twelve please  → calculate(12 - 5)
    whats 3x4  → calculate(3 * 4)
    add 3 and 4  → calculate(3 + 4)
    the sum of 3, 4 and 5  → calculate(3 + 4 + 5)
    square root of 144  → calculate(sqrt(144))
    half of 90  → calculate(90 / 2)
    what's twenty-one plus two hundred and five?  → calculate(21 + 205)
    20% off 80  → calculate(80 * (1 - 20 / 100))
    increase 200 by 10%  → calculate(200 * (1 + 10 / 100))
    average of 4, 8 and 12  → calculate((4 + 8 + 12) / 3)
    WHAT IS 1,234.5 MINUS 34.5  → calculate(1234.5 - 34.5)
    2 to the power of 10  → calculate(2 ^ 10)
    12 squared  → calculate(12 ^ 2)
    what percent of 80 is 20  → calculate(20 / 80 * 100)
    remainder of 17 divided by 5  → calculate(17 % 5)
    three quarters of 200  → calculate(3 / 4 * 200)
    double 21  → calculate(21 * 2)
    100 minus 10%  → calculate(100 * (1 - 10 / 100))
    what is -5 + 2  → calculate(-5 + 2)
    2+2=  → calculate(2 + 2)
    sqrt(16) + 1  → calculate(sqrt(16) + 1)
    2 million divided by 4  → calculate((2 * 1000000) / 4)
    can you work out 6 multiplied by 7 for me?  → calculate(6 * 7)
    what is 2+2 and 3*3?  → calculate(2 + 2) → calculate(3 * 3)
    5 plus 3, then multiply it by 2  → calculate(5 + 3) → calculate((5 + 3) * 2)
    ");
}

#[test]
fn time_questions_call_now_with_the_named_time_zone() {
    assert_snapshot!(table(&[
        "what time is it?", "Time?", "what's the date today", "what day is it", "waht tiem is it", "TIME PLEASE",
        "what time is it in Tokyo and in New York?", "do you know the current time in london", "What's tomorrow's date?",
        "could you tell me the hour", "which year is it?", "time in UTC", "is it Monday today?",
    ]), @"
    what time is it?  → now()
    Time?  → now()
    what's the date today  → now()
    what day is it  → now()
    waht tiem is it  → now()
    TIME PLEASE  → now()
    what time is it in Tokyo and in New York?  → now(Asia/Tokyo) → now(America/New_York)
    do you know the current time in london  → now(Europe/London)
    What's tomorrow's date?  → now()
    could you tell me the hour  → now()
    which year is it?  → now()
    time in UTC  → now(UTC)
    is it Monday today?  → now()
    ");
}

#[test]
fn file_requests_call_the_matching_tool() {
    assert_snapshot!(table(&[
        "what is in README.md?", "read src/lib.rs", "show me the readme", "open 'my notes.txt'", "cat Cargo.toml",
        "What does Cargo.toml say?", "README.md", "how many lines does main.rs have", "read a.txt and b.txt",
        "list files", "ls", "what files are there?", "list the files in src", "how many files are in the docs folder?",
        "show me what's in the src directory", "which files do you see here", "ls src/",
        "search for TODO", "find 'fn main' in src", "grep unwrap", "where is parse_args defined?",
        "which files contain the word license?", "look for \"hello world\" in README.md", "serach for foo in src/bar",
        "does README.md mention SQLite?", "is there a Makefile?", "find the file notes.txt",
        "how many times does TODO appear in src?", "Can you find any mention of tokio?",
    ]), @r#"
    what is in README.md?  → read_file(README.md)
    read src/lib.rs  → read_file(src/lib.rs)
    show me the readme  → read_file(README.md)
    open 'my notes.txt'  → read_file(my notes.txt)
    cat Cargo.toml  → read_file(Cargo.toml)
    What does Cargo.toml say?  → read_file(Cargo.toml)
    README.md  → read_file(README.md)
    how many lines does main.rs have  → read_file(main.rs)
    read a.txt and b.txt  → read_file(a.txt) → read_file(b.txt)
    list files  → list_files(.)
    ls  → list_files(.)
    what files are there?  → list_files(.)
    list the files in src  → list_files(src)
    how many files are in the docs folder?  → list_files(docs)
    show me what's in the src directory  → list_files(src)
    which files do you see here  → list_files(.)
    ls src/  → list_files(src/)
    search for TODO  → search_files(TODO)
    find 'fn main' in src  → search_files(fn main @ src)
    grep unwrap  → search_files(unwrap)
    where is parse_args defined?  → search_files(parse_args)
    which files contain the word license?  → search_files(license)
    look for "hello world" in README.md  → search_files(hello world @ README.md)
    serach for foo in src/bar  → search_files(foo @ src/bar)
    does README.md mention SQLite?  → search_files(SQLite @ README.md)
    is there a Makefile?  → list_files(.)
    find the file notes.txt  → list_files(.)
    how many times does TODO appear in src?  → search_files(TODO @ src)
    Can you find any mention of tokio?  → search_files(tokio)
    "#);
}

#[test]
fn several_requests_become_calls_of_one_response() {
    assert_snapshot!(table(&[
        "Hi! What time is it, what is 2+2, and list the files please.",
        "read README.md then tell me the date",
        "search for foo and what is 15% of 80",
        "My name is Ann. What time is it?",
    ]), @"
    Hi! What time is it, what is 2+2, and list the files please.  → now() → calculate(2 + 2) → list_files(.)
    read README.md then tell me the date  → read_file(README.md) → now()
    search for foo and what is 15% of 80  → search_files(foo) → calculate(15 / 100 * 80)
    My name is Ann. What time is it?  Nice to meet you, Ann. → now()
    ");
}

#[test]
fn small_talk_is_answered_and_unknown_text_gets_help() {
    assert_snapshot!(table(&[
        "hello", "thanks a lot!", "who are you?", "are you a real AI?", "how are you", "bye",
        "write me a poem about the sea", "", "sing",
    ]), @"
    hello  Hello! I am Lango's built-in demo model. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session.
    thanks a lot!  You are welcome.
    who are you?  I am Lango's built-in demo: a small set of rules, not a language model. I work offline and call real tools. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session.
    are you a real AI?  I am Lango's built-in demo: a small set of rules, not a language model. I work offline and call real tools. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session.
    how are you  I am a set of rules, so I am always the same. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session.
    bye  Goodbye!
    write me a poem about the sea  I did not understand «write me a poem about the sea»: I am a small rule-driven demo, not a language model. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session. What would you like me to do?
      I was given no text to answer: I am a small rule-driven demo, not a language model. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session. What would you like me to do?
    sing  I did not understand «sing»: I am a small rule-driven demo, not a language model. I can tell the time and the date («what time is it in Tokyo?»), calculate («15% of 240»), read a file («what is in README.md?»), list files («list the files in src»), search in files («find 'TODO' in src»), and remember what you tell me in this session. What would you like me to do?
    ");
}

#[test]
fn missing_tool_is_reported() {
    let text = shape(&respond(&request(vec![user("what time is it and what is 2+2?")], &["calculate"])));
    assert_snapshot!(text, @"For that I need the tool `now`, which this agent does not have. → calculate(2 + 2)");
}

#[test]
fn other_tools_are_called_by_name() {
    let tools = ["get_weather", "now"];
    let ask = |text: &str| shape(&respond(&request(vec![user(text)], &tools)));
    assert_snapshot!(ask("call get_weather with city=Paris"), @"→ get_weather(Paris)");
    assert_snapshot!(ask(r#"use get_weather {"city": "New York", "unit": "C"}"#), @"→ get_weather(New York @ C)");
    assert_snapshot!(ask("help"), @"I am a small rule-driven demo, not a language model. I can tell the time and the date («what time is it in Tokyo?»), and remember what you tell me in this session. Say «call <tool> with key=value» for `get_weather`.");
}

#[test]
fn questions_about_the_session_are_answered_from_messages() {
    let log = &mut Vec::new();
    let mut answers = vec![turn(log, "Hi, my name is Ann Smith", &[])];
    answers.push(turn(log, "My favourite colour is blue", &[]));
    answers.push(turn(log, "what is 6 times 7?", &[json!({"result": 42})]));
    answers.push(turn(log, "divide that by 2", &[json!({"result": 21.0})]));
    answers.push(turn(log, "what was the result?", &[]));
    answers.push(turn(log, "what's my name?", &[]));
    answers.push(turn(log, "do you remember my favourite colour?", &[]));
    answers.push(turn(log, "what did I just say?", &[]));
    answers.push(turn(log, "what was the first thing I said", &[]));
    answers.push(turn(log, "what time is it in Paris", &[json!({"now": "2026-11-15T20:00:00+01:00"})]));
    answers.push(turn(log, "and in Tokyo?", &[json!({"now": "2026-11-16T04:00:00+09:00"})]));
    answers.push(turn(log, "again please", &[json!({"now": "2026-11-16T04:01:00+09:00"})]));
    answers.push(turn(log, "thanks", &[]));
    assert_snapshot!(answers.join("\n"), @"
    Nice to meet you, Ann Smith.
    I will remember that in this session.
    6 * 7 = 42
    42 / 2 = 21
    42 / 2 = 21
    Your name is Ann Smith.
    You told me: «My favourite colour is blue»
    You said: «do you remember my favourite colour?»
    The first thing you said was: «Hi, my name is Ann Smith»
    It is 20:00 in Paris, on Sunday, 15 November 2026.
    It is 04:00 in Tokyo, on Monday, 16 November 2026.
    It is 04:01 in Tokyo, on Monday, 16 November 2026.
    You are welcome, Ann Smith.
    ");
}

#[test]
fn results_and_errors_are_formatted_as_sentences() {
    let mut answers = Vec::new();
    let mut answer = |text: &str, responses: &[Value]| answers.push(turn(&mut Vec::new(), text, responses));
    answer("read notes.txt", &[json!({"path": "notes.txt", "content": "one\ntwo\n"})]);
    answer("how many lines are in notes.txt?", &[json!({"content": "one\ntwo\n"})]);
    answer("read nope.txt", &[json!({"error": "no such file"})]);
    answer("list files", &[json!({"files": ["a.txt", {"name": "src", "type": "dir"}]})]);
    answer("how many files are there?", &[json!({"entries": [{"path": "a"}, {"path": "b"}]})]);
    answer("search for foo", &[json!({"matches": [{"path": "a.rs", "line": 3, "text": "  foo()"}]})]);
    answer("search for bar", &[json!({"matches": []})]);
    answer(
        "what day is it and what is 1/3",
        &[json!({"iso": "2026-11-15T20:00:00Z"}), json!({"result": 0.5})],
    );
    answer("is there a Makefile?", &[json!({"files": ["Makefile"]})]);
    answer("what is 1/0", &[json!({"error": {"message": "division by zero"}})]);
    answer("what time is it", &[json!({"odd": true})]);
    answer(
        "what time is it in Rome?",
        &[json!({"time": "20:00:00", "date": "2026-11-15", "weekday": "Sunday"})],
    );
    answer("read logo.png", &[json!({"path": "logo.png", "bytes": 70, "binary": "image/png"})]);
    answer("how many files are there?", &[json!({"entries": ["a", "b"], "total": 900})]);
    assert_snapshot!(answers.join("\n"), @r#"
    This is in notes.txt:
    ```
    one
    two
    ```
    notes.txt has 2 lines.
    I could not read nope.txt: no such file
    There are 1 file and 1 folder in this folder: a.txt, src/.
    There are 2 files in this folder.
    I found 1 match for «foo»:
    - a.rs:3: foo()
    I found nothing for «bar».
    Today is Sunday, 15 November 2026.
    1 / 3 = 0.5
    Yes, there is Makefile.
    I could not calculate 1 / 0: division by zero
    now answered: {"odd":true}
    It is 20:00 in Rome, on Sunday, 15 November 2026.
    logo.png is not text but image/png.
    There are 900 files and folders in this folder.
    "#);
}

#[test]
fn response_is_deterministic_and_ends_once() {
    let request = request(vec![user("what is 2+2?")], &TOOLS);
    let (first, second) = (respond(&request), respond(&request));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    assert!(matches!(first.last(), Some(StreamEvent::Done(_))));
}

#[test]
fn colloquial_phrasings_call_the_expected_tools() {
    assert_snapshot!(table(&[
        "got the time?",
        "Is it still Friday?",
        "How late is it in Singapore?",
        "I need 25 percent of 400",
        "what is ten more than 32",
        "How many seconds are in an hour?",
        "If I have 3 boxes with 12 apples each, how many apples do I have?",
        "\"what is 5 + 5\"",
        "Is there anything in TODO.md?",
        "can i see the readme",
        "Read package.json and tell me how many lines it has",
        "ls -la",
        "list dir src",
        "Are there any markdown files here?",
        "grep -r TODO src",
        "look up where Config is used",
        "in which files does the word panic appear?",
        "can you check whether README.md mentions docker",
    ]), @r#"
    got the time?  → now()
    Is it still Friday?  → now()
    How late is it in Singapore?  → now(Asia/Singapore)
    I need 25 percent of 400  → calculate(25 / 100 * 400)
    what is ten more than 32  → calculate(10 + 32)
    How many seconds are in an hour?  → calculate(1 * 3600)
    If I have 3 boxes with 12 apples each, how many apples do I have?  → calculate(3 * 12)
    "what is 5 + 5"  → calculate(5 + 5)
    Is there anything in TODO.md?  → read_file(TODO.md)
    can i see the readme  → read_file(README.md)
    Read package.json and tell me how many lines it has  → read_file(package.json)
    ls -la  → list_files(.)
    list dir src  → list_files(src)
    Are there any markdown files here?  → list_files(.)
    grep -r TODO src  → search_files(TODO @ src)
    look up where Config is used  → search_files(Config)
    in which files does the word panic appear?  → search_files(panic)
    can you check whether README.md mentions docker  → search_files(docker @ README.md)
    "#);
}

proptest::proptest! {
    #[test]
    fn any_text_gets_a_complete_response(
        text in "([a-z]{1,4}|[0-9.,%+*/()^=-]{1,5}|what|is|the|time|in|file|read|find|half|of|and|it|\"|'|\\PC){0,12}",
        spaced in "((what|is|two|hundred|plus|minus|of|it|that|files|in|src|find|for|my|name|each|3|%|\\(|\\)|-|to|the|5th) ){0,12}",
    ) {
        for text in [text, spaced] {
            let events = respond(&request(vec![user("read a.txt"), user(&text)], &TOOLS));
            proptest::prop_assert!(matches!(events.last(), Some(StreamEvent::Done(_))));
        }
    }
}

#[test]
fn deeply_nested_and_repetitive_text_terminates() {
    let texts =
        ["(".repeat(100_000), "- ".repeat(50_000), "half of ".repeat(20_000), "what is it and ".repeat(5000)];
    for text in &texts {
        assert!(matches!(respond(&request(vec![user(text)], &TOOLS)).last(), Some(StreamEvent::Done(_))));
    }
    let log = vec![user("again. and in Tokyo? once more"); 500];
    assert!(matches!(respond(&request(log, &TOOLS)).last(), Some(StreamEvent::Done(_))));
}

//! What the program says about itself.

use crate::common::Place;
use insta::assert_snapshot;

fn told(args: &[&str]) -> String {
    let place = Place::new();
    let said = place.lango(args);
    assert!(!place.home().exists(), "asking leaves nothing behind");
    said.picture()
}

#[test]
fn help_is_short_and_begins_with_what_one_wants_to_do() {
    assert_snapshot!(told(&["--help"]), @r#"
    Runs LLM agents, and never loses or garbles a conversation

    Usage: lango [OPTIONS] <COMMAND>

    Commands:
      chat      Talk with an agent
      run       Send one message and print the answer
      sessions  Look at stored conversations
      models    List the models that can be asked
      doctor    Say what is missing, with the fix
      serve     Serve the agents to programs and browsers, with ADK's REST API
      token     Give others tokens for the server, and take them back
      tools     List the tools of an agent: where they come from, what they can do, and whether they ask
      rules     Look at what tools may always do, and take it back

    Options:
          --config <FILE>  The configuration file [default: lango.toml here, else in the data directory]
      -h, --help           Print help
      -V, --version        Print version

    Examples:
      lango chat                             talk, offline and without a key to begin with
      lango run "what is in README.md?"      one message, one answer
      lango run --continue "and in src?"     go on with that conversation

    Conversations are kept in $LANGO_HOME, by default ~/.lango.
    [exit 0]
    "#);
}

#[test]
fn no_arguments_is_a_request_for_help() {
    let (with, without) = (told(&["--help"]), told(&[]));
    assert_eq!(without.replace("[exit 2]", "[exit 0]"), with);
}

#[test]
fn chat_has_help() {
    assert_snapshot!(told(&["chat", "--help"]), @"
    Talk with an agent

    Usage: lango chat [OPTIONS]

    Options:
          --config <FILE>       The configuration file [default: lango.toml here, else in the data
                                directory]
      -s, --session <ID>        Go on with this session, or begin it under this name
      -c, --continue            Go on with the session that was used last
      -m, --model <MODEL>       The model, as provider/model; `lango models` lists them
          --reasoning <EFFORT>  How hard the model thinks first: off, minimal, low, medium, high, or a
                                number of tokens
          --app <NAME>          The agent: a folder below agents/
          --server [<URL>]      Talk to a server's agent instead, which goes on if you leave; this
                                machine's if no address is given
      -h, --help                Print help
    [exit 0]
    ");
}

#[test]
fn run_has_help() {
    assert_snapshot!(told(&["run", "--help"]), @"
    Send one message and print the answer

    Usage: lango run [OPTIONS] [MESSAGE]

    Arguments:
      [MESSAGE]  The message; read from standard input if it is left out or `-`

    Options:
          --config <FILE>       The configuration file [default: lango.toml here, else in the data
                                directory]
      -s, --session <ID>        Go on with this session, or begin it under this name
      -c, --continue            Go on with the session that was used last
      -m, --model <MODEL>       The model, as provider/model; `lango models` lists them
          --reasoning <EFFORT>  How hard the model thinks first: off, minimal, low, medium, high, or a
                                number of tokens
          --app <NAME>          The agent: a folder below agents/
      -f, --file <PATH>         A file that goes along: an image, a PDF, audio or text; any number of
                                them
          --json                Print every event as one line of JSON
      -h, --help                Print help
    [exit 0]
    ");
}

#[test]
fn sessions_has_help() {
    assert_snapshot!(told(&["sessions", "--help"]), @"
    Look at stored conversations

    Usage: lango sessions [OPTIONS] <COMMAND>

    Commands:
      list    List sessions, the last used first
      show    Show a conversation
      import  Bring the conversations of another program along; a second time, only what is new

    Options:
          --config <FILE>  The configuration file [default: lango.toml here, else in the data directory]
      -h, --help           Print help
    [exit 0]
    ");
    assert_snapshot!(told(&["sessions", "list", "--help"]), @"
    List sessions, the last used first

    Usage: lango sessions list [OPTIONS]

    Options:
          --config <FILE>   The configuration file [default: lango.toml here, else in the data
                            directory]
      -n, --limit <NUMBER>  How many [default: 20]
      -h, --help            Print help
    [exit 0]
    ");
    assert_snapshot!(told(&["sessions", "show", "--help"]), @"
    Show a conversation

    Usage: lango sessions show [OPTIONS] <ID>

    Arguments:
      <ID>  The session's id

    Options:
          --app <NAME>     The agent that the session belongs to, where two have one of that id
          --config <FILE>  The configuration file [default: lango.toml here, else in the data directory]
          --json           Print each event as one line of JSON
          --as <PROVIDER>  Print the request that a provider would get if the session went on now
                           [possible values: openai, responses, anthropic, gemini, ollama]
      -h, --help           Print help
    [exit 0]
    ");
}

#[test]
fn models_and_doctor_have_help() {
    assert_snapshot!(told(&["models", "--help"]), @"
    List the models that can be asked

    Usage: lango models [OPTIONS] [PROVIDER]

    Arguments:
      [PROVIDER]  Of this provider only

    Options:
          --all            List all that each provider offers
          --config <FILE>  The configuration file [default: lango.toml here, else in the data directory]
          --json           Print each provider as one line of JSON
      -h, --help           Print help
    [exit 0]
    ");
    assert_snapshot!(told(&["doctor", "--help"]), @"
    Say what is missing, with the fix

    Usage: lango doctor [OPTIONS]

    Options:
          --config <FILE>  The configuration file [default: lango.toml here, else in the data directory]
          --json           Print each finding as one line of JSON
      -h, --help           Print help
    [exit 0]
    ");
    assert_snapshot!(told(&["run", "--reasoning", "much", "hello"]), @"
    error: invalid value 'much' for '--reasoning <EFFORT>': it is off, minimal, low, medium, high, or a number of tokens

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn token_has_help() {
    assert_snapshot!(told(&["token", "add", "--help"]), @"
    Make a token and print it, this once

    Usage: lango token add [OPTIONS] <NAME>

    Arguments:
      <NAME>  A name to know it by

    Options:
          --config <FILE>   The configuration file [default: lango.toml here, else in the data
                            directory]
          --user <USER>     The user whose sessions it opens
          --admin           Let it change what all users share, and without --user be any user
          --expires <TIME>  How long it is good, such as 90d or 12h [default: until it is revoked]
      -h, --help            Print help
    [exit 0]
    ");
    assert_snapshot!(told(&["token", "add", "laptop"]), @"
    error: the following required arguments were not provided:
      --user <USER>

    Usage: lango token add --user <USER> <NAME>

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn the_version_is_one_line() {
    let version = concat!("lango ", env!("CARGO_PKG_VERSION"), "\n[exit 0]");
    assert_eq!(told(&["--version"]), version);
}

#[test]
fn a_slip_in_a_command_is_told_what_was_probably_meant() {
    assert_snapshot!(told(&["chta"]), @"
    error: unrecognized subcommand 'chta'

      tip: a similar subcommand exists: 'chat'

    Usage: lango [OPTIONS] <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(told(&["frobnicate"]), @"
    error: unrecognized subcommand 'frobnicate'

    Usage: lango [OPTIONS] <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(told(&["run", "--sesion", "k", "hello"]), @"
    error: unexpected argument '--sesion' found

      tip: a similar argument exists: '--session'

    Usage: lango run --session <ID> [MESSAGE]

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(told(&["sessions"]), @"
    Look at stored conversations

    Usage: lango sessions [OPTIONS] <COMMAND>

    Commands:
      list    List sessions, the last used first
      show    Show a conversation
      import  Bring the conversations of another program along; a second time, only what is new

    Options:
          --config <FILE>  The configuration file [default: lango.toml here, else in the data directory]
      -h, --help           Print help
    [exit 2]
    ");
    assert_snapshot!(told(&["sessions", "show", "k", "--as", "opnai"]), @"
    error: invalid value 'opnai' for '--as <PROVIDER>'
      [possible values: openai, responses, anthropic, gemini, ollama]

      tip: a similar value exists: 'openai'

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn a_session_without_a_name_is_refused() {
    assert_snapshot!(told(&["run", "--session", "", "hello"]), @"
    error: invalid value '' for '--session <ID>': a session needs a name

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(told(&["run", "--session", " k", "hello"]), @"
    error: invalid value ' k' for '--session <ID>': a session's name has no spaces around it and no control characters

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(told(&["run", "--session", "k", "--continue", "hello"]), @"
    error: the argument '--session <ID>' cannot be used with '--continue'

    Usage: lango run --session <ID> <MESSAGE>

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn a_number_that_is_none_is_refused() {
    assert_snapshot!(told(&["sessions", "list", "-n", "many"]), @"
    error: invalid value 'many' for '--limit <NUMBER>': invalid digit found in string

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(told(&["sessions", "list", "-n", "0"]), @"
    error: invalid value '0' for '--limit <NUMBER>': 0 is not in 1..=65535

    For more information, try '--help'.
    [exit 2]
    ");
}

//! The help texts and argument errors.

use crate::common::TestEnv;
use insta::assert_snapshot;

fn output_of(args: &[&str]) -> String {
    let env = TestEnv::new();
    let output = env.run(&mut env.command_without_trust(args));
    assert!(!env.home().exists(), "help creates no files");
    output.snapshot()
}

#[test]
fn help_lists_commands_options_and_examples() {
    assert_snapshot!(output_of(&["--help"]), @r#"
    Runs LLM agents, and never loses or garbles a conversation

    Usage: lango [OPTIONS] <COMMAND>

    Commands:
      chat      Chat with an agent
      run       Send one message and print the answer
      sessions  List, show and import sessions
      usage     Print the tokens and the cost of model calls
      store     Maintain the database
      models    List the available models
      doctor    Check the setup and report problems with their fixes
      serve     Serve the agents over HTTP, with ADK's REST API
      token     Add, list and revoke access tokens for the server
      tools     List the tools of an agent with their origin, safety, effect and approval
      rules     List and revoke stored approval rules
      trust     List, add and revoke trusted folders, whose settings are used

    Options:
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
      -V, --version           Print version

    Examples:
      lango chat                             start a chat; works offline and without an API key
      lango run "what is in README.md?"      send one message and print the answer
      lango run --continue "and in src?"     continue that session

    Sessions are stored in $LANGO_HOME, by default ~/.lango.
    [exit 0]
    "#);
}

#[test]
fn no_arguments_print_help() {
    let (with, without) = (output_of(&["--help"]), output_of(&[]));
    assert_eq!(without.replace("[exit 2]", "[exit 0]"), with);
}

#[test]
fn chat_has_help() {
    assert_snapshot!(output_of(&["chat", "--help"]), @"
    Chat with an agent

    Usage: lango chat [OPTIONS]

    Options:
      -s, --session <ID>        Continue this session, or create it
      -c, --continue            Continue the most recent session
      -m, --model <MODEL>       The model, as provider/model; `lango models` lists them
          --reasoning <EFFORT>  Reasoning effort: off, minimal, low, medium, high, or a number of tokens
          --app <NAME>          The agent: a folder below agents/
          --mode <MODE>         What runs without asking: plan, ask, edits or auto [default: that of
                                lango.toml, else ask]
          --server [<URL>]      Chat with an agent of a server, whose runs continue if you disconnect;
                                without URL, the server of this machine
          --config <FILE>       The configuration file [default: lango.toml here, else in the data
                                directory]
          --agents-dir <DIR>    The directory of agents [default: agents/ beside the configuration file]
          --trust               Use the settings found in this folder, for this start only
      -h, --help                Print help
    [exit 0]
    ");
}

#[test]
fn run_has_help() {
    assert_snapshot!(output_of(&["run", "--help"]), @"
    Send one message and print the answer

    Usage: lango run [OPTIONS] [MESSAGE]

    Arguments:
      [MESSAGE]  The message; read from standard input if it is omitted or `-`; other input is appended
                 to it

    Options:
      -s, --session <ID>        Continue this session, or create it
      -c, --continue            Continue the most recent session
      -m, --model <MODEL>       The model, as provider/model; `lango models` lists them
          --reasoning <EFFORT>  Reasoning effort: off, minimal, low, medium, high, or a number of tokens
          --app <NAME>          The agent: a folder below agents/
          --mode <MODE>         What runs without asking: plan, ask, edits or auto [default: that of
                                lango.toml, else ask]
      -f, --file <PATH>         A file to attach: an image, a PDF, audio or text; may be repeated
          --json                Print every event as one line of JSON
          --config <FILE>       The configuration file [default: lango.toml here, else in the data
                                directory]
          --agents-dir <DIR>    The directory of agents [default: agents/ beside the configuration file]
          --trust               Use the settings found in this folder, for this start only
      -h, --help                Print help
    [exit 0]
    ");
}

#[test]
fn sessions_has_help() {
    assert_snapshot!(output_of(&["sessions", "--help"]), @"
    List, show and import sessions

    Usage: lango sessions [OPTIONS] <COMMAND>

    Commands:
      list     List sessions, most recent first
      show     Print a session
      search   Find messages in all sessions
      reindex  Build the search index anew
      import   Import the sessions of another program; a repeated import adds only new messages

    Options:
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 0]
    ");
    assert_snapshot!(output_of(&["sessions", "list", "--help"]), @"
    List sessions, most recent first

    Usage: lango sessions list [OPTIONS]

    Options:
      -n, --limit <NUMBER>    Maximum number of sessions [default: 20]
          --created           List by creation; pages then neither miss nor repeat a session
          --after <POSITION>  Continue after the position that the previous page printed
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 0]
    ");
    assert_snapshot!(output_of(&["sessions", "show", "--help"]), @"
    Print a session

    Usage: lango sessions show [OPTIONS] <ID>

    Arguments:
      <ID>  The session's id

    Options:
          --app <NAME>        The agent of the session, if several agents have a session with this id
          --json              Print each event as one line of JSON
          --as <PROVIDER>     Print the request that a provider would receive if the session continued
                              now [possible values: openai, responses, anthropic, gemini, ollama]
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 0]
    ");
}

#[test]
fn models_and_doctor_have_help() {
    assert_snapshot!(output_of(&["models", "--help"]), @"
    List the available models

    Usage: lango models [OPTIONS] [PROVIDER]

    Arguments:
      [PROVIDER]  List the models of this provider only

    Options:
          --all               List all models of each provider
          --forget [<MODEL>]  Forget what servers said about their models: of this model
                              (provider/model), or of all
          --json              Print each provider as one line of JSON
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 0]
    ");
    assert_snapshot!(output_of(&["doctor", "--help"]), @"
    Check the setup and report problems with their fixes

    Usage: lango doctor [OPTIONS]

    Options:
          --json              Print each finding as one line of JSON
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 0]
    ");
    assert_snapshot!(output_of(&["run", "--reasoning", "much", "hello"]), @"
    error: invalid value 'much' for '--reasoning <EFFORT>': expected off, minimal, low, medium, high, or a number of tokens

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn token_has_help() {
    assert_snapshot!(output_of(&["token", "add", "--help"]), @"
    Create a token and print it once

    Usage: lango token add [OPTIONS] <NAME>

    Arguments:
      <NAME>  A name for the token

    Options:
          --user <USER>       The user that the token authenticates
          --admin             Grant administrator rights; without --user, the token may act as any user
          --expires <TIME>    Lifetime of the token, such as 90d or 12h [default: until it is revoked]
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 0]
    ");
    assert_snapshot!(output_of(&["token", "add", "laptop"]), @"
    error: the following required arguments were not provided:
      --user <USER>

    Usage: lango token add --user <USER> <NAME>

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn version_is_one_line() {
    let version = concat!("lango ", env!("CARGO_PKG_VERSION"), "\n[exit 0]");
    assert_eq!(output_of(&["--version"]), version);
}

#[test]
fn misspelled_arguments_get_suggestions() {
    assert_snapshot!(output_of(&["chta"]), @"
    error: unrecognized subcommand 'chta'

      tip: a similar subcommand exists: 'chat'

    Usage: lango [OPTIONS] <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(output_of(&["frobnicate"]), @"
    error: unrecognized subcommand 'frobnicate'

    Usage: lango [OPTIONS] <COMMAND>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(output_of(&["run", "--sesion", "k", "hello"]), @"
    error: unexpected argument '--sesion' found

      tip: a similar argument exists: '--session'

    Usage: lango run --session <ID> [MESSAGE]

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(output_of(&["sessions"]), @"
    List, show and import sessions

    Usage: lango sessions [OPTIONS] <COMMAND>

    Commands:
      list     List sessions, most recent first
      show     Print a session
      search   Find messages in all sessions
      reindex  Build the search index anew
      import   Import the sessions of another program; a repeated import adds only new messages

    Options:
          --config <FILE>     The configuration file [default: lango.toml here, else in the data
                              directory]
          --agents-dir <DIR>  The directory of agents [default: agents/ beside the configuration file]
          --trust             Use the settings found in this folder, for this start only
      -h, --help              Print help
    [exit 2]
    ");
    assert_snapshot!(output_of(&["sessions", "show", "k", "--as", "opnai"]), @"
    error: invalid value 'opnai' for '--as <PROVIDER>'
      [possible values: openai, responses, anthropic, gemini, ollama]

      tip: a similar value exists: 'openai'

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn invalid_session_ids_are_refused() {
    assert_snapshot!(output_of(&["run", "--session", "", "hello"]), @"
    error: invalid value '' for '--session <ID>': a session id must not be empty

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(output_of(&["run", "--session", " k", "hello"]), @"
    error: invalid value ' k' for '--session <ID>': a session id must not begin or end with spaces, or contain control characters

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(output_of(&["run", "--session", "k", "--continue", "hello"]), @"
    error: the argument '--session <ID>' cannot be used with '--continue'

    Usage: lango run --session <ID> <MESSAGE>

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn invalid_list_limit_is_refused() {
    assert_snapshot!(output_of(&["sessions", "list", "-n", "many"]), @"
    error: invalid value 'many' for '--limit <NUMBER>': invalid digit found in string

    For more information, try '--help'.
    [exit 2]
    ");
    assert_snapshot!(output_of(&["sessions", "list", "-n", "0"]), @"
    error: invalid value '0' for '--limit <NUMBER>': 0 is not in 1..=65535

    For more information, try '--help'.
    [exit 2]
    ");
}

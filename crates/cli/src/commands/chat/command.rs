//! Slash commands of the chat.

pub(super) const HELP: &str = "\
/sessions      list recent sessions
/resume ID     continue a session (a prefix of its id is enough)
/new           start a new session
/model [NAME]  show the model, or switch to another one
/mode [MODE]   show the approval mode, or switch to plan, ask, edits or auto
/context       show what the next request contains, in tokens
/cost          show the tokens and the cost of the turn, the session and today
/compact       leave the older part of the session out of requests now
/SERVER:PROMPT NAME=VALUE …
               send a prompt of an MCP server; `lango tools` lists them
/help          show this help
/quit          exit, like Ctrl-D

@SERVER:URI in a message adds a resource of an MCP server.
End a line with \\ to continue it on the next one. Ctrl-C stops an answer.";

const NAMES: [&str; 10] =
    ["/sessions", "/resume", "/new", "/model", "/mode", "/context", "/cost", "/compact", "/help", "/quit"];

/// The message for an unknown command, with the most similar one if any.
pub(super) fn unknown(word: &str) -> String {
    let similarity = |name: &&str| strsim::jaro_winkler(word, name);
    let nearest = NAMES.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    match nearest.filter(|nearest| similarity(nearest) > 0.8) {
        Some(nearest) => format!("there is no {word}; did you mean {nearest}?"),
        None => format!(
            "there is no {word}; /help lists the commands (a message that begins with a space is sent as it is)"
        ),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Help,
    Sessions,
    New,
    Resume(String),
    Model(Option<String>),
    Mode(Option<String>),
    Context,
    Cost,
    Compact,
    Quit,
    Unknown(String),
}

impl SlashCommand {
    /// Returns `None` if the line is a message, such as one that begins with a path like /etc/hosts.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix('/')?.split_whitespace();
        let name = words.next()?;
        let rest = words.collect::<Vec<_>>().join(" ");
        let given = (!rest.is_empty()).then_some(rest);
        match (name, given) {
            ("help" | "?", _) => Some(Self::Help),
            ("new", _) => Some(Self::New),
            ("resume", Some(id)) => Some(Self::Resume(id)),
            ("sessions", _) | ("resume", None) => Some(Self::Sessions),
            ("model", name) => Some(Self::Model(name)),
            ("mode", name) => Some(Self::Mode(name)),
            ("context", None) => Some(Self::Context),
            ("cost", None) => Some(Self::Cost),
            ("compact", None) => Some(Self::Compact),
            ("quit" | "exit", _) => Some(Self::Quit),
            (other, _) if is_command_name(other) => Some(Self::Unknown(format!("/{other}"))),
            _ => None,
        }
    }
}

/// Whether a word after a slash looks like the name of a command, and not like a path or a prompt of a server.
fn is_command_name(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_and_known_word_parse_as_a_command() {
        assert_eq!(SlashCommand::parse("/help"), Some(SlashCommand::Help));
        assert_eq!(SlashCommand::parse("/model demo"), Some(SlashCommand::Model(Some("demo".to_owned()))));
        assert_eq!(SlashCommand::parse("/resume abc"), Some(SlashCommand::Resume("abc".to_owned())));
        for line in ["/hlep", "/hlep me", "/hlep 3 times"] {
            assert_eq!(SlashCommand::parse(line), Some(SlashCommand::Unknown("/hlep".to_owned())));
        }
        let unknown = |name: &str| Some(SlashCommand::Unknown(name.to_owned()));
        assert_eq!(SlashCommand::parse("/compact-now x"), unknown("/compact-now"));
        assert_eq!(SlashCommand::parse("/gpt4"), unknown("/gpt4"));
    }

    #[test]
    fn misspelled_slash_command_gets_a_suggestion() {
        assert_eq!(unknown("/hlep"), "there is no /hlep; did you mean /help?");
        assert_eq!(
            unknown("/xyzzy"),
            "there is no /xyzzy; /help lists the commands (a message that begins with a space is sent as it is)"
        );
    }

    #[test]
    fn message_may_begin_with_a_slash() {
        assert_eq!(SlashCommand::parse("/etc/hosts is what?"), None);
        assert_eq!(SlashCommand::parse("what is /help"), None);
        assert_eq!(SlashCommand::parse("/"), None);
        assert_eq!(SlashCommand::parse(" /etc is what?"), None);
        assert_eq!(SlashCommand::parse("/server:prompt who=Ann"), None);
    }
}

//! What begins with a slash.

pub(super) const HELP: &str = "\
/sessions      the conversations so far
/resume ID     go on with one of them (the beginning of its id is enough)
/new           begin a new one
/model [NAME]  which model answers, or another one from here on
/help          this
/quit          leave, as Ctrl-D does

A line that ends with \\ goes on in the next one. Ctrl-C stops an answer.";

const NAMES: [&str; 6] = ["/sessions", "/resume", "/new", "/model", "/help", "/quit"];

/// What to say to a command that there is not.
pub(super) fn unknown(word: &str) -> String {
    let likeness = |name: &&str| strsim::jaro_winkler(word, name);
    let nearest = NAMES.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|nearest| likeness(nearest) > 0.8) {
        Some(nearest) => format!("there is no {word}; did you mean {nearest}?"),
        None => format!("there is no {word}; /help shows what there is"),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Help,
    Sessions,
    New,
    Resume(String),
    Model(Option<String>),
    Quit,
    Unknown(String),
}

impl SlashCommand {
    /// `None` for a message. A path such as /etc/hosts is a message too.
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
            ("quit" | "exit", _) => Some(Self::Quit),
            (other, None) if other.chars().all(char::is_alphabetic) => {
                Some(Self::Unknown(format!("/{other}")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_and_a_known_word_is_a_command() {
        assert_eq!(SlashCommand::parse("/help"), Some(SlashCommand::Help));
        assert_eq!(SlashCommand::parse("/model demo"), Some(SlashCommand::Model(Some("demo".to_owned()))));
        assert_eq!(SlashCommand::parse("/resume abc"), Some(SlashCommand::Resume("abc".to_owned())));
        assert_eq!(SlashCommand::parse("/hlep"), Some(SlashCommand::Unknown("/hlep".to_owned())));
    }

    #[test]
    fn a_slip_is_told_what_was_probably_meant() {
        assert_eq!(unknown("/hlep"), "there is no /hlep; did you mean /help?");
        assert_eq!(unknown("/xyzzy"), "there is no /xyzzy; /help shows what there is");
    }

    #[test]
    fn a_message_may_begin_with_a_slash() {
        assert_eq!(SlashCommand::parse("/etc/hosts is what?"), None);
        assert_eq!(SlashCommand::parse("what is /help"), None);
        assert_eq!(SlashCommand::parse("/"), None);
    }
}

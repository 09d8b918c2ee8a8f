//! Commands in `sh` blocks, split into words, and the subcommands and options in the help of a program.

/// The commands of a script, each as its words. Quotes, comments, continued lines and operators are parsed; there is no
/// expansion.
pub(super) fn commands(script: &str) -> Vec<Vec<String>> {
    let mut words = Words::default();
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(escaped) => words.push(escaped),
            },
            '\'' | '"' => {
                words.begin();
                while let Some(inside) = chars.next().filter(|inside| *inside != c) {
                    match (c, inside) {
                        ('"', '\\') => chars.next().into_iter().for_each(|escaped| words.push(escaped)),
                        _ => words.push(inside),
                    }
                }
            }
            '#' if words.current.is_none() => while chars.next_if(|next| *next != '\n').is_some() {},
            '\n' | ';' | '|' | '&' => words.end_command(),
            '>' | '<' | '(' | ')' => words.end_word(),
            _ if c.is_whitespace() => words.end_word(),
            _ => words.push(c),
        }
    }
    words.end_command();
    words.commands
}

#[derive(Default)]
struct Words {
    commands: Vec<Vec<String>>,
    command: Vec<String>,
    current: Option<String>,
}

impl Words {
    fn begin(&mut self) {
        self.current.get_or_insert_default();
    }

    fn push(&mut self, c: char) {
        self.current.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        self.command.extend(self.current.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        let command = std::mem::take(&mut self.command);
        // `NAME=value` before a command, or alone, is an assignment, not a program.
        let words: Vec<String> = command.into_iter().skip_while(|word| is_assignment(word)).collect();
        self.commands.extend((!words.is_empty()).then_some(words));
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The subcommands and options in the output of `--help`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Help {
    pub(super) commands: Vec<String>,
    pub(super) options: Vec<String>,
}

impl Help {
    pub(super) fn parse(text: &str) -> Self {
        let mut help = Self::default();
        let mut section = "";
        for line in text.lines() {
            if !line.starts_with(' ') {
                section = line.trim();
            }
            let mut words = line.split_whitespace();
            if section == "Commands:" && line.starts_with("  ") && !line.starts_with("   ") {
                help.commands.extend(words.next().map(str::to_owned));
            } else if line.trim_start().starts_with('-') {
                let options = words.map(|word| word.trim_end_matches(','));
                let options =
                    options.take_while(|word| word.starts_with('-') || word.starts_with(['<', '[']));
                help.options.extend(options.filter(|word| word.starts_with('-')).map(str::to_owned));
            }
        }
        help
    }

    /// The first option in `args` that the help does not list.
    pub(super) fn unknown_option(&self, args: &[String]) -> Option<String> {
        let options =
            args.iter().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with('-') && arg.len() > 1);
        let mut names = options.map(|arg| arg.split('=').next().unwrap_or(arg).to_owned());
        names.find(|name| !self.options.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(script: &str) -> Vec<String> {
        commands(script).iter().map(|words| words.join("·")).collect()
    }

    #[test]
    fn script_is_split_into_commands_and_words() {
        let script = "A=1 lango run \"what is 'this'?\" --json | jq . # not this\ncd x && lango serve \\\n  --port 0 > log\n";
        assert_eq!(
            joined(script),
            ["lango·run·what is 'this'?·--json", "jq·.", "cd·x", "lango·serve·--port·0·log"]
        );
        assert_eq!(joined("# only a comment\n\nexport A=b\nB=''\n"), ["export·A=b"]);
    }

    #[test]
    fn help_lists_subcommands_and_options() {
        let text = "\
Runs agents

Usage: lango [OPTIONS] <COMMAND>

Commands:
  chat      Talk with an agent
  sessions  Look at stored conversations

Options:
      --config <FILE>  The configuration file
  -s, --session <ID>   Go on with this session
      --server [<URL>]
          Talk to a server's agent; the option --model is of no use then
  -h, --help           Print help
";
        let help = Help::parse(text);
        assert_eq!(help.commands, ["chat", "sessions"]);
        assert_eq!(help.options, ["--config", "-s", "--session", "--server", "-h", "--help"]);
    }

    #[test]
    fn unknown_option_is_reported() {
        let help = Help { commands: Vec::new(), options: vec!["--port".to_owned(), "-n".to_owned()] };
        let args = |text: &str| commands(text).remove(0);
        assert_eq!(help.unknown_option(&args("--port=1 -n 3 word")), None);
        assert_eq!(help.unknown_option(&args("--prot 1")), Some("--prot".to_owned()));
        assert_eq!(help.unknown_option(&args("x -- --anything")), None);
    }
}

//! The command `/server:prompt name=value …`, which is a whole message.

/// A prompt of an MCP server with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptCommand<'m> {
    pub(super) server: &'m str,
    pub(super) name: &'m str,
    pub(super) arguments: Vec<(String, String)>,
}

impl<'m> PromptCommand<'m> {
    /// Returns `None` for a text that names none of the servers, such as a path.
    pub(super) fn parse(text: &'m str, servers: &[&'m str]) -> Result<Option<Self>, String> {
        let Some(rest) = text.strip_prefix('/') else { return Ok(None) };
        let is_named = |server: &&&str| rest.strip_prefix(**server).is_some_and(|rest| rest.starts_with(':'));
        let Some(server) = servers.iter().filter(is_named).max_by_key(|server| server.len()) else {
            return Ok(None);
        };
        let rest = &rest[server.len() + 1..];
        let (name, rest) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        if name.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { server, name, arguments: parse_arguments(rest)? }))
    }
}

/// Parses `name=value`, with quotes around a value that contains spaces.
fn parse_arguments(mut rest: &str) -> Result<Vec<(String, String)>, String> {
    let mut arguments = Vec::new();
    loop {
        rest = rest.trim_start();
        let Some(word) = rest.split_whitespace().next() else { return Ok(arguments) };
        let Some((name, _)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!(
                "`{word}` is not an argument of a prompt; write name=value, or name=\"value with spaces\""
            ));
        };
        let value = &rest[name.len() + 1..];
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..]
                .split_once(quote)
                .ok_or_else(|| format!("the quote of the argument `{name}` is not closed"))?,
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        arguments.push((name.to_owned(), value.to_owned()));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<String>, String> {
        let command = PromptCommand::parse(text, &["fake", "fake:b"])?;
        Ok(command.map(|command| format!("{} {} {:?}", command.server, command.name, command.arguments)))
    }

    #[test]
    fn arguments_are_names_with_values() {
        for (text, parsed) in [
            ("/fake:greet", r"fake greet []"),
            ("/fake:greet who=Bob", r#"fake greet [("who", "Bob")]"#),
            (
                "/fake:greet who=O'Hara\nstyle= x=a=b",
                r#"fake greet [("who", "O'Hara"), ("style", ""), ("x", "a=b")]"#,
            ),
            (
                "/fake:greet who=\"Bob B\" style='so \"so\"'",
                r#"fake greet [("who", "Bob B"), ("style", "so \"so\"")]"#,
            ),
            ("/fake:b:greet", r"fake:b greet []"),
        ] {
            assert_eq!(parse(text).unwrap().as_deref(), Some(parsed), "{text}");
        }
        for text in
            ["/etc/hosts", "/fake", "/fake: x", " /fake:greet", "see /fake:greet", "/other:greet", "/"]
        {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
        for text in ["/fake:greet Bob", "/fake:greet =Bob", "/fake:greet who=\"Bob"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

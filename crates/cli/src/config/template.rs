//! Texts of the configuration that may hold a secret: `${NAME}` stands for a variable of the environment, `${NAME:-text}` for
//! the text if it is not set.

use super::Env;
use std::fmt;

/// A text whose variables were filled in, or the name of the first that is not set. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    text: Result<String, String>,
    /// Whether the text stands in the file itself, for everyone to read.
    pub(crate) plain: bool,
}

impl Filled {
    pub(super) fn new(template: &str, env: &Env) -> Self {
        let mut text = String::new();
        let mut rest = template;
        let mut plain = true;
        while let Some((before, behind)) = rest.split_once("${") {
            let Some((name, behind)) = behind.split_once('}') else { break };
            plain = false;
            let (name, default) =
                name.split_once(":-").map_or((name, None), |(name, text)| (name, Some(text)));
            match (env.secret(name), default) {
                (Ok(Some(value)), _) => text.extend([before, value.trim()]),
                (Ok(None), Some(default)) => text.extend([before, default]),
                (Ok(None) | Err(_), _) => return Self { text: Err(name.to_owned()), plain },
            }
            rest = behind;
        }
        text.push_str(rest);
        Self { text: Ok(text), plain }
    }

    pub(super) fn of_variable(value: &str) -> Self {
        Self { text: Ok(value.trim().to_owned()), plain: false }
    }

    /// The text, or the variable that is missing.
    pub(crate) fn get(&self) -> Result<&str, &str> {
        self.text.as_deref().map_err(String::as_str)
    }
}

/// Variables that everybody knows.
const NO_SECRETS: [&str; 8] = ["HOME", "PWD", "PATH", "USER", "LOGNAME", "LANG", "SHELL", "TMPDIR"];

/// What the variables in a text hold that nobody may see.
pub(super) fn secrets(template: &str, env: &Env) -> Vec<String> {
    let names = template.split("${").skip(1).filter_map(|behind| behind.split(['}', ':']).next());
    let values = names.filter(|name| !NO_SECRETS.contains(name)).filter_map(|name| env.secret(name).ok()?);
    values.map(|value| value.trim().to_owned()).collect()
}

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_ok() { "Filled" } else { "Missing" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_a_missing_one_is_named() {
        let env = Env::of(&[("KEY", "k-1\n"), ("TEAM", "blue")]);
        assert_eq!(Filled::new("${KEY}", &env).get(), Ok("k-1"));
        assert_eq!(Filled::new("a ${TEAM} b ${KEY}", &env).get(), Ok("a blue b k-1"));
        assert_eq!(Filled::new("${NOPE}", &env).get(), Err("NOPE"));
        assert_eq!(Filled::new("in ${clear", &env).get(), Ok("in ${clear"));
        assert_eq!(Filled::new("${NOPE:-here} ${TEAM:-red}", &env).get(), Ok("here blue"));
        assert_eq!(secrets("${HOME} Bearer ${KEY} ${TEAM:-x} ${NOPE}", &env), ["k-1", "blue"]);
    }

    #[test]
    fn a_text_without_variables_is_plain_and_none_is_ever_printed() {
        let env = Env::of(&[("KEY", "k-1")]);
        let (written, named) = (Filled::new("k-1", &env), Filled::new("${KEY}", &env));
        assert!(written.plain && !named.plain);
        assert!(!format!("{written:?}{named:?}").contains("k-1"));
    }
}

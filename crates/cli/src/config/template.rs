//! Templates in the configuration, which may contain secrets: `${NAME}` is replaced by an environment variable, `${NAME:-text}`
//! by the text if the variable is not set.

use super::Env;
use std::fmt;

/// A template with its variables substituted, or the name of the first variable that is not set. `Debug` hides the text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    text: Result<String, String>,
    /// Whether the template has no variables, so that its text is readable in the file.
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

/// Variables whose values are not secret.
const NO_SECRETS: [&str; 8] = ["HOME", "PWD", "PATH", "USER", "LOGNAME", "LANG", "SHELL", "TMPDIR"];

/// The values of the variables in a template that must be masked.
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
    fn variables_are_substituted_and_a_missing_one_is_reported() {
        let env = Env::of(&[("KEY", "k-1\n"), ("TEAM", "blue")]);
        assert_eq!(Filled::new("${KEY}", &env).get(), Ok("k-1"));
        assert_eq!(Filled::new("a ${TEAM} b ${KEY}", &env).get(), Ok("a blue b k-1"));
        assert_eq!(Filled::new("${NOPE}", &env).get(), Err("NOPE"));
        assert_eq!(Filled::new("in ${clear", &env).get(), Ok("in ${clear"));
        assert_eq!(Filled::new("${NOPE:-here} ${TEAM:-red}", &env).get(), Ok("here blue"));
        assert_eq!(secrets("${HOME} Bearer ${KEY} ${TEAM:-x} ${NOPE}", &env), ["k-1", "blue"]);
    }

    #[test]
    fn text_without_variables_is_plain_and_debug_hides_all_values() {
        let env = Env::of(&[("KEY", "k-1")]);
        let (written, named) = (Filled::new("k-1", &env), Filled::new("${KEY}", &env));
        assert!(written.plain && !named.plain);
        assert!(!format!("{written:?}{named:?}").contains("k-1"));
    }
}

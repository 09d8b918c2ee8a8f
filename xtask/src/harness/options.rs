//! Command-line options whose values are numbers.

use crate::Result;

/// Parses `--name NUMBER` pairs. `None` if help is requested; an error ends with the usage.
pub(crate) fn parse<'a>(
    args: &[&'a str],
    known: &[&str],
    usage: &str,
) -> Result<Option<Vec<(&'a str, u64)>>> {
    let mut parsed = Vec::new();
    let mut rest = args;
    while let [name, after @ ..] = rest {
        if matches!(*name, "--help" | "-h") {
            return Ok(None);
        }
        if !known.contains(name) {
            return Err(format!("`{name}` is not an option\n{usage}").into());
        }
        let [value, after @ ..] = after else { return Err(format!("{name} needs a number\n{usage}").into()) };
        let number = value.parse().map_err(|_| format!("{name} needs a number, not `{value}`"))?;
        parsed.push((*name, number));
        rest = after;
    }
    Ok(Some(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_help_and_errors() {
        let known = ["--seed", "--kills"];
        let parsed = |args: &[&'static str]| parse(args, &known, "usage").map_err(|error| error.to_string());
        assert_eq!(parsed(&["--seed", "7"]), Ok(Some(vec![("--seed", 7)])));
        assert_eq!(parsed(&["--seed", "7", "--help"]), Ok(None));
        assert_eq!(parsed(&["--seed"]), Err("--seed needs a number\nusage".to_owned()));
        assert_eq!(parsed(&["--seed", "x"]), Err("--seed needs a number, not `x`".to_owned()));
        assert_eq!(parsed(&["--sede", "1"]), Err("`--sede` is not an option\nusage".to_owned()));
    }
}

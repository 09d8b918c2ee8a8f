//! Checks that need programs: the binary loads configurations, and commands are compared with its help.

use super::{
    blocks::{self, Check},
    page::{Block, Page},
    shell::{self, Help},
};
use crate::{Result, USAGE, Workspace, conformance::server, tidy::Problem};
use std::{
    collections::HashMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The binary with a temporary data directory.
pub(super) struct BinaryChecker<'a> {
    workspace: &'a Workspace,
    home: PathBuf,
    helps: HashMap<Vec<String>, Help>,
}

impl<'a> BinaryChecker<'a> {
    pub(super) fn new(workspace: &'a Workspace) -> Result<Self> {
        server::build(workspace)?;
        let home = server::home(workspace, "book")?;
        Ok(Self { workspace, home, helps: HashMap::new() })
    }

    pub(super) fn check(&mut self, page: &Page) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for block in &page.blocks {
            let wrong = match Check::of(block) {
                Check::Configuration => self.configuration(block)?,
                Check::Commands => self.script(block)?,
                Check::Nothing | Check::Quote(_) | Check::Invalid(_) => None,
            };
            problems.extend(wrong.map(|what| Problem::new(page.place(block.line), what)));
        }
        Ok(problems)
    }

    /// The error of the configuration loader, if any. The environment variables in the block are set.
    fn configuration(&self, block: &Block) -> Result<Option<String>> {
        let file = self.home.join("lango.toml");
        fs::write(&file, &block.text)?;
        let mut lango = server::lango(self.workspace, &self.home);
        lango.args(["rules", "list", "--config"]).arg(&file).current_dir(&self.home).stdin(Stdio::null());
        let output =
            lango.envs(blocks::variables(&block.text).map(|name| (name, "a-value-that-is-set"))).output()?;
        Ok((!output.status.success()).then(|| {
            let why = String::from_utf8_lossy(&output.stderr).replace(&*self.home.to_string_lossy(), "");
            format!("the configuration is refused: {}", why.trim())
        }))
    }

    fn script(&mut self, block: &Block) -> Result<Option<String>> {
        if let Some(wrong) = syntax_error(&block.text)? {
            return Ok(Some(wrong));
        }
        for words in shell::commands(&block.text) {
            let wrong = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [program, ..] if Path::new(program).file_name().is_some_and(|name| name == "lango") => {
                    self.lango(&words[1..])?
                }
                ["cargo", "run", ..] => match words.iter().position(|word| word == "--") {
                    Some(end) => self.lango(&words[end + 1..])?,
                    None => None,
                },
                ["cargo", "xtask", rest @ ..] => unknown_task(rest),
                _ => None,
            };
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    /// Compares a command line with the help of the subcommand that it names.
    fn lango(&mut self, args: &[String]) -> Result<Option<String>> {
        let mut path = Vec::new();
        let mut rest = args;
        let mut help = self.help(&path)?;
        while let Some((word, after)) = rest.split_first().filter(|_| !help.commands.is_empty()) {
            if word.starts_with('-') {
                break;
            }
            if !help.commands.contains(word) {
                return Ok(Some(format!("`lango {}` has no command `{word}`", path.join(" "))));
            }
            path.push(word.clone());
            help = self.help(&path)?;
            rest = after;
        }
        let wrong = help.unknown_option(rest);
        Ok(wrong.map(|option| format!("`lango {}` has no option `{option}`", path.join(" "))))
    }

    fn help(&mut self, path: &[String]) -> Result<Help> {
        if let Some(known) = self.helps.get(path) {
            return Ok(known.clone());
        }
        let output = server::lango(self.workspace, &self.home).args(path).arg("--help").output()?;
        if !output.status.success() {
            return Err(format!("lango {} --help failed", path.join(" ")).into());
        }
        let help = Help::parse(&String::from_utf8(output.stdout)?);
        self.helps.insert(path.to_vec(), help.clone());
        Ok(help)
    }
}

impl Drop for BinaryChecker<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// The problem if the words after `cargo xtask` name no task.
fn unknown_task(words: &[&str]) -> Option<String> {
    let name = words.first().copied().unwrap_or_default();
    let is_known = USAGE.lines().any(|line| {
        line.strip_prefix("cargo xtask ").and_then(|rest| rest.split_whitespace().next()) == Some(name)
    });
    (!is_known).then(|| format!("`cargo xtask` has no task `{name}`"))
}

/// The error of `sh -n`, if any.
fn syntax_error(script: &str) -> Result<Option<String>> {
    let mut sh = Command::new("sh");
    let mut sh = sh.arg("-n").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = sh.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    let output = sh.wait_with_output()?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_xtask_task_is_reported() {
        assert_eq!(unknown_task(&["check", "--only", "tidy"]), None);
        assert!(unknown_task(&["chekc"]).is_some_and(|wrong| wrong.contains("`chekc`")));
        assert!(unknown_task(&[]).is_some());
    }

    #[test]
    fn shell_syntax_error_is_reported() {
        assert_eq!(syntax_error("lango run \"x\"\n").unwrap(), None);
        assert!(syntax_error("lango run \"x\nif\n").unwrap().is_some());
    }
}

//! Notes for the model: which setting or argument would allow what the sandbox refused.

use super::{process::CommandExit, sandbox::messages::Exceeded};
use crate::SandboxProfile;

/// Error texts of the C library for what the sandbox refuses, and what would allow it.
const REFUSALS: [(&[&str], &str); 4] = [
    (
        &["Read-only file system", "EROFS", "read-only file system"],
        "The sandbox lets commands write inside the roots and /tmp. [tools] writable in lango.toml adds directories. Protected \
         paths (.git/config, .git/hooks, lango.toml, .mcp.json, agents) are writable if the argument `protected` names them \
         and a person approves.",
    ),
    (
        &[
            "Network is unreachable",
            "Could not resolve host",
            "Temporary failure in name resolution",
            "ENETUNREACH",
            "EAI_AGAIN",
            "ENOTFOUND",
            "NameResolutionError",
        ],
        "Commands have no network. [tools] network = true in lango.toml allows it.",
    ),
    (
        &[
            "socket: Operation not permitted",
            "/var/run/docker.sock",
            "Could not open a connection to your authentication agent",
        ],
        "Commands cannot use Unix sockets. [tools] unixSockets = true in lango.toml allows them.",
    ),
    (&["Cannot fork", "fork: retry", "fork: Resource temporarily unavailable"], TOO_MANY_PROCESSES),
];

const TOO_MANY_PROCESSES: &str =
    "The command reached the limit of processes and threads. [tools] processes in lango.toml raises it.";
const TOO_MUCH_MEMORY: &str = "The command was killed because its processes used more memory than the limit. [tools] memoryMb in \
     lango.toml raises it.";

const READ_ONLY: &str = "The command was classified as read-only and ran where nothing but /tmp is writable.";

/// The note on a result, if there is something to say.
pub(super) fn note(exit: &CommandExit, output: &str, profile: SandboxProfile) -> Option<String> {
    let mut notes = Vec::new();
    if exit.left_behind {
        notes.push("background processes were terminated; use exec_start to keep them running".to_owned());
    }
    for limit in &exit.exceeded {
        notes.push(match limit {
            Exceeded::Memory => TOO_MUCH_MEMORY.to_owned(),
            Exceeded::Processes => TOO_MANY_PROCESSES.to_owned(),
        });
    }
    if !exit.quarantined.is_empty() {
        let renamed: Vec<String> = exit.quarantined.iter().map(|path| path.display().to_string()).collect();
        notes.push(format!(
            "Protected files that the command created were renamed to {}. To create them, name them in the argument `protected`.",
            renamed.join(", ")
        ));
    }
    let failed = exit.status.is_some_and(|status| !status.success());
    for (texts, hint) in REFUSALS.iter().filter(|_| failed) {
        if texts.iter().any(|text| output.contains(text)) {
            let is_write = texts[0] == REFUSALS[0].0[0];
            let hint = if is_write && profile == SandboxProfile::ReadOnly { READ_ONLY } else { hint };
            if !notes.iter().any(|note| note == hint) {
                notes.push(hint.to_owned());
            }
        }
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// What would allow what the sandbox refused to a server, by its standard error.
pub(crate) fn server_note(stderr: &str) -> Option<String> {
    let refused = |(texts, _): &&(&[&str], &str)| texts.iter().any(|text| stderr.contains(text));
    let hints: Vec<&str> = REFUSALS.iter().filter(refused).map(|(_, hint)| *hint).collect();
    (!hints.is_empty()).then(|| {
        format!(
            "It runs in the sandbox. {} sandbox = \"off\" in its [mcp] section runs it without.",
            hints.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn exit(code: i32) -> CommandExit {
        CommandExit { status: Some(std::process::ExitStatus::from_raw(code << 8)), ..CommandExit::default() }
    }

    #[test]
    fn refusal_names_the_setting_that_would_allow_it() {
        let text = "touch: cannot touch 'x': Read-only file system\n";
        let workspace = note(&exit(1), text, SandboxProfile::Workspace).unwrap();
        assert!(workspace.contains("[tools] writable") && workspace.contains("`protected`"), "{workspace}");
        let read_only = note(&exit(1), text, SandboxProfile::ReadOnly).unwrap();
        assert!(read_only.contains("classified as read-only"), "{read_only}");
        assert_eq!(note(&exit(0), text, SandboxProfile::Workspace), None);
        let npx = "npm error code EAI_AGAIN\nnpm error EROFS: read-only file system, mkdir '/u/.npm'";
        let server = server_note(npx).unwrap();
        for setting in ["[tools] network = true", "[tools] writable", "sandbox = \"off\""] {
            assert!(server.contains(setting), "{server}");
        }
        assert_eq!(server_note("invalid argument"), None);
        let network =
            note(&exit(6), "curl: (6) Could not resolve host: x", SandboxProfile::Workspace).unwrap();
        assert!(network.contains("[tools] network = true"), "{network}");
    }
}

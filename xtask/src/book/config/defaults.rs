//! Numeric defaults: each is written in a doc comment and set by code elsewhere. The table connects the two.

use super::types::Field;

/// A key, the default in its doc comment, and the code that sets it.
struct Default {
    key: &'static str,
    value: &'static str,
    /// Prefix of the path of the code.
    below: &'static str,
    code: &'static str,
}

const fn set(key: &'static str, value: &'static str, below: &'static str, code: &'static str) -> Default {
    Default { key, value, below, code }
}

const DEFAULTS: &[Default] = &[
    set("maxMessageTokenBudget", "32000", "crates/bridge/src/", "DEFAULT_TOKENS: u32 = 32_000"),
    set(
        "history.cacheBytes",
        "83886080",
        "crates/bridge/src/",
        "DEFAULT_CACHE_BYTES: usize = 80 * 1024 * 1024",
    ),
    set("history.retain", "50", "crates/bridge/src/", "DEFAULT_RETAINED: u8 = 50"),
    set(
        "providers.<name>.connectTimeoutS",
        "10",
        "crates/provider/src/",
        "connect_timeout: Duration::from_secs(10)",
    ),
    set(
        "providers.<name>.idleTimeoutS",
        "300",
        "crates/provider/src/",
        "idle_timeout: Duration::from_mins(5)",
    ),
    set("retry.attempts", "4", "crates/bridge/src/model/", "attempts: 4"),
    set(
        "retry.maxWaitS",
        "60",
        "crates/bridge/src/model/",
        "(Duration::from_millis(500), Duration::from_mins(1))",
    ),
    set("limits.modelCalls", "500", "crates/adk/src/", "max_llm_calls: 500"),
    set("server.maxBodyBytes", "20971520", "crates/server/src/", "body: 20 * 1024 * 1024"),
    set("server.maxHeadBytes", "65536", "crates/server/src/", "head: 64 * 1024"),
    set("server.headTimeoutSeconds", "30", "crates/server/src/", "head_timeout: Duration::from_secs(30)"),
    set("server.maxConnections", "1024", "crates/server/src/", "connections: 1024"),
    set("server.bodyTimeoutSeconds", "300", "crates/server/src/", "body_timeout: Duration::from_mins(5)"),
    set("server.stallTimeoutSeconds", "60", "crates/server/src/", "grace: Duration::from_mins(1)"),
    set("server.minBytesPerSecond", "4096", "crates/server/src/", "bytes_per_second: 4096"),
    set("server.connectionsPerAddress", "64", "crates/server/src/", "connections_per_address: 64"),
    set("server.requestsPerUser", "256", "crates/server/src/", "requests_per_user: 256"),
    set("server.maxBodyMemoryBytes", "50331648", "crates/server/src/", "body_memory: 48 * 1024 * 1024"),
    set(
        "server.maxResponseMemoryBytes",
        "33554432",
        "crates/server/src/",
        "response_memory: 32 * 1024 * 1024",
    ),
    set("server.sessionsPerUser", "1000000", "crates/server/src/", "sessions_per_user: 1_000_000"),
    set("server.requestsPerMinute", "6000", "crates/server/src/", "requests_per_minute: 6000"),
    set("server.runsPerUser", "64", "crates/server/src/", "runs_per_user: 64"),
    set("tools.timeoutS", "120", "crates/tools/src/exec/", "time: Duration::from_mins(2)"),
    set("tools.maxTimeoutS", "1800", "crates/tools/src/exec/", "max_time: Duration::from_mins(30)"),
    set("tools.keepMb", "1024", "crates/cli/src/config/", "KEPT_MB: u64 = 1_024"),
    set("tools.processes", "4096", "crates/tools/src/exec/", "DEFAULT_PROCESSES: u64 = 4_096"),
    set("mcp.<name>.startTimeoutS", "30", "crates/tools/src/mcp/", "start_time: Duration::from_secs(30)"),
    set("mcp.<name>.timeoutS", "120", "crates/tools/src/mcp/", "call_time: Duration::from_mins(2)"),
    set("mcp.<name>.answerTimeoutS", "3600", "crates/tools/src/mcp/", "answer_time: Duration::from_hours(1)"),
    set(
        "commands.<name>.timeoutS",
        "60",
        "crates/cli/src/config/",
        "COMMAND_TIME: Duration = Duration::from_mins(1)",
    ),
];

/// Numeric defaults that are not in the table, differ from it, or are no longer set by that code.
pub(super) fn check<'a>(
    files: &[(String, String)],
    fields: impl Iterator<Item = (String, &'a Field)>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, field) in fields {
        let Some(value) = field.docs.default.as_deref().and_then(number) else { continue };
        let Some(default) = DEFAULTS.iter().find(|default| default.key == key) else {
            problems.push(format!("the default of {key} is a number: name the code that sets it in xtask/src/book/config/defaults.rs"));
            continue;
        };
        if default.value != value {
            problems.push(format!(
                "the default of {key} is {} by xtask/src/book/config/defaults.rs, not {value}",
                default.value
            ));
        }
        let sets =
            |(path, text): &(String, String)| path.starts_with(default.below) && text.contains(default.code);
        if !files.iter().any(sets) {
            let Default { below, code, .. } = default;
            problems.push(format!("no file below {below} contains `{code}`: correct the default of {key}, or xtask/src/book/config/defaults.rs"));
        }
    }
    problems
}

/// The number, if the default is one.
fn number(default: &str) -> Option<&str> {
    let inside = default.strip_prefix('`')?.strip_suffix('`')?;
    inside.chars().all(|c| c.is_ascii_digit()).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::{
        super::types::{Docs, KeyKind},
        *,
    };

    fn reported(key: &str, default: &str, files: &[(&str, &str)]) -> String {
        let docs = Docs { default: Some(default.to_owned()), ..Docs::default() };
        let field = Field {
            key: String::new(),
            kind: KeyKind::Value("integer".to_owned()),
            docs,
            is_required: false,
            foreign_keys: Vec::new(),
        };
        let files: Vec<(String, String)> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&files, [(key.to_owned(), &field)].into_iter()).join("; ")
    }

    #[test]
    fn numeric_default_must_match_the_code() {
        let code = [("crates/server/src/limits.rs", "runs_per_user: 64,")];
        assert_eq!(reported("server.runsPerUser", "`64`", &code), "");
        assert!(reported("server.runsPerUser", "`65`", &code).contains("is 64 by"));
        let changed = [("crates/server/src/limits.rs", "runs_per_user: 32,")];
        assert!(reported("server.runsPerUser", "`64`", &changed).contains("contains `runs_per_user: 64`:"));
        assert!(reported("server.newLimit", "`7`", &code).contains("name the code that sets it"));
    }

    #[test]
    fn other_defaults_need_no_code() {
        assert_eq!(reported("model", "the first provider with a key", &[]), "");
        assert_eq!(reported("user", "`\"user\"`", &[]), "");
    }
}

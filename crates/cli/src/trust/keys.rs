//! A rule for every key of `lango.toml`: harmless, or listed as a permission. A key without a rule is listed with its value.

use KeyRule::{Harmless, Listed, LowerThan, ModelNames, OneOf, Path, PathRead, Raised, Section};

/// What a key of a folder's `lango.toml` means for trust.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KeyRule {
    /// It has no consequence outside the conversation, for this reason.
    Harmless(&'static str),
    /// A permission is made of several keys of its section.
    Section,
    /// Listed with its value; a list or a table element by element.
    Listed,
    /// Listed if the value is one of these. The others are the default, or restrict.
    OneOf(&'static [&'static str]),
    /// A limit, listed if it is higher than the default. Where 0 means no limit, 0 is listed too.
    Raised {
        default: f64,
        zero_is_none: bool,
    },
    /// A minimum, listed if it is lower than the default.
    LowerThan(f64),
    /// A file or directory, listed with its real path.
    Path,
    /// Directories that tools read, and write unless `write = false`. Those inside the folder are not listed.
    PathRead,
    ModelNames,
}

const RESTRICTS: &str = "it restricts only";
const OWN_TIME: &str = "a time limit of a server or program that is listed";
const TEXT: &str = "text or a number for the model";

const fn raised(default: f64) -> KeyRule {
    Raised { default, zero_is_none: false }
}

const fn raised_or_zero(default: f64) -> KeyRule {
    Raised { default, zero_is_none: true }
}

/// The rules by key, the first that matches counts. `*` stands for one name. `docs/src/configuration.md` is the list of all keys;
/// a test requires a rule for each.
#[rustfmt::skip]
const KEY_RULES: &[(&str, KeyRule)] = &[
    ("model", ModelNames),
    ("fallback", ModelNames),
    ("discover", Harmless("it reaches the loopback interface only")),
    ("app", Harmless("it selects one of the listed agents")),
    // Stored approvals belong to a user.
    ("user", Listed),
    ("database", Path),
    ("agentsDir", Path),
    ("maxMessageTokenBudget", raised(32_000.0)),
    ("mcpJson", Harmless("the servers of .mcp.json are listed")),
    ("history.maxMessages", Harmless(RESTRICTS)),
    ("history.cacheBytes", raised(83_886_080.0)),
    ("history.retain", Harmless("the budget of the history remains")),
    ("generate.systemInstruction", Harmless(TEXT)),
    ("generate.temperature", Harmless(TEXT)),
    ("generate.topP", Harmless(TEXT)),
    ("generate.maxOutputTokens", Harmless("the provider's own limit remains")),
    ("generate.stopSequences", Harmless(TEXT)),
    ("generate.seed", Harmless(TEXT)),
    ("generate.responseSchema", Harmless(TEXT)),
    // Passed on to the provider as they are.
    ("generate.*", Listed),
    ("providers.*.api", Harmless("the wire format of a host that is listed")),
    ("providers.*.baseUrl", Section),
    ("providers.*.key", Section),
    ("providers.*.headers", Section),
    // Fields of the body may let the server fetch addresses or run tools of its own.
    ("providers.*.extraBody", Listed),
    ("providers.*.parallelToolCalls", Harmless(TEXT)),
    ("providers.*.promptCacheKey", Harmless("a hash for a host that is listed")),
    ("providers.*.organization", Section),
    ("providers.*.caFile", Path),
    ("providers.*.connectTimeoutS", Harmless(OWN_TIME)),
    ("providers.*.idleTimeoutS", Harmless(OWN_TIME)),
    ("models.*.context", Harmless(TEXT)),
    ("models.*.output", Harmless("the provider's own limit remains")),
    ("models.*.extraBody", Listed),
    ("models.*.parallelToolCalls", Harmless(TEXT)),
    ("models.*.capabilities.*", Harmless("it restricts, or sends what the conversation contains")),
    // The limit of cost is computed with them.
    ("models.*.prices.*", Listed),
    ("retry.attempts", raised(4.0)),
    ("retry.maxWaitS", raised(60.0)),
    ("limits.modelCalls", raised_or_zero(500.0)),
    ("limits.toolCalls", Harmless(RESTRICTS)),
    ("limits.timeS", Harmless(RESTRICTS)),
    ("limits.tokens", Harmless(RESTRICTS)),
    ("limits.cost", Harmless(RESTRICTS)),
    ("stubs.*.state", Listed),
    ("stubs.*.*", Section),
    ("server.allowedHosts", Listed),
    ("server.allowedOrigins", Listed),
    ("server.trustedProxies", Listed),
    ("server.tlsCert", Path),
    ("server.tlsKey", Path),
    ("server.maxBodyBytes", raised(20_971_520.0)),
    ("server.maxHeadBytes", raised(65_536.0)),
    ("server.headTimeoutSeconds", raised(30.0)),
    ("server.bodyTimeoutSeconds", raised(300.0)),
    ("server.stallTimeoutSeconds", raised(60.0)),
    ("server.minBytesPerSecond", LowerThan(4_096.0)),
    ("server.maxConnections", raised(1_024.0)),
    ("server.connectionsPerAddress", raised_or_zero(64.0)),
    ("server.requestsPerUser", raised_or_zero(256.0)),
    ("server.maxBodyMemoryBytes", raised(50_331_648.0)),
    ("server.maxResponseMemoryBytes", raised(33_554_432.0)),
    ("server.requestsPerMinute", raised_or_zero(6_000.0)),
    ("server.runsPerUser", raised_or_zero(64.0)),
    ("server.sessionsPerUser", raised_or_zero(1_000_000.0)),
    ("server.jwt.*", Listed),
    ("telemetry.endpoint", Section),
    ("telemetry.headers", Section),
    ("telemetry.serviceName", Harmless("a name in the spans")),
    ("telemetry.content", OneOf(&["true"])),
    ("tools.root", PathRead),
    ("tools.roots", PathRead),
    ("tools.readable", Listed),
    // It replaces the default list.
    ("tools.denyRead", Listed),
    ("tools.writable", Path),
    ("tools.network", OneOf(&["true"])),
    ("tools.unixSockets", OneOf(&["true"])),
    ("tools.fetchLocal", Listed),
    ("tools.timeoutS", raised(120.0)),
    ("tools.maxTimeoutS", raised(1_800.0)),
    ("tools.memoryMb", Listed),
    ("tools.processes", raised(4_096.0)),
    ("tools.keepMb", raised(1_024.0)),
    ("approval.read", Harmless("the default allows all")),
    ("approval.write", OneOf(&["\"allow\""])),
    ("approval.execute", OneOf(&["\"allow\""])),
    ("approval.network", OneOf(&["\"allow\""])),
    ("approval.tools.*", OneOf(&["\"allow\""])),
    ("approval.commands.*", OneOf(&["\"allow\""])),
    ("approval.users", OneOf(&["\"ask\""])),
    ("approval.mode", OneOf(&["\"edits\"", "\"auto\""])),
    ("mcp.*.command", Section),
    ("mcp.*.args", Section),
    ("mcp.*.env", Section),
    ("mcp.*.cwd", Section),
    ("mcp.*.url", Section),
    ("mcp.*.headers", Section),
    ("mcp.*.trusted", OneOf(&["true"])),
    ("mcp.*.sandbox", Listed),
    ("mcp.*.enabled", Harmless("a server that is not enabled does not start")),
    ("mcp.*.startTimeoutS", Harmless(OWN_TIME)),
    ("mcp.*.timeoutS", Harmless(OWN_TIME)),
    ("mcp.*.answerTimeoutS", Harmless(OWN_TIME)),
    // The class of a tool decides whether its calls ask.
    ("mcp.*.tools.*.safety", Listed),
    ("mcp.*.tools.*.effect", Listed),
    ("mcp.*.tools.*.enabled", Harmless("it is the default, or restricts")),
    ("commands.*.description", Harmless(TEXT)),
    ("commands.*.command", Section),
    ("commands.*.parameters", Harmless(TEXT)),
    ("commands.*.cwd", Section),
    ("commands.*.env", Section),
    ("commands.*.sandbox", Listed),
    ("commands.*.timeoutS", Harmless(OWN_TIME)),
    ("commands.*.safety", OneOf(&["\"read\"", "\"write\"", "\"network\""])),
    ("commands.*.effect", OneOf(&["\"read_only\"", "\"idempotent\""])),
    ("commands.*.untrusted", Harmless(RESTRICTS)),
];

/// The rule of a key. `None` for a table that has keys with rules, and for a key without a rule.
pub(super) fn rule(key: &[&str]) -> Option<KeyRule> {
    let matches = |pattern: &str| {
        let mut parts = pattern.split('.');
        let all = key.iter().all(|name| parts.next().is_some_and(|part| part == "*" || part == camel(name)));
        all && parts.next().is_none()
    };
    KEY_RULES.iter().find(|(pattern, _)| matches(pattern)).map(|(_, rule)| *rule)
}

/// A key in camelCase, as in the rules. The file may have either spelling.
fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let mut letters = word.chars();
        let upper = letters.next().map(|letter| letter.to_ascii_uppercase());
        key + &upper.into_iter().chain(letters).collect::<String>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of the configuration reference, which is generated from the types.
    fn documented() -> Vec<String> {
        let page = include_str!("../../../../docs/src/configuration.md");
        let reference = page.split_once("<!-- generated: keys -->").unwrap().1;
        let reference = reference.split_once("<!-- end: keys -->").unwrap().0;
        let mut section = String::new();
        let mut keys = Vec::new();
        for line in reference.lines() {
            if let Some(heading) = line.strip_prefix("### `[") {
                section = format!("{}.", heading.trim_end_matches("]`"));
            } else if let Some(row) = line.strip_prefix("| `") {
                keys.push(format!("{section}{}", row.split('`').next().unwrap()));
            }
        }
        keys
    }

    /// `<name>` and `"<provider>/<model>"` as the pattern `*`.
    fn names(key: &str) -> Vec<&str> {
        key.split('.').map(|part| if part.contains('<') { "*" } else { part }).collect()
    }

    #[test]
    fn every_documented_key_has_a_rule() {
        let keys = documented();
        assert!(keys.len() > 100, "{keys:?}");
        let below = |key: &[&str]| rule(&[key, &["any"]].concat()).is_some();
        let missing: Vec<&String> =
            keys.iter().filter(|key| rule(&names(key)).is_none() && !below(&names(key))).collect();
        assert!(missing.is_empty(), "these keys need a rule in KEY_RULES: {missing:?}");
    }

    #[test]
    fn both_spellings_of_a_key_have_the_same_rule() {
        for (one, other) in [("baseUrl", "base_url"), ("connectTimeoutS", "connect_timeout_s")] {
            assert_eq!(rule(&["providers", "a_b", one]), rule(&["providers", "a_b", other]));
            assert!(rule(&["providers", "a_b", one]).is_some());
        }
        assert_eq!(rule(&["mcp_json"]), rule(&["mcpJson"]));
        assert_eq!(rule(&["tools", "invented"]), None);
    }
}

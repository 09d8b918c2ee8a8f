//! The table: names, options that only look, and what their other arguments are.

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Harmless {
    pub(super) names: &'static [&'static str],
    /// Letters of short options. Digits are always among them, for counts.
    pub(super) short: &'static str,
    pub(super) long: &'static [&'static str],
    pub(super) operands: Operands,
    /// Other options of it write or run something, so that none may come from the name of a file.
    pub(super) is_guarded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Words that name no file.
    Text,
    /// The same, and the first of them is known.
    FormatThenText,
    /// The same, and options are not looked at either.
    Anything,
    Paths,
    PatternThenPaths,
    /// Paths, and one more would be written to.
    AtMost(usize),
}

use Operands::{Anything, AtMost, FormatThenText, Paths, PatternThenPaths, Text};

const fn row(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    operands: Operands,
) -> Harmless {
    Harmless { names, short, long, operands, is_guarded: false }
}

const fn guarded(row: Harmless) -> Harmless {
    Harmless { is_guarded: true, ..row }
}

/// What follows links on its way (`grep -R`, `rg -L`, `diff -r`), or reads arguments from a file (`strings @x`), is not here.
pub(super) const PLAIN: [Harmless; 28] = [
    row(&["pwd"], "LP", &[], AtMost(0)),
    row(&["true", "false", ":", "exit"], "", &[], Text),
    row(&["echo", "sleep", "seq"], "neE", &[], Text),
    row(&["printf"], "", &[], FormatThenText),
    row(&["test", "["], "", &[], Anything),
    row(&["command"], "v", &[], Text),
    row(&["which", "type"], "a", &[], Text),
    row(&["basename", "dirname"], "asz", &[], Text),
    row(&["whoami", "nproc", "uptime", "arch", "env", "hostname"], "", &[], AtMost(0)),
    row(&["id", "uname"], "asrmunGg", &[], AtMost(0)),
    row(
        &["ls"],
        "aAlhrtSRd1FGgoipskCxmBcu",
        &["all", "color", "human-readable", "recursive", "reverse"],
        Paths,
    ),
    row(&["cat", "tac", "rev", "nl"], "nbsAETva", &[], Paths),
    row(&["head", "tail"], "ncqv", &["lines", "bytes"], Paths),
    row(&["wc"], "lwcmL", &["lines", "words", "bytes"], Paths),
    row(&["stat"], "cL", &["format", "printf"], Paths),
    row(&["du", "df"], "shacdkmT", &["max-depth", "human-readable", "summarize"], Paths),
    row(&["realpath", "readlink"], "fem", &[], Paths),
    row(&["sha256sum", "sha1sum", "md5sum"], "b", &[], Paths),
    row(&["od", "hexdump"], "AcxtnC", &[], Paths),
    row(&["cut", "paste", "column"], "dfcst:,-|", &[], Paths),
    row(&["tr"], "dsc", &[], Text),
    row(&["comm", "cmp"], "sl", &[], Paths),
    row(&["diff"], "uqbBwyi", &["unified", "brief", "color"], Paths),
    row(
        &["grep", "egrep", "fgrep"],
        "rnilLcvwxEFGPohHsqaIABCmb",
        &["include", "exclude", "exclude-dir", "color", "line-number", "ignore-case", "count", "recursive"],
        PatternThenPaths,
    ),
    guarded(row(
        &["rg"],
        "nilcvwFSsUoABCmgtTu",
        &["hidden", "line-number", "glob", "type", "count"],
        PatternThenPaths,
    )),
    guarded(row(&["tree"], "adfCLsh", &[], Paths)),
    guarded(row(&["sort"], "nrufhVkbdMt:,", &["numeric-sort", "reverse", "unique"], Paths)),
    guarded(row(&["uniq"], "cdui", &["count"], AtMost(1))),
];

const DIFF: &[&str] = &[
    "stat",
    "shortstat",
    "numstat",
    "summary",
    "name-only",
    "name-status",
    "cached",
    "staged",
    "color",
    "no-color",
    "word-diff",
    "unified",
    "ignore-all-space",
    "diff-filter",
    "check",
    "patch",
    "no-patch",
    "oneline",
    "graph",
    "decorate",
    "all",
    "max-count",
    "since",
    "until",
    "after",
    "before",
    "author",
    "grep",
    "format",
    "pretty",
    "abbrev-commit",
    "follow",
    "reverse",
    "merges",
    "no-merges",
    "first-parent",
    "date",
    "no-ext-diff",
    "no-textconv",
];

/// Subcommands of git.
pub(super) const GIT: [Harmless; 9] = [
    guarded(row(
        &["status"],
        "sbuzv",
        &["short", "branch", "porcelain", "untracked-files", "ignored", "long", "show-stash"],
        Paths,
    )),
    guarded(row(&["diff", "log", "show"], "pnUwbMCRzs", DIFF, Paths)),
    guarded(row(&["branch"], "avr", &["all", "show-current", "remotes", "verbose"], AtMost(0))),
    guarded(row(&["remote"], "v", &["verbose"], AtMost(0))),
    guarded(row(&["tag"], "l", &["list"], AtMost(0))),
    guarded(row(
        &["ls-files"],
        "comdstz",
        &["cached", "others", "modified", "deleted", "exclude-standard"],
        Paths,
    )),
    guarded(row(
        &["rev-parse"],
        "",
        &["show-toplevel", "abbrev-ref", "short", "verify", "git-dir", "is-inside-work-tree"],
        Paths,
    )),
    guarded(row(&["blame"], "Lwe,", &[], Paths)),
    guarded(row(&["describe"], "", &["tags", "always", "dirty", "abbrev"], Paths)),
];

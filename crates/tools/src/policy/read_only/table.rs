//! The table of read-only commands: names, allowed options, and the meaning of operands.

/// One row: commands with the same syntax.
#[derive(Clone, Copy)]
pub(super) struct ReadOnlyCommand {
    pub(super) names: &'static [&'static str],
    /// Letters of allowed short options. Digits are always allowed, for counts.
    pub(super) short: &'static str,
    pub(super) long: &'static [&'static str],
    pub(super) operands: Operands,
    /// The command has other options that write or run something, so an operand must not expand to an option.
    pub(super) is_guarded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Words that are not paths.
    Text,
    /// Like `Text`, but the first word must be known.
    FormatThenText,
    /// Like `Text`, without a check of options.
    Anything,
    Paths,
    /// Paths of files; a directory is not allowed.
    Files,
    PatternThenPaths,
    /// At most this many paths; the command would write to one more.
    AtMost(usize),
}

use Operands::{Anything, AtMost, Files, FormatThenText, Paths, PatternThenPaths, Text};

const fn row(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    operands: Operands,
) -> ReadOnlyCommand {
    ReadOnlyCommand { names, short, long, operands, is_guarded: false }
}

const fn guarded(row: ReadOnlyCommand) -> ReadOnlyCommand {
    ReadOnlyCommand { is_guarded: true, ..row }
}

/// Options that follow links (`grep -R`, `rg -L`, `diff -r`) and commands that read arguments from a file (`strings @x`) are
/// deliberately absent.
pub(super) const COMMANDS: [ReadOnlyCommand; 29] = [
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
    guarded(row(&["file"], "bi", &["brief", "mime"], Paths)),
    row(&["wc"], "lwcmL", &["lines", "words", "bytes"], Paths),
    row(&["stat"], "cL", &["format", "printf"], Paths),
    row(&["du", "df"], "shacdkmT", &["max-depth", "human-readable", "summarize"], Paths),
    row(&["realpath", "readlink"], "fem", &[], Paths),
    row(&["sha256sum", "sha1sum", "md5sum"], "b", &[], Paths),
    row(&["od", "hexdump"], "AcxtnC", &[], Paths),
    row(&["cut", "paste", "column"], "dfcst:,-|", &[], Paths),
    row(&["tr"], "dsc", &[], Text),
    row(&["comm", "cmp"], "sl", &[], Paths),
    row(&["diff"], "uqbBwyi", &["unified", "brief", "color"], Files),
    row(
        &["grep", "egrep", "fgrep"],
        "rnilLcvwxEFGPohHsqaIABCmb",
        &["include", "exclude", "exclude-dir", "color", "line-number", "ignore-case", "count", "recursive"],
        PatternThenPaths,
    ),
    guarded(row(
        &["rg"],
        "nilcvwFSsUoABCmgtTu",
        &["hidden", "line-number", "glob", "type", "count", "files"],
        PatternThenPaths,
    )),
    guarded(row(&["tree"], "adfCLsh", &[], Paths)),
    guarded(row(&["sort"], "nrufhVkbdMt:,", &["numeric-sort", "reverse", "unique"], Paths)),
    guarded(row(&["uniq"], "cdui", &["count"], AtMost(1))),
];

/// Programs that only print their version if `--version` is the only argument, whatever the project contains.
pub(super) const PRINT_VERSION: [&str; 8] = ["python3", "python", "node", "gcc", "g++", "make", "git", "rg"];

/// Options of `git diff`, `log` and `show`.
const DIFF_OPTIONS: &[&str] = &[
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

/// Read-only subcommands of git.
pub(super) const GIT_SUBCOMMANDS: [ReadOnlyCommand; 9] = [
    guarded(row(
        &["status"],
        "sbuzv",
        &["short", "branch", "porcelain", "untracked-files", "ignored", "long", "show-stash"],
        Paths,
    )),
    guarded(row(&["diff", "log", "show"], "pnUwbMCRzs", DIFF_OPTIONS, Paths)),
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

/// Commands that a stored rule may allow by their name alone: none of these options runs a program, and the operands are paths,
/// which must be inside the roots and not protected.
pub(super) const HARMLESS_PREFIXES: [ReadOnlyCommand; 2] = [
    guarded(row(&["mkdir", "rmdir"], "pv", &["parents", "verbose"], Paths)),
    guarded(row(&["touch"], "acm", &["no-create"], Paths)),
];

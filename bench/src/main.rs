//! `cargo xtask bench`: measures the product and prints figures, each with its target, and the noise of the machine.
//!
//! | module | contents |
//! |---|---|
//! | [`BENCHES`] | the list of benches |
//! | [`append`], [`tail`] | benches of the store; [`rows`] is their data, [`raw`] the plain SQLite baseline |
//! | [`turn`] | a whole turn through the agent layer |
//! | [`sessions`] | lists of 100,000 sessions; commits while a session of a million events is deleted |
//! | [`recovery`] | the time to claim and to finish the runs of a killed server |
//! | [`recall`] | search in a million messages |
//! | [`calls`] | the overhead of tool calls |
//! | [`sandbox`] | the overhead of the sandbox of commands |
//! | [`decode`] | decoding a model's answer from bytes to events |
//! | [`long`] | the input cost of long conversations with a prompt cache |
//! | [`html`] | the quality of HTML conversion |
//! | [`binary`], [`mod@reference`] | start, memory and turn of the binary; a turn of google-adk for comparison |
//! | [`server`] | our server and google-adk's under load |
//! | [`measure`] | repetition, alternating rounds of two sides, medians, CPU time |
//! | [`figure`] | the result of a bench, as a row of a table or a line of JSON |
//! | [`noise`] | load average, spread of a fixed CPU loop, latency of fdatasync |
//!
//! To add a bench, write a module with `pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>>` and add it to [`BENCHES`].

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints its results")]

mod append;
mod binary;
mod calls;
mod decode;
mod figure;
mod html;
mod long;
mod measure;
mod noise;
mod raw;
mod recall;
mod recovery;
mod reference;
mod rows;
mod sandbox;
mod server;
mod sessions;
mod tail;
mod turn;

use figure::Figure;
use std::{error::Error, fs, path::PathBuf, process::ExitCode};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&BenchEnv) -> Result<Vec<Figure>>,
}

const BENCHES: &[Bench] = &[
    Bench { name: "append/1", about: "durable appends of one session", run: append::one_session },
    Bench { name: "append/64", about: "durable appends of 64 sessions at once", run: append::many_sessions },
    Bench {
        name: "tail",
        about: "loading a window of 32,000 tokens, of 100 to 1,000,000 messages",
        run: tail::run,
    },
    Bench {
        name: "turn",
        about: "a whole turn with an instant model, after 0 to 100,000 events",
        run: turn::run,
    },
    Bench {
        name: "recovery",
        about: "claiming and finishing 10,000 interrupted runs, with an instant model",
        run: recovery::run,
    },
    Bench {
        name: "recall",
        about: "search in a million messages: latency, size of the index, commits while indexing",
        run: recall::run,
    },
    Bench { name: "lists", about: "lists of 100,000 sessions", run: sessions::lists },
    Bench {
        name: "deletes",
        about: "commits while a session of a million events is deleted",
        run: sessions::deletes,
    },
    Bench { name: "call", about: "the overhead of a tool call, one and 32 at a time", run: calls::run },
    Bench { name: "sandbox", about: "the overhead of each profile on `true`", run: sandbox::run },
    Bench {
        name: "decode",
        about: "decoding a model's answer, compared with eventsource-stream",
        run: decode::run,
    },
    Bench {
        name: "long",
        about: "input cost of 500 turns with a prompt cache, beside a sliding window",
        run: long::run,
    },
    Bench { name: "html", about: "HTML to text: recall, precision, share of addresses", run: html::run },
    Bench { name: "binary", about: "the binary: start, memory, a turn", run: binary::run },
    Bench { name: "google-adk", about: "a turn of google-adk compared with ours", run: reference::run },
    Bench { name: "server/load", about: "our server and google-adk's, 64 clients", run: server::load },
    Bench {
        name: "server/full",
        about: "64 clients on full windows, beside new sessions and a minimal hyper + rusqlite server",
        run: server::full,
    },
    Bench {
        name: "server/scale",
        about: "our server: 10,000 readers, 1,000 runs at once, a million events",
        run: server::scale,
    },
];

/// The environment of a bench.
struct BenchEnv {
    /// Parent of the temporary directories. It is on the disk of the build directory, not in memory.
    files: PathBuf,
    /// The release binary.
    binary: Option<PathBuf>,
}

impl BenchEnv {
    /// Creates an empty directory that is removed when its handle is dropped.
    fn directory(&self) -> Result<TempDir> {
        fs::create_dir_all(&self.files)?;
        Ok(TempDir::new_in(&self.files)?)
    }
}

#[derive(Default)]
struct Args {
    files: Option<PathBuf>,
    binary: Option<PathBuf>,
    json: bool,
    list: bool,
    names: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    if words.next().is_some_and(|word| word == server::minimal::COMMAND) {
        return server::minimal::main(words);
    }
    let args = parse(std::env::args().skip(1))?;
    let benches = select(&args.names)?;
    if args.list {
        for bench in benches {
            println!("{:<12} {}", bench.name, bench.about);
        }
        return Ok(());
    }
    let env = BenchEnv { files: args.files.unwrap_or_else(std::env::temp_dir), binary: args.binary };
    let print = if args.json { print_json } else { print_table };
    print(&noise::measure("before", &env)?);
    for bench in benches {
        eprintln!("bench: {} ({})", bench.name, bench.about);
        print(&(bench.run)(&env)?);
    }
    print(&noise::measure("after", &env)?);
    Ok(())
}

fn parse(args: impl Iterator<Item = String>) -> Result<Args> {
    let mut parsed = Args::default();
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--files" => parsed.files = Some(args.next().ok_or("--files needs a directory")?.into()),
            "--binary" => parsed.binary = Some(args.next().ok_or("--binary needs a file")?.into()),
            "--json" => parsed.json = true,
            "--list" => parsed.list = true,
            flag if flag.starts_with('-') => {
                return Err(format!("bench takes `--json`, `--list` and names, not `{flag}`").into());
            }
            _ => parsed.names.push(arg),
        }
    }
    Ok(parsed)
}

/// Selects the benches whose name starts with one of `names`, or all benches if `names` is empty.
fn select(names: &[String]) -> Result<Vec<&'static Bench>> {
    if let Some(unknown) =
        names.iter().find(|name| !BENCHES.iter().any(|bench| bench.name.starts_with(*name)))
    {
        let known: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        return Err(format!("unknown bench `{unknown}`; known benches: {}", known.join(", ")).into());
    }
    let wanted = |bench: &&Bench| names.is_empty() || names.iter().any(|name| bench.name.starts_with(name));
    Ok(BENCHES.iter().filter(wanted).collect())
}

fn print_json(figures: &[Figure]) {
    for figure in figures {
        println!("{}", figure.json());
    }
}

fn print_table(figures: &[Figure]) {
    for figure in figures {
        println!("{}", figure.row());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Args> {
        parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn flags_and_names_are_accepted_in_any_order() {
        let args = parsed(&["tail", "--json", "--files", "x", "append"]).unwrap();
        assert!(args.json);
        assert_eq!(args.names, ["tail", "append"]);
        assert_eq!(args.files, Some(PathBuf::from("x")));
    }

    #[test]
    fn unknown_flags_and_benches_are_refused() {
        assert!(parsed(&["--fast"]).is_err());
        assert!(parsed(&["--files"]).is_err());
        assert!(select(&["no such bench".to_owned()]).is_err());
    }
}

//! The token estimate, compared with the tokenizer that it replaces.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap fails the test at its line")]
#![expect(clippy::print_stdout, reason = "prints its figures also on success")]

use std::{fmt::Write as _, fs, path::Path, sync::LazyLock};

use bridge::view::tokens::estimate;
use proptest::prelude::*;
use tiktoken_rs::CoreBPE;

static REAL: LazyLock<CoreBPE> =
    LazyLock::new(|| tiktoken_rs::o200k_base().expect("the vocabulary is in the crate"));

/// Maximum error in per cent, for a whole corpus and for a slice.
const CORPUS: f64 = 15.0;
const SLICE: f64 = 25.0;
const SLICE_BYTES: usize = 2048;
/// Languages and data without a promised accuracy.
const OTHER: f64 = 35.0;

fn corpora(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// The error of the estimate, in per cent of the real count.
fn error(text: &str) -> f64 {
    let real = f64::from(u32::try_from(REAL.encode_ordinary(text).len()).unwrap());
    (f64::from(estimate(text)) / real - 1.0) * 100.0
}

fn slices(text: &str) -> Vec<&str> {
    let mut slices = Vec::new();
    let mut rest = text;
    while rest.len() > SLICE_BYTES {
        let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
        slices.push(slice);
        rest = after;
    }
    // A remainder of a few words would be too small to measure.
    if rest.len() > SLICE_BYTES / 2 {
        slices.push(rest);
    }
    slices
}

/// Checks every corpus of a folder; the message contains all figures, so that one failure shows them all.
fn check_corpus(folder: &str, names: &[&str], corpus_limit: f64, slice_limit: f64) {
    let (mut report, mut failed) = (String::new(), false);
    let corpora = corpora(folder);
    assert_eq!(corpora.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
    for (name, text) in &corpora {
        let whole = error(text);
        let worst = slices(text)
            .into_iter()
            .map(error)
            .fold(0.0, |worst: f64, off| if off.abs() > worst.abs() { off } else { worst });
        failed |= whole.abs() > corpus_limit || worst.abs() > slice_limit;
        writeln!(report, "{name:20} {whole:+6.1} %   worst slice {worst:+6.1} %").unwrap();
    }
    println!("{folder}\n{report}");
    assert!(
        !failed,
        "{folder}: a corpus is off by more than {corpus_limit} %, or a slice by more than {slice_limit} %\n{report}"
    );
}

const PROMISED: [&str; 6] = ["chinese", "code", "english", "japanese", "json", "korean"];

#[test]
fn estimate_is_within_15_per_cent_on_held_out_texts() {
    check_corpus("held-out", &PROMISED, CORPUS, SLICE);
}

#[test]
fn estimate_is_within_its_limits_on_tuning_texts() {
    check_corpus("tune", &PROMISED, CORPUS, SLICE);
}

#[test]
fn estimate_is_bounded_on_other_languages_and_encoded_data() {
    let names = [
        "arabic",
        "base64",
        "emoji",
        "french",
        "german",
        "greek",
        "hebrew",
        "hex",
        "hindi",
        "minified_js",
        "polish",
        "russian",
        "tables_and_logs",
        "thai",
        "traditional_chinese",
        "vietnamese",
    ];
    check_corpus("other", &names, OTHER, OTHER);
}

#[test]
fn corpora_are_large_enough() {
    for (name, text) in corpora("tune").into_iter().chain(corpora("held-out")) {
        assert!(text.len() >= 6_000, "{name} has only {} bytes", text.len());
    }
}

#[test]
fn estimates_of_short_texts() {
    for text in ["a", "ok", "Hello!", "yes, please", "\n", "42", "  ", "你好", "{}", "it's", "👍"] {
        let real = REAL.encode_ordinary(text).len().cast_signed();
        assert!(
            (i64::from(estimate(text)) - real as i64).abs() <= 1,
            "{text:?}: {real}, not {}",
            estimate(text)
        );
    }
    assert_eq!(estimate(""), 0);
}

#[test]
fn long_runs_of_one_character_are_few_tokens() {
    for (character, limit) in [(" ", 60), ("\n", 250), ("=", 60), ("-", 60), ("1", 1100)] {
        let count = estimate(&character.repeat(3000));
        assert!(count > 10 && count < limit, "{character:?}: {count}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn estimate_is_at_least_one_token_and_at_most_one_per_byte(text in "\\PC*|[ -~\n\t]*|(\\s|[a-z'A-Z。、あ漢한é🦀])*") {
        let count = estimate(&text) as usize;
        prop_assert!(count <= text.len());
        prop_assert_eq!(count == 0, text.is_empty());
    }

    /// Budgets add up parts: splitting a text must not change its cost much.
    #[test]
    fn estimates_of_parts_add_up_to_about_the_whole(parts in prop::collection::vec("[ -~\n]{0,40}|[あ-ん漢字한국어é。 ]{0,12}", 1..20)) {
        let whole = estimate(&parts.concat());
        let apart: u32 = parts.iter().map(|part| estimate(part)).sum();
        let seams = u32::try_from(parts.len()).unwrap() * 4;
        prop_assert!(whole <= apart + seams && apart <= whole + seams, "whole {}, apart {}", whole, apart);
    }
}

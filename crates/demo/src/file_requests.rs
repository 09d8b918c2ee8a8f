//! Requests about files: read, list, search or find, and the path or pattern they concern.

use crate::input_words::{self, InputWord};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FileRequest {
    Read {
        path: String,
        aspect: FileAspect,
    },
    List {
        path: String,
        count: bool,
    },
    Search {
        pattern: String,
        path: Option<String>,
        count: bool,
    },
    /// Whether a file exists.
    Find {
        name: String,
    },
}

/// The part of a file that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAspect {
    Content,
    FirstLine,
    LastLine,
    Lines,
    Words,
    Summary,
}

pub(crate) fn find_requests(words: &[InputWord]) -> Vec<FileRequest> {
    let paths = find_paths(words);
    if let Some(search) = search_request(words, &paths) {
        return vec![search];
    }
    if let Some(name) = find_file_name(words, &paths) {
        return vec![FileRequest::Find { name }];
    }
    let files: Vec<&String> = paths.iter().filter(|path| !is_folder(words, path)).collect();
    if !files.is_empty() {
        let aspect = requested_aspect(words);
        return files.into_iter().map(|path| FileRequest::Read { path: path.clone(), aspect }).collect();
    }
    list_request(words, &paths).into_iter().collect()
}

/// All words that look like a file or a folder.
fn find_paths(words: &[InputWord]) -> Vec<String> {
    let named = words.iter().enumerate().filter_map(|(at, word)| {
        let folder_follows = words.get(at + 1).is_some_and(|next| next.is_any("folder|directory|dir"));
        let file_follows = words.get(at + 1).is_some_and(|next| next.key == "file");
        let folder_before = at > 0 && words[at - 1].is_any("folder|directory|dir");
        let plain = !is_filler(word) && word.key.starts_with(char::is_alphanumeric);
        let is_path = looks_like_path(word)
            || ((folder_follows || folder_before) && plain)
            || (file_follows && plain && word.quoted);
        is_path.then(|| well_known(word).unwrap_or_else(|| word.text.clone()))
    });
    let mut paths: Vec<String> = Vec::new();
    for path in named {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

fn looks_like_path(word: &InputWord) -> bool {
    if well_known(word).is_some() {
        return true;
    }
    let text = &word.text;
    let folder = text.contains('/') && !text.contains("//") && text.chars().any(char::is_alphabetic);
    let file = text.rsplit_once('.').is_some_and(|(stem, ending)| {
        (1..=5).contains(&ending.len())
            && ending.chars().all(char::is_alphanumeric)
            && ending.chars().any(char::is_alphabetic)
            && !stem.ends_with(['.', ' '])
            && !matches!(word.key.as_str(), "e.g" | "i.e" | "a.m" | "p.m")
    });
    (folder || file) && (word.quoted || !text.contains(' '))
}

/// Files that are named without their extension.
fn well_known(word: &InputWord) -> Option<String> {
    let name = match word.key.as_str() {
        "readme" => "README.md",
        "changelog" => "CHANGELOG.md",
        "license" | "licence" => "LICENSE",
        "makefile" => "Makefile",
        "dockerfile" => "Dockerfile",
        ".gitignore" => ".gitignore",
        _ => return None,
    };
    Some(name.to_owned())
}

fn is_folder(words: &[InputWord], path: &str) -> bool {
    let named = words.iter().position(|word| word.text == *path);
    let called = |at: usize| words.get(at).is_some_and(|word| word.is_any("folder|directory|dir"));
    let listed =
        input_words::has_any_phrase(words, "files in|files under|files are in|list|ls|contents of directory");
    path.ends_with('/')
        || path.chars().all(|c| matches!(c, '.' | '/'))
        || named.is_some_and(|at| called(at + 1) || (at > 0 && called(at - 1)))
        || (listed && !path.rsplit('/').next().is_some_and(|name| name.contains('.')))
}

/// A follow-up about a file that was named before: «open it», «how many lines does it have».
pub(crate) fn follow_up(words: &[InputWord], path: &str) -> Option<FileRequest> {
    let aspect = requested_aspect(words);
    let named = input_words::has_any_phrase(words, "it|that file|the file|this file|that");
    let opened =
        words.len() <= 6 && input_words::has_any_phrase(words, "read|open|show|cat|print|display|view");
    let counted = matches!(
        aspect,
        FileAspect::Lines | FileAspect::Words | FileAspect::FirstLine | FileAspect::LastLine
    );
    ((named && opened) || (counted && words.len() <= 8))
        .then(|| FileRequest::Read { path: path.to_owned(), aspect })
}

fn requested_aspect(words: &[InputWord]) -> FileAspect {
    let has = |phrases: &str| input_words::has_any_phrase(words, phrases);
    if has("\
        how many lines|number of lines|line count|count lines|count the lines|how long is|lines does|\
        lines are|how many rows")
    {
        FileAspect::Lines
    } else if has("how many words|number of words|word count|count words|count the words") {
        FileAspect::Words
    } else if has("first line|beginning of|begin|top of|title of|headline") {
        FileAspect::FirstLine
    } else if has("last line|end of") {
        FileAspect::LastLine
    } else if has("summarize|summarise|summary|about|explain|gist") {
        FileAspect::Summary
    } else {
        FileAspect::Content
    }
}

fn list_request(words: &[InputWord], paths: &[String]) -> Option<FileRequest> {
    let about_files = words
        .iter()
        .any(|word| word.is_any("files|file|folder|folders|directory|directories|dir|workspace|documents"));
    let asks = words.first().is_some_and(|word| word.is_any("ls|dir|list"))
        || input_words::has_any_phrase(
            words,
            "\
                ls|list|show|what|which|how many|see|any|there|contents|count|number|give|display|\
                tell|look|have",
        );
    let whole_folder = input_words::has_any_phrase(
        words,
        "\
            what is here|what is in here|list everything|list all|what is around|list contents|\
            list the contents",
    );
    let bare = words[0].key == "ls" || (words.len() == 1 && words[0].is_any("dir|files"));
    let folder_given = words.first().is_some_and(|word| word.is_any("ls|list|dir")) && !paths.is_empty();
    if !(about_files && asks || whole_folder || bare || folder_given) {
        return None;
    }
    let folder = paths.first().cloned().or_else(|| folder_name(words)).unwrap_or_else(|| ".".to_owned());
    Some(FileRequest::List {
        path: folder,
        count: input_words::has_any_phrase(words, "how many|count|number of"),
    })
}

/// A folder with a plain name: «files in src».
fn folder_name(words: &[InputWord]) -> Option<String> {
    let at = words.iter().rposition(|word| word.is_any("in|under|inside|within|of"))?;
    let name =
        words[at + 1..].iter().find(|word| !word.is_any("the|my|our|folder|directory|dir|called|named"))?;
    (!is_filler(name) || name.quoted).then(|| name.text.clone())
}

/// Words that name no file, such as articles and pronouns.
fn is_filler(word: &InputWord) -> bool {
    const SMALL: &str = "\
        the|this|that|these|my|our|your|a|an|it|here|there|current|working|workspace|project|repo|\
        repository|folder|directory|dir|root|total|all|any|me|you|us|which|what|please|file|files|\
        code|everything|every|in|is|are|now|for|of|to|same|one|each|and|codebase|place|somewhere|\
        other|top|list|ls|show|contain|contains|have|has|do|does|and|there";
    SMALL.split('|').any(|small| small == word.key)
}

fn search_request(words: &[InputWord], paths: &[String]) -> Option<FileRequest> {
    let quoted = words.iter().find(|word| word.quoted && !looks_like_path(word));
    let count = input_words::has_any_phrase(words, "how many times|how often|count|how many");
    let verb = words.iter().position(|word| word.is_any("search|grep|look|find|searching|locate"));
    let whole = SEARCH_PHRASES.split('|').find_map(|phrase| input_words::find_phrase(words, phrase));
    let from = match (verb, whole) {
        (_, Some(end)) => end,
        (Some(at), None) if words[at].is("look") => {
            input_words::find_phrase(words, "look for").or(input_words::find_phrase(words, "look up"))?
        }
        (Some(at), None) => input_words::find_phrase(&words[at..], "for").map_or(at + 1, |skip| at + skip),
        (None, None) => return None,
    };
    let names_a_file = words.iter().any(|word| word.is_any("file|called|named")) || paths.len() == 1;
    if quoted.is_none()
        && whole.is_none()
        && verb.is_some_and(|at| words[at].is_any("find|locate"))
        && names_a_file
        && input_words::find_phrase(words, "for").is_none()
    {
        return None;
    }
    let (subject, folder) = search_subject(&words[from.min(words.len())..]);
    let pattern = quoted.map(|word| word.text.clone()).or(subject)?;
    // «where is notes.txt» asks for the file, not for its name inside other files.
    if quoted.is_none() && paths.contains(&pattern) {
        return None;
    }
    let is_elsewhere = |path: &&String| !path.to_lowercase().starts_with(&pattern.to_lowercase());
    let path = folder.or_else(|| paths.iter().find(is_elsewhere).cloned());
    Some(FileRequest::Search { pattern, path, count })
}

/// Phrases that introduce a search without a verb like «search».
const SEARCH_PHRASES: &str = "\
    reference|refer to|files include|file includes|file defines|files define|file uses|files use|\
    file declares|file implements|file has|files have|where is|where are|where do we use|\
    where do i use|where does|where did|contain|contains|containing|mention|mentions|mentioning|\
    mentioned|occurrences of|references to|reference to|uses of|usages of|appearances of|\
    does the word|does the text|times does|often does|is there any";

/// The pattern and the folder after the verb: «the word foo in src».
fn search_subject(words: &[InputWord]) -> (Option<String>, Option<String>) {
    const LEAD: &str = "\
        the|word|words|text|string|term|phrase|pattern|a|an|any|all|files|file|with|function|me|us|\
        please|every|containing|that|lines|of|mention|occurrences|occurrence|where|something|anything|about|-r|-i|-n|-rn";
    const TAIL: &str = "\
        defined|used|mentioned|declared|located|found|implemented|please|appear|occur|appears|occurs|\
        anywhere|somewhere|to|come|is|are|gets";
    let start = words.iter().position(|word| word.quoted || !word.is_any(LEAD)).unwrap_or(words.len());
    let rest = &words[start..];
    let place = rest.iter().skip(1).position(|word| word.is_any("in|inside|within|under")).map(|at| at + 1);
    // «grep TODO src» has no preposition in front of the folder.
    let grepped = rest.len() == 2 && words.first().is_some_and(|word| word.key.starts_with('-'));
    let (what, place) = rest.split_at(place.unwrap_or(if grepped { 1 } else { rest.len() }));
    let place = place
        .iter()
        .skip(usize::from(!grepped))
        .find(|word| !is_filler(word))
        .map(|word| well_known(word).unwrap_or_else(|| word.text.clone()));
    let end = what.iter().rposition(|word| !word.is_any(TAIL)).map_or(0, |at| at + 1);
    let what = input_words::join_text(&what[..end]);
    ((!what.is_empty()).then_some(what), place)
}

/// «is there a notes.txt», «find the file notes.txt», «does notes.txt exist»
fn find_file_name(words: &[InputWord], paths: &[String]) -> Option<String> {
    let asks = input_words::has_any_phrase(
        words,
        "is there|are there|exist|exists|do we have|do i have|have a file|find|locate|where is",
    );
    let counts =
        input_words::has_any_phrase(words, "how many|number of|line|lines|words|anything in|something in");
    let kinds = [
        ("markdown", ".md"),
        ("rust", ".rs"),
        ("python", ".py"),
        ("text", ".txt"),
        ("json", ".json"),
        ("yaml", ".yaml"),
        ("toml", ".toml"),
        ("html", ".html"),
    ];
    let kind = kinds.iter().find(|(kind, _)| {
        input_words::has_phrase(words, &format!("{kind} files"))
            || input_words::has_phrase(words, &format!("{kind} file"))
    });
    let named = words.iter().position(|word| word.is_any("named|called")).and_then(|at| words.get(at + 1));
    match paths {
        [] if named.is_some() && input_words::has_any_phrase(words, "file|files") => {
            named.map(|word| word.text.clone())
        }
        [] if input_words::has_any_phrase(words, "any|list|show|find|which|what|is there") => {
            kind.map(|(_, ending)| (*ending).to_owned())
        }
        [path] if asks && !counts && !is_folder(words, path) => Some(path.clone()),
        _ => None,
    }
}

//! Replaces the terms of a query that no document has by prefixes that some documents have.

use super::segment::{self, QueryTerm};

/// A shorter term is the prefix of too many others.
const MIN_PREFIX_BYTES: usize = 3;

/// The terms of a query that `find` finds documents for, with these documents.
///
/// A word that no document has becomes a prefix: `code` finds `codes`. Of a bigram that no document has, each character becomes
/// one, unless another bigram with it is found: `猫密码` finds `猫的密码`.
pub(crate) fn resolved<T, E>(
    terms: &[QueryTerm],
    mut find: impl FnMut(&QueryTerm) -> Result<Option<T>, E>,
) -> Result<Vec<(QueryTerm, T)>, E> {
    let mut found: Vec<(QueryTerm, T)> = Vec::new();
    let mut absent = Vec::new();
    for term in terms {
        match find(term)? {
            Some(documents) => found.push((term.clone(), documents)),
            None if !term.is_prefix => absent.push(term),
            None => {}
        }
    }
    for term in absent {
        for prefix in prefixes(term) {
            let is_covered = |(known, _): &(QueryTerm, T)| known.text.contains(&prefix.text);
            if found.iter().any(is_covered) {
                continue;
            }
            if let Some(documents) = find(&prefix)? {
                found.push((prefix, documents));
            }
        }
    }
    Ok(found)
}

fn prefixes(term: &QueryTerm) -> Vec<QueryTerm> {
    let prefix = |text: String| QueryTerm { text, is_prefix: true, word: term.word };
    if term.text.starts_with(segment::is_dense) {
        return term.text.chars().map(|char| prefix(char.to_string())).collect();
    }
    if term.text.len() < MIN_PREFIX_BYTES {
        return Vec::new();
    }
    vec![prefix(term.text.clone())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// The terms that a query becomes for documents with these terms.
    fn query(text: &str, documents: &[&str]) -> String {
        let matches = |term: &QueryTerm, known: &str| {
            if term.is_prefix { known.starts_with(&term.text) } else { known == term.text }
        };
        let find = |term: &QueryTerm| -> Result<Option<()>, Infallible> {
            Ok(documents.iter().any(|known| matches(term, known)).then_some(()))
        };
        let Ok(terms) = resolved(&segment::query_terms(text), find);
        let shown =
            |(term, ()): &(QueryTerm, ())| format!("{}{}", term.text, if term.is_prefix { "*" } else { "" });
        terms.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_absent_word_becomes_a_prefix() {
        assert_eq!(query("locker code", &["locker", "codes"]), "locker code*");
        assert_eq!(query("is it", &["island", "it"]), "it", "too short");
        assert_eq!(query("nothing", &["something"]), "");
    }

    #[test]
    fn characters_of_an_absent_bigram_are_found_alone() {
        assert_eq!(query("猫密码", &["猫的", "密码", "密"]), "密码 猫*");
        assert_eq!(query("密码猫", &["密码", "猫"]), "密码 猫*");
        assert_eq!(query("车库密码", &["车库", "密码"]), "车库 密码", "both characters are found");
        assert_eq!(query("猫密码", &["猫密", "密码", "猫的"]), "猫密 密码");
        assert_eq!(query("猫", &["猫的"]), "猫*");
    }
}

//! Unit conversions by one multiplication: «how many seconds are in an hour», «3 km in metres».

use crate::{arithmetic::ArithmeticToken, input_words::InputWord, lexer};

/// Units of one dimension, each with its size in the smallest unit.
const DIMENSIONS: [&[(&str, u64)]; 3] = [
    &[("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 604_800)],
    &[
        ("mm", 1),
        ("millimeter", 1),
        ("millimetre", 1),
        ("cm", 10),
        ("centimeter", 10),
        ("centimetre", 10),
        ("m", 1000),
        ("meter", 1000),
        ("metre", 1000),
        ("km", 1_000_000),
        ("kilometer", 1_000_000),
        ("kilometre", 1_000_000),
    ],
    &[
        ("gram", 1),
        ("g", 1),
        ("kg", 1000),
        ("kilo", 1000),
        ("kilogram", 1000),
        ("ton", 1_000_000),
        ("tonne", 1_000_000),
    ],
];

pub(crate) fn find_conversion(words: &[InputWord]) -> Option<String> {
    DIMENSIONS.iter().find_map(|units| conversion_in(words, units))
}

/// «3 boxes with 12 apples each»
pub(crate) fn find_each_product(words: &[InputWord]) -> Option<String> {
    let each = words.iter().any(|word| word.is_any("each|apiece"));
    let numbers: Vec<String> = lexer::tokenize(words)
        .into_iter()
        .filter_map(
            |(token, _)| if let ArithmeticToken::Number(digits) = token { Some(digits) } else { None },
        )
        .collect();
    match numbers.as_slice() {
        [count, size] if each => Some(format!("{count} * {size}")),
        _ => None,
    }
}

fn conversion_in(words: &[InputWord], units: &[(&str, u64)]) -> Option<String> {
    let size = |word: &InputWord| {
        let key = word.key.strip_suffix('s').filter(|key| key.len() > 1).unwrap_or(&word.key);
        units.iter().find(|(name, _)| *name == key).map(|(_, size)| *size)
    };
    let named: Vec<(usize, u64)> =
        words.iter().enumerate().filter_map(|(at, word)| Some((at, size(word)?))).collect();
    let [(first, first_size), (second, second_size)] = named.as_slice() else { return None };
    let target_first = words[..*first].iter().any(|word| word.is("many"));
    let between = &words[first + 1..*second];
    let linked = between.iter().any(|word| word.is_any("in|to|into|has|have|does"));
    if !linked || first_size == second_size {
        return None;
    }
    let (from, to, amount) = if target_first {
        (*second_size, *first_size, amount(between)?)
    } else {
        (*first_size, *second_size, amount(&words[..*first])?)
    };
    Some(if from > to { format!("{amount} * {}", from / to) } else { format!("{amount} / {}", to / from) })
}

/// The number in front of a unit; «an hour» counts as 1.
fn amount(words: &[InputWord]) -> Option<String> {
    let article =
        words.last().is_some_and(|word| matches!(word.key.as_str(), "a" | "an" | "one" | "in" | "does"));
    let last = lexer::tokenize(words).into_iter().next_back().map(|(token, _)| token);
    match last {
        Some(ArithmeticToken::Number(digits)) => Some(digits),
        Some(_) | None => article.then(|| "1".to_owned()),
    }
}

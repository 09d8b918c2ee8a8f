//! Splits words into arithmetic tokens.

use crate::{
    arithmetic::{ArithmeticToken, LinkWord, PrefixForm},
    input_words::InputWord,
    number_words,
};

/// Tokens, each with the index of its first word.
pub(crate) fn tokenize(words: &[InputWord]) -> Vec<(ArithmeticToken, usize)> {
    let fragments: Vec<(String, usize)> = words
        .iter()
        .enumerate()
        .flat_map(|(at, word)| split_word(word).into_iter().map(move |fragment| (fragment, at)))
        .collect();
    let texts: Vec<&str> = fragments.iter().map(|(fragment, _)| fragment.as_str()).collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < texts.len() {
        let (token, used) = next_token(&texts[at..]);
        tokens.extend(token.map(|token| (token, fragments[at].1)));
        at += used;
    }
    tokens
}

/// The maximum length of a word that is split.
const MAX_WORD_LEN: usize = 200;

/// Splits a word into numbers, names and signs if all of them are arithmetic; otherwise the word stays intact.
fn split_word(word: &InputWord) -> Vec<String> {
    // A lone sign consists of punctuation only.
    let intact = vec![if word.key.is_empty() { word.raw.clone() } else { word.key.clone() }];
    if word.quoted || word.raw.is_empty() || word.raw.len() > MAX_WORD_LEN {
        return if word.quoted { vec!["\"".to_owned()] } else { intact };
    }
    let raw = word.raw.to_lowercase();
    let raw = raw.trim_end_matches(['?', '!', '.', ';', ':', '=', '…']).trim_start_matches(['$', '€', '£']);
    if parse_number(raw).is_some() {
        return vec![raw.to_owned()];
    }
    let mut fragments: Vec<String> = Vec::new();
    for c in raw.chars() {
        let joins = fragments.last().is_some_and(|last| {
            let last = last.chars().next_back().unwrap_or(' ');
            (is_number_char(last) && is_number_char(c)) || (last.is_alphabetic() && c.is_alphabetic())
        });
        match fragments.last_mut() {
            Some(last) if joins => last.push(c),
            Some(last) if last == "*" && c == '*' => "^".clone_into(last),
            Some(_) | None => fragments.push(c.to_string()),
        }
    }
    let arithmetic = fragments.iter().all(|fragment| is_arithmetic(fragment)) && !is_date(raw);
    // In «twenty-one» and «sqrt(2)» the names count; a lone name is not split.
    if arithmetic && fragments.len() > 1 {
        if fragments.iter().all(|fragment| fragment == "-" || fragment.chars().all(char::is_alphabetic)) {
            fragments.retain(|fragment| fragment != "-");
        }
        fragments
    } else {
        intact
    }
}

fn is_number_char(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | ',')
}

fn is_date(raw: &str) -> bool {
    let fields: Vec<&str> = raw.split(['-', '/']).collect();
    fields.len() == 3
        && fields.iter().all(|field| field.parse::<u32>().is_ok())
        && fields.iter().any(|f| f.len() == 4)
}

fn is_arithmetic(fragment: &str) -> bool {
    parse_number(fragment).is_some()
        || fragment == ","
        || fragment == "$"
        || number_words::parse_number_words(&[fragment]).is_some()
        || matches!(next_token(&[fragment]).0, Some(token) if token != ArithmeticToken::Other && !matches!(token, ArithmeticToken::Link(_)))
}

/// Digits without thousands separators.
fn parse_number(fragment: &str) -> Option<String> {
    let digits = fragment.trim_matches(',').replace(',', "");
    let digits = digits.strip_suffix('.').unwrap_or(&digits);
    let well_formed =
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && digits.parse::<f64>().is_ok();
    well_formed.then(|| if digits.starts_with('.') { format!("0{digits}") } else { digits.to_owned() })
}

/// The token at the start, and the number of fragments it consumes. Filler words yield none.
fn next_token(texts: &[&str]) -> (Option<ArithmeticToken>, usize) {
    let first = texts[0];
    let ordinal =
        ["st", "nd", "rd", "th"].iter().find_map(|tail| first.strip_suffix(tail)).and_then(parse_number);
    // «2 to the 8th», but not «add 2 to the result».
    if texts.len() > 2 && texts[..2] == ["to", "the"] && texts[2].starts_with(|c: char| c.is_ascii_digit()) {
        return (Some(ArithmeticToken::Sign('^')), 2);
    }
    if let Some(digits) = parse_number(first).or(ordinal) {
        return match texts.get(1).and_then(|word| number_words::scale(word)) {
            Some(scale) => (Some(ArithmeticToken::Number(format!("({digits} * {scale})"))), 2),
            None => (Some(ArithmeticToken::Number(digits)), 1),
        };
    }
    if let Some((digits, used)) = number_words::parse_number_words(texts) {
        return (Some(ArithmeticToken::Number(digits)), used);
    }
    let phrases =
        OPERATOR_PHRASES.iter().map(|(phrase, token)| (phrase.split(' ').collect::<Vec<_>>(), token));
    let longest =
        phrases.filter(|(phrase, _)| texts.starts_with(phrase)).max_by_key(|(phrase, _)| phrase.len());
    if let Some((phrase, token)) = longest {
        return (Some(token.clone()), phrase.len());
    }
    if let Some(denominator) = number_words::denominator(first) {
        return (Some(ArithmeticToken::Part(denominator)), 1);
    }
    // Articles and separators yield no token.
    let is_filler =
        matches!(first, "the" | "a" | "an" | "," | "$" | "up" | "away" | "numbers" | "number" | "please");
    ((!is_filler).then_some(ArithmeticToken::Other), 1)
}

const OPERATOR_PHRASES: &[(&str, ArithmeticToken)] = &[
    ("+", ArithmeticToken::Sign('+')),
    ("plus", ArithmeticToken::Sign('+')),
    ("added to", ArithmeticToken::Sign('+')),
    ("-", ArithmeticToken::Sign('-')),
    ("−", ArithmeticToken::Sign('-')),
    ("–", ArithmeticToken::Sign('-')),
    ("minus", ArithmeticToken::Sign('-')),
    ("less", ArithmeticToken::Sign('-')),
    ("negative", ArithmeticToken::Sign('-')),
    ("*", ArithmeticToken::Sign('*')),
    ("x", ArithmeticToken::Sign('*')),
    ("×", ArithmeticToken::Sign('*')),
    ("·", ArithmeticToken::Sign('*')),
    ("times", ArithmeticToken::Sign('*')),
    ("tims", ArithmeticToken::Sign('*')),
    ("multiplied by", ArithmeticToken::Sign('*')),
    ("multiplied with", ArithmeticToken::Sign('*')),
    ("/", ArithmeticToken::Sign('/')),
    ("÷", ArithmeticToken::Sign('/')),
    ("over", ArithmeticToken::Sign('/')),
    ("divided by", ArithmeticToken::Sign('/')),
    ("devided by", ArithmeticToken::Sign('/')),
    ("divided with", ArithmeticToken::Sign('/')),
    ("mod", ArithmeticToken::Sign('%')),
    ("modulo", ArithmeticToken::Sign('%')),
    ("^", ArithmeticToken::Sign('^')),
    ("to the power of", ArithmeticToken::Sign('^')),
    ("to the power", ArithmeticToken::Sign('^')),
    ("to power", ArithmeticToken::Sign('^')),
    ("raised to", ArithmeticToken::Sign('^')),
    ("raised to the power of", ArithmeticToken::Sign('^')),
    ("raised to the", ArithmeticToken::Sign('^')),
    ("squared", ArithmeticToken::Squared),
    ("²", ArithmeticToken::Squared),
    ("cubed", ArithmeticToken::Cubed),
    ("³", ArithmeticToken::Cubed),
    ("%", ArithmeticToken::Percent),
    ("percent", ArithmeticToken::Percent),
    ("per cent", ArithmeticToken::Percent),
    ("percentage", ArithmeticToken::Percent),
    ("(", ArithmeticToken::Open),
    (")", ArithmeticToken::Close),
    ("double", ArithmeticToken::Times(2)),
    ("twice", ArithmeticToken::Times(2)),
    ("triple", ArithmeticToken::Times(3)),
    ("square root", ArithmeticToken::Form(PrefixForm::Root)),
    ("sqrt", ArithmeticToken::Form(PrefixForm::Root)),
    ("√", ArithmeticToken::Form(PrefixForm::Root)),
    ("sum", ArithmeticToken::Form(PrefixForm::Sum)),
    ("total", ArithmeticToken::Form(PrefixForm::Sum)),
    ("add", ArithmeticToken::Form(PrefixForm::Sum)),
    ("sum of", ArithmeticToken::Form(PrefixForm::Sum)),
    ("product", ArithmeticToken::Form(PrefixForm::Product)),
    ("average", ArithmeticToken::Form(PrefixForm::Average)),
    ("mean", ArithmeticToken::Form(PrefixForm::Average)),
    ("difference between", ArithmeticToken::Form(PrefixForm::Difference)),
    ("difference", ArithmeticToken::Form(PrefixForm::Difference)),
    ("square", ArithmeticToken::Form(PrefixForm::Square)),
    ("cube", ArithmeticToken::Form(PrefixForm::Cube)),
    ("more than", ArithmeticToken::Sign('+')),
    ("less than", ArithmeticToken::Form(PrefixForm::LessThan)),
    ("subtract", ArithmeticToken::Form(PrefixForm::Subtract)),
    ("deduct", ArithmeticToken::Form(PrefixForm::Subtract)),
    ("take", ArithmeticToken::Form(PrefixForm::Subtract)),
    ("multiply", ArithmeticToken::Form(PrefixForm::Multiply)),
    ("divide", ArithmeticToken::Form(PrefixForm::Divide)),
    ("increase", ArithmeticToken::Form(PrefixForm::Increase)),
    ("decrease", ArithmeticToken::Form(PrefixForm::Decrease)),
    ("reduce", ArithmeticToken::Form(PrefixForm::Decrease)),
    ("remainder", ArithmeticToken::Form(PrefixForm::Remainder)),
    ("remainder when dividing", ArithmeticToken::Form(PrefixForm::Remainder)),
    ("of", ArithmeticToken::Link(LinkWord::Of)),
    ("and", ArithmeticToken::Link(LinkWord::And)),
    ("with", ArithmeticToken::Link(LinkWord::And)),
    ("to", ArithmeticToken::Link(LinkWord::To)),
    ("from", ArithmeticToken::Link(LinkWord::From)),
    ("by", ArithmeticToken::Link(LinkWord::By)),
    ("off", ArithmeticToken::Link(LinkWord::Off)),
    ("is", ArithmeticToken::Link(LinkWord::Is)),
    ("that", ArithmeticToken::Previous),
    ("it", ArithmeticToken::Previous),
    ("this", ArithmeticToken::Previous),
    ("result", ArithmeticToken::Previous),
    ("that result", ArithmeticToken::Previous),
    ("that number", ArithmeticToken::Previous),
    ("answer", ArithmeticToken::Previous),
];

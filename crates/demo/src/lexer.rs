//! Words to the tokens of arithmetic.

use crate::{
    arithmetic::{Form, Link, Token},
    numbers,
    words::Word,
};

/// Tokens, each with the index of the word that it began in.
pub(crate) fn tokens(words: &[Word]) -> Vec<(Token, usize)> {
    let pieces: Vec<(String, usize)> = words
        .iter()
        .enumerate()
        .flat_map(|(at, word)| pieces(word).into_iter().map(move |piece| (piece, at)))
        .collect();
    let texts: Vec<&str> = pieces.iter().map(|(piece, _)| piece.as_str()).collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < texts.len() {
        let (token, used) = token(&texts[at..]);
        tokens.extend(token.map(|token| (token, pieces[at].1)));
        at += used;
    }
    tokens
}

/// The longest word that is looked into.
const LONGEST: usize = 200;

/// A word is cut into numbers, names and signs, if all of them are arithmetic; else it stays whole.
fn pieces(word: &Word) -> Vec<String> {
    // A lone sign is all punctuation.
    let whole = vec![if word.key.is_empty() { word.raw.clone() } else { word.key.clone() }];
    if word.quoted || word.raw.is_empty() || word.raw.len() > LONGEST {
        return if word.quoted { vec!["\"".to_owned()] } else { whole };
    }
    let raw = word.raw.to_lowercase();
    let raw = raw.trim_end_matches(['?', '!', '.', ';', ':', '=', '…']).trim_start_matches(['$', '€', '£']);
    if number(raw).is_some() {
        return vec![raw.to_owned()];
    }
    let mut pieces: Vec<String> = Vec::new();
    for c in raw.chars() {
        let joins = pieces.last().is_some_and(|last| {
            let last = last.chars().next_back().unwrap_or(' ');
            (number_char(last) && number_char(c)) || (last.is_alphabetic() && c.is_alphabetic())
        });
        match pieces.last_mut() {
            Some(last) if joins => last.push(c),
            Some(last) if last == "*" && c == '*' => "^".clone_into(last),
            Some(_) | None => pieces.push(c.to_string()),
        }
    }
    let arithmetic = pieces.iter().all(|piece| is_arithmetic(piece)) && !is_date(raw);
    // In «twenty-one» and «sqrt(2)» the names count; a lone name is looked at as it is.
    if arithmetic && pieces.len() > 1 {
        if pieces.iter().all(|piece| piece == "-" || piece.chars().all(char::is_alphabetic)) {
            pieces.retain(|piece| piece != "-");
        }
        pieces
    } else {
        whole
    }
}

fn number_char(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | ',')
}

fn is_date(raw: &str) -> bool {
    let fields: Vec<&str> = raw.split(['-', '/']).collect();
    fields.len() == 3
        && fields.iter().all(|field| field.parse::<u32>().is_ok())
        && fields.iter().any(|f| f.len() == 4)
}

fn is_arithmetic(piece: &str) -> bool {
    number(piece).is_some()
        || piece == ","
        || piece == "$"
        || numbers::read(&[piece]).is_some()
        || matches!(token(&[piece]).0, Some(token) if token != Token::Other && !matches!(token, Token::Link(_)))
}

/// Digits without the commas of thousands.
fn number(piece: &str) -> Option<String> {
    let digits = piece.trim_matches(',').replace(',', "");
    let digits = digits.strip_suffix('.').unwrap_or(&digits);
    let well_formed =
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && digits.parse::<f64>().is_ok();
    well_formed.then(|| if digits.starts_with('.') { format!("0{digits}") } else { digits.to_owned() })
}

/// The token at the beginning, and how many pieces it takes. Filler words make none.
fn token(texts: &[&str]) -> (Option<Token>, usize) {
    let first = texts[0];
    let ordinal = ["st", "nd", "rd", "th"].iter().find_map(|tail| first.strip_suffix(tail)).and_then(number);
    // «2 to the 8th», but not «add 2 to the result».
    if texts.len() > 2 && texts[..2] == ["to", "the"] && texts[2].starts_with(|c: char| c.is_ascii_digit()) {
        return (Some(Token::Sign('^')), 2);
    }
    if let Some(digits) = number(first).or(ordinal) {
        return match texts.get(1).and_then(|word| numbers::scale(word)) {
            Some(scale) => (Some(Token::Number(format!("({digits} * {scale})"))), 2),
            None => (Some(Token::Number(digits)), 1),
        };
    }
    if let Some((digits, used)) = numbers::read(texts) {
        return (Some(Token::Number(digits)), used);
    }
    let phrases = PHRASES.iter().map(|(phrase, token)| (phrase.split(' ').collect::<Vec<_>>(), token));
    let longest =
        phrases.filter(|(phrase, _)| texts.starts_with(phrase)).max_by_key(|(phrase, _)| phrase.len());
    if let Some((phrase, token)) = longest {
        return (Some(token.clone()), phrase.len());
    }
    if let Some(denominator) = numbers::part(first) {
        return (Some(Token::Part(denominator)), 1);
    }
    // «the» and «a» say nothing here, and a comma only separates.
    let silent =
        matches!(first, "the" | "a" | "an" | "," | "$" | "up" | "away" | "numbers" | "number" | "please");
    ((!silent).then_some(Token::Other), 1)
}

const PHRASES: &[(&str, Token)] = &[
    ("+", Token::Sign('+')),
    ("plus", Token::Sign('+')),
    ("added to", Token::Sign('+')),
    ("-", Token::Sign('-')),
    ("−", Token::Sign('-')),
    ("–", Token::Sign('-')),
    ("minus", Token::Sign('-')),
    ("less", Token::Sign('-')),
    ("negative", Token::Sign('-')),
    ("*", Token::Sign('*')),
    ("x", Token::Sign('*')),
    ("×", Token::Sign('*')),
    ("·", Token::Sign('*')),
    ("times", Token::Sign('*')),
    ("tims", Token::Sign('*')),
    ("multiplied by", Token::Sign('*')),
    ("multiplied with", Token::Sign('*')),
    ("/", Token::Sign('/')),
    ("÷", Token::Sign('/')),
    ("over", Token::Sign('/')),
    ("divided by", Token::Sign('/')),
    ("devided by", Token::Sign('/')),
    ("divided with", Token::Sign('/')),
    ("mod", Token::Sign('%')),
    ("modulo", Token::Sign('%')),
    ("^", Token::Sign('^')),
    ("to the power of", Token::Sign('^')),
    ("to the power", Token::Sign('^')),
    ("to power", Token::Sign('^')),
    ("raised to", Token::Sign('^')),
    ("raised to the power of", Token::Sign('^')),
    ("raised to the", Token::Sign('^')),
    ("squared", Token::Squared),
    ("²", Token::Squared),
    ("cubed", Token::Cubed),
    ("³", Token::Cubed),
    ("%", Token::Percent),
    ("percent", Token::Percent),
    ("per cent", Token::Percent),
    ("percentage", Token::Percent),
    ("(", Token::Open),
    (")", Token::Close),
    ("double", Token::Times(2)),
    ("twice", Token::Times(2)),
    ("triple", Token::Times(3)),
    ("square root", Token::Form(Form::Root)),
    ("sqrt", Token::Form(Form::Root)),
    ("√", Token::Form(Form::Root)),
    ("sum", Token::Form(Form::Sum)),
    ("total", Token::Form(Form::Sum)),
    ("add", Token::Form(Form::Sum)),
    ("sum of", Token::Form(Form::Sum)),
    ("product", Token::Form(Form::Product)),
    ("average", Token::Form(Form::Average)),
    ("mean", Token::Form(Form::Average)),
    ("difference between", Token::Form(Form::Difference)),
    ("difference", Token::Form(Form::Difference)),
    ("square", Token::Form(Form::Square)),
    ("cube", Token::Form(Form::Cube)),
    ("more than", Token::Sign('+')),
    ("less than", Token::Form(Form::LessThan)),
    ("subtract", Token::Form(Form::Subtract)),
    ("deduct", Token::Form(Form::Subtract)),
    ("take", Token::Form(Form::Subtract)),
    ("multiply", Token::Form(Form::Multiply)),
    ("divide", Token::Form(Form::Divide)),
    ("increase", Token::Form(Form::Increase)),
    ("decrease", Token::Form(Form::Decrease)),
    ("reduce", Token::Form(Form::Decrease)),
    ("remainder", Token::Form(Form::Remainder)),
    ("remainder when dividing", Token::Form(Form::Remainder)),
    ("of", Token::Link(Link::Of)),
    ("and", Token::Link(Link::And)),
    ("with", Token::Link(Link::And)),
    ("to", Token::Link(Link::To)),
    ("from", Token::Link(Link::From)),
    ("by", Token::Link(Link::By)),
    ("off", Token::Link(Link::Off)),
    ("is", Token::Link(Link::Is)),
    ("that", Token::Previous),
    ("it", Token::Previous),
    ("this", Token::Previous),
    ("result", Token::Previous),
    ("that result", Token::Previous),
    ("that number", Token::Previous),
    ("answer", Token::Previous),
];

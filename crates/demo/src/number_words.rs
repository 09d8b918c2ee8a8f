//! Numbers in English words: «two hundred and five», «one point five», «a dozen», «2 million».

/// Parses a number at the start of the words. Returns its digits and the number of words.
pub(crate) fn parse_number_words(words: &[&str]) -> Option<(String, usize)> {
    let (mut total, mut group, mut used, mut at) = (0_u64, 0_u64, 0, 0);
    let mut last_scale = false;
    while let Some(word) = words.get(at) {
        if let Some(value) = below_hundred(word) {
            // «seven three» are two numbers; «twenty three» is one.
            if used > 0 && !last_scale && !(group % 100 >= 20 && group.is_multiple_of(10) && value < 10) {
                break;
            }
            group = group.checked_add(value)?;
            last_scale = false;
        } else if let Some(scale) = scale(word).filter(|_| used > 0 || is_article(words, at)) {
            group = group.max(1).checked_mul(scale)?;
            if scale >= 1000 {
                total = total.checked_add(group)?;
                group = 0;
            }
            last_scale = true;
        } else if is_filler(words, at, last_scale) {
            at += 1;
            continue;
        } else {
            break;
        }
        at += 1;
        used = at;
    }
    if used == 0 {
        return None;
    }
    let whole = (total + group).to_string();
    Some(match fraction(&words[used..]) {
        Some((digits, more)) => (format!("{whole}.{digits}"), used + more),
        None => (whole, used),
    })
}

/// The «and» of «two hundred and five», the «a» of «a dozen».
fn is_filler(words: &[&str], at: usize, after_scale: bool) -> bool {
    let next = words.get(at + 1);
    match words[at] {
        "and" => after_scale && next.is_some_and(|next| below_hundred(next).is_some()),
        "a" | "an" => at == 0 && next.is_some_and(|next| scale(next).is_some()),
        _ => false,
    }
}

fn is_article(words: &[&str], at: usize) -> bool {
    at > 0 && matches!(words[at - 1], "a" | "an")
}

/// «point five two»
fn fraction(words: &[&str]) -> Option<(String, usize)> {
    let (_, tail) = words.split_first().filter(|(first, _)| **first == "point")?;
    let digits: String = tail
        .iter()
        .map_while(|word| below_hundred(word).filter(|value| *value < 10))
        .map(|value| value.to_string())
        .collect();
    let used = digits.len() + 1;
    (!digits.is_empty()).then_some((digits, used))
}

/// A scale after digits: «2 million».
pub(crate) fn scale(word: &str) -> Option<u64> {
    match word {
        "dozen" => Some(12),
        "hundred" => Some(100),
        "thousand" => Some(1000),
        "million" => Some(1_000_000),
        "billion" => Some(1_000_000_000),
        _ => None,
    }
}

fn below_hundred(word: &str) -> Option<u64> {
    const ONES: &str = "\
        zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|\
        sixteen|seventeen|eighteen|nineteen";
    const TENS: &str = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety";
    let position =
        |list: &str| list.split('|').position(|name| name == word).and_then(|at| u64::try_from(at).ok());
    let spelled = match word {
        "fourty" => Some(40),
        "ninty" => Some(90),
        "fiveteen" => Some(15),
        _ => None,
    };
    position(ONES).or_else(|| position(TENS).map(|at| (at + 2) * 10)).or(spelled)
}

/// The denominator in «two thirds of».
pub(crate) fn denominator(word: &str) -> Option<u64> {
    match word {
        "half" | "halves" => Some(2),
        "third" | "thirds" => Some(3),
        "quarter" | "quarters" | "fourth" | "fourths" => Some(4),
        "fifth" | "fifths" => Some(5),
        "tenth" | "tenths" => Some(10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_words_are_parsed() {
        let parse = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            parse_number_words(&words).map(|(number, used)| format!("{number}/{used}"))
        };
        let table = [
            ("seventeen times", "17/1"),
            ("twenty one", "21/2"),
            ("two hundred and five plus", "205/4"),
            ("one point five two", "1.52/4"),
            ("a dozen", "12/2"),
            ("three thousand four hundred", "3400/4"),
            ("a hundred and ten", "110/4"),
            ("seven three", "7/1"),
            ("one million", "1000000/2"),
        ];
        for (text, number) in table {
            assert_eq!(parse(text).as_deref(), Some(number), "{text}");
        }
        assert_eq!(parse("a file"), None);
        assert_eq!(parse("hundred"), None);
    }
}

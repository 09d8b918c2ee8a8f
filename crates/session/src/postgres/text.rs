//! Text and integers as PostgreSQL stores them. Its text cannot contain U+0000, so that character is escaped.
//!
//! U+0000 is stored as U+0001 U+0001, and U+0001 as U+0001 U+0002. Other text is stored as it is. The encoding is injective
//! and preserves the order of code points.

use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

const ESCAPE: char = '\u{1}';

/// Text as a parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl ToSql for Text<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let mut rest = self.0;
        while let Some(at) = rest.find(['\0', ESCAPE]) {
            let (plain, escaped) = rest.split_at(at);
            out.extend_from_slice(plain.as_bytes());
            out.extend_from_slice(if escaped.starts_with('\0') { b"\x01\x01" } else { b"\x01\x02" });
            rest = &escaped[1..];
        }
        out.extend_from_slice(rest.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        <&str as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

/// Text of a row.
struct StoredText(String);

impl<'a> FromSql<'a> for StoredText {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(restored(<&str>::from_sql(ty, raw)?)))
    }

    fn accepts(ty: &Type) -> bool {
        <&str as FromSql>::accepts(ty)
    }
}

fn restored(stored: &str) -> String {
    let mut text = String::with_capacity(stored.len());
    let mut chars = stored.chars();
    while let Some(char) = chars.next() {
        let char = if char == ESCAPE && chars.next() == Some(ESCAPE) { '\0' } else { char };
        text.push(char);
    }
    text
}

pub(super) type RowResult<T> = Result<T, tokio_postgres::Error>;

pub(super) fn text(row: &Row, column: usize) -> RowResult<String> {
    row.try_get::<_, StoredText>(column).map(|text| text.0)
}

pub(super) fn optional_text(row: &Row, column: usize) -> RowResult<Option<String>> {
    row.try_get::<_, Option<StoredText>>(column).map(|text| text.map(|text| text.0))
}

/// A number that is never negative.
pub(super) fn number(row: &Row, column: usize) -> RowResult<u64> {
    row.try_get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}

pub(super) fn optional_number(row: &Row, column: usize) -> RowResult<Option<u64>> {
    let number = row.try_get::<_, Option<i64>>(column)?;
    Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
}

/// Clamped to the integers of PostgreSQL.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> String {
        let mut out = BytesMut::new();
        Text(text).to_sql(&Type::TEXT, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    const TEXTS: [&str; 9] = ["", "\0", "\0\0", "\0a", "\u{1}", "\u{1}\0", "\u{1}\u{1}", "\u{2}", "plain"];

    #[test]
    fn every_text_is_restored_and_stored_without_nul() {
        for text in TEXTS {
            assert!(!stored(text).contains('\0'));
            assert_eq!(restored(&stored(text)), text);
        }
    }

    #[test]
    fn the_encoding_preserves_the_order() {
        for one in TEXTS {
            for other in TEXTS {
                assert_eq!(one.cmp(other), stored(one).cmp(&stored(other)), "{one:?} {other:?}");
            }
        }
    }
}

//! `traceparent`, as W3C writes it: `00-<trace>-<span>-<flags>`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) sampled: bool,
}

/// `None` for what cannot be read; a later version may say more, behind what we know.
pub(super) fn read(text: &str) -> Option<Parent> {
    let mut pieces = text.split('-');
    let mut number = |length: usize| {
        let piece = pieces.next().filter(|piece| piece.len() == length)?;
        let is_plain = piece.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        u128::from_str_radix(piece, 16).ok().filter(|_| is_plain)
    };
    let (version, trace_id, span_id, flags) = (number(2)?, number(32)?, number(16)?, number(2)?);
    let is_whole = version != 0 || pieces.next().is_none();
    let is_sound = version != 0xff && trace_id != 0 && span_id != 0 && is_whole;
    let span_id = u64::try_from(span_id).ok()?;
    is_sound.then_some(Parent { trace_id, span_id, sampled: flags & 1 == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_its_standard_says() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = read(&format!("00-{trace}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!(
            (good.trace_id, good.span_id),
            (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)
        );
        assert!(good.sampled && !read(&format!("00-{trace}-00f067aa0ba902b7-00")).unwrap().sampled);
        assert!(read(&format!("01-{trace}-00f067aa0ba902b7-01-later")).is_some());
        for bad in [
            "",
            "00",
            "00-0-0-0",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

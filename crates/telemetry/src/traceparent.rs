//! The W3C header `traceparent`: `00-<trace>-<span>-<flags>`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteParent {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) sampled: bool,
}

/// `None` if the header is malformed. A later version may append fields.
pub(super) fn parse(text: &str) -> Option<RemoteParent> {
    let mut fields = text.split('-');
    let mut number = |length: usize| {
        let field = fields.next().filter(|field| field.len() == length)?;
        let is_lower_hex = field.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        u128::from_str_radix(field, 16).ok().filter(|_| is_lower_hex)
    };
    let (version, trace_id, span_id, flags) = (number(2)?, number(32)?, number(16)?, number(2)?);
    let has_no_more_fields = version != 0 || fields.next().is_none();
    let is_valid = version != 0xff && trace_id != 0 && span_id != 0 && has_no_more_fields;
    let span_id = u64::try_from(span_id).ok()?;
    is_valid.then_some(RemoteParent { trace_id, span_id, sampled: flags & 1 == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_parsed_by_the_w3c_rules() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = parse(&format!("00-{trace}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!(
            (good.trace_id, good.span_id),
            (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)
        );
        assert!(good.sampled && !parse(&format!("00-{trace}-00f067aa0ba902b7-00")).unwrap().sampled);
        assert!(parse(&format!("01-{trace}-00f067aa0ba902b7-01-later")).is_some());
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
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

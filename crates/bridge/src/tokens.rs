//! Placeholder until the estimate is written.
pub const COUNTED_BY: &str = "estimate-0";
pub fn estimate(text: &str) -> u32 {
    u32::try_from(text.len().div_ceil(4)).unwrap_or(u32::MAX)
}

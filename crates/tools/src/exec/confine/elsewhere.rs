//! Systems without Landlock.

use super::helper::Wish;

pub(super) fn restrict(_wish: &Wish) -> Result<u32, String> {
    Err("only Linux can confine commands".to_owned())
}

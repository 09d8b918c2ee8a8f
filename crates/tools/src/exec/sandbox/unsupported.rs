//! Fallback for systems without Landlock.

use super::helper::HelperArgs;

pub(super) fn restrict(_args: &HelperArgs) -> Result<u32, String> {
    Err("commands can be confined on Linux only".to_owned())
}

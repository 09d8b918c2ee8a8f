//! What the product is built with: nothing.

use crate::Point;
use std::{
    fmt,
    future::{Future, Ready, ready},
};

/// A failure that a test asked for. There is none.
#[derive(Clone, Copy, Debug)]
pub enum InjectedFault {}

impl InjectedFault {
    pub fn is_disk_full(self) -> bool {
        match self {}
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for InjectedFault {}

/// Execution reached a point where a call can fail.
#[inline]
pub fn reach(_: Point) -> Ready<Result<(), InjectedFault>> {
    ready(Ok(()))
}

/// The same as [`reach`], for code that blocks.
#[inline]
pub fn hit(_: Point) -> Result<(), InjectedFault> {
    Ok(())
}

/// Execution reached a point where nothing can fail.
#[inline]
pub fn pass(_: Point) -> Ready<()> {
    ready(())
}

/// The same as [`pass`], for code that blocks.
#[inline]
pub fn pass_blocking(_: Point) {}

/// Work with a point before it and one after it.
#[inline]
pub fn around<T, E: From<InjectedFault>, W: Future<Output = Result<T, E>>>(_: [Point; 2], work: W) -> W {
    work
}

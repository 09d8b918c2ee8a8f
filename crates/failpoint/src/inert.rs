//! The empty implementation, for builds without the feature `enabled`.

use crate::Point;
use std::{
    fmt,
    future::{Future, Ready, ready},
};

/// An injected failure. It has no value in this build.
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

/// Marks a point in async code where a call can fail.
#[inline]
pub fn reach(_: Point) -> Ready<Result<(), InjectedFault>> {
    ready(Ok(()))
}

/// Like [`reach`], for blocking code.
#[inline]
pub fn hit(_: Point) -> Result<(), InjectedFault> {
    Ok(())
}

/// Marks a point in async code where nothing can fail.
#[inline]
pub fn pass(_: Point) -> Ready<()> {
    ready(())
}

/// Like [`pass`], for blocking code.
#[inline]
pub fn pass_blocking(_: Point) {}

/// Wraps `work` with a point before it and one after it.
#[inline]
pub fn around<T, E: From<InjectedFault>, W: Future<Output = Result<T, E>>>(_: [Point; 2], work: W) -> W {
    work
}

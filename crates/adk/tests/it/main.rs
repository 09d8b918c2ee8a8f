//! Integration tests: ADK's JSON, contents of requests, and whole turns with a fake model and in-memory sessions.

#[cfg(test)]
mod any_run;
#[cfg(test)]
mod commits;
#[cfg(test)]
mod common;
#[cfg(test)]
mod confirmations;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod cut_off;
#[cfg(test)]
mod interrupted;
#[cfg(test)]
mod late_results;
#[cfg(test)]
mod prefix;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod wire;

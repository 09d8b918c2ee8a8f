//! Recorded provider streams with one fault each, chosen by a seed, and a server that sends them.
//!
//! | module | contents |
//! |---|---|
//! | `fault` | the kinds of faults, and their application to a recorded stream |
//! | `server` | an HTTP server that sends one mutated stream and answers every later request correctly |

mod fault;
mod server;

pub use fault::{ExpectedEnd, FaultKind, MutatedStream};
pub use server::StreamServer;

use crate::{ProviderApi, fakeprov, random::SplitMix64};

/// The recorded answers: thinking, text and two calls; text; thinking and text.
pub const RECORDINGS: [&str; 3] = ["ok", "text", "think"];

/// The case with this number. The same seed and number give the same case.
pub fn case(seed: u64, number: u64) -> MutatedStream {
    let mut random = SplitMix64::new(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)));
    let api = *random.choose(&ProviderApi::ALL).unwrap_or(&ProviderApi::OpenAi);
    let recording = *random.choose(&RECORDINGS).unwrap_or(&"ok");
    let kind = *random.choose(&FaultKind::ALL).unwrap_or(&FaultKind::Split);
    fault::apply(&mut random, api, recording, kind)
}

/// The recorded stream without a fault.
pub fn unchanged(api: ProviderApi, recording: &'static str) -> MutatedStream {
    let chunks = fakeprov::recorded_events(api, recording);
    let (kind, fault, outcome) = (FaultKind::Split, "none".to_owned(), ExpectedEnd::Answer);
    MutatedStream { api, recording, kind, fault, chunks, head: None, closes: false, outcome }
}

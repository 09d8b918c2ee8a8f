//! The noise of the machine: load average, spread of a fixed CPU loop, latency of fdatasync.

use crate::{
    BenchEnv, Result,
    figure::Figure,
    measure::{Samples, repeat},
};
use std::{
    fs::{self, File},
    hint::black_box,
    io::Write,
    thread,
};

/// Iterations of the CPU loop: a few milliseconds on current machines.
const LOOP: u64 = 5_000_000;

pub(crate) fn measure(when: &str, env: &BenchEnv) -> Result<Vec<Figure>> {
    let name = |what: &str| format!("noise/{when}/{what}");
    let cpu = repeat(3, 30, || {
        black_box(spin());
        Ok(())
    })?;
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut figures = vec![Figure::new(name("cores"), f64::from(u32::try_from(cores)?), "cores")];
    figures.extend(load().map(|load| Figure::new(name("load"), load, "1 min")));
    figures.push(Figure::median(name("cpu_loop"), &cpu, "ms"));
    figures.push(Figure::new(name("cpu_spread"), spread(&cpu), "%"));
    figures.push(Figure::median(name("fdatasync"), &fdatasync(env)?, "ms"));
    Ok(figures)
}

/// A fixed amount of work that does not access memory.
fn spin() -> u64 {
    (0..LOOP).fold(1, |sum, step| black_box(sum).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step))
}

fn spread(samples: &Samples) -> f64 {
    (samples.percentile(90) - samples.percentile(10)) / samples.median() * 100.0
}

/// The load average of the last minute; `None` where `/proc/loadavg` does not exist.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Measures appending a kilobyte to a file and syncing it.
fn fdatasync(env: &BenchEnv) -> Result<Samples> {
    let directory = env.directory()?;
    let mut file = File::create(directory.path().join("fdatasync"))?;
    repeat(10, 100, || {
        file.write_all(&[7; 1024])?;
        Ok(file.sync_data()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_relative_to_the_median() {
        assert!(spread(&Samples::new(vec![2.0; 10])).abs() < f64::EPSILON);
        let uneven = (1..=11).map(f64::from).collect();
        assert!((spread(&Samples::new(uneven)) - 800.0 / 6.0).abs() < 1e-9);
    }
}

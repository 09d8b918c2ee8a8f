//! How much a figure of this moment can be trusted: what else ran, how steady the CPU was, how fast the disk.

use crate::{
    Lab, Result,
    figure::Figure,
    measure::{Samples, repeat},
};
use std::{
    fs::{self, File},
    hint::black_box,
    io::Write,
    thread,
};

/// Some milliseconds on the machines of these years.
const LOOP: u64 = 5_000_000;

pub(crate) fn stamp(when: &str, lab: &Lab) -> Result<Vec<Figure>> {
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
    figures.push(Figure::median(name("fdatasync"), &fdatasync(lab)?, "ms"));
    Ok(figures)
}

/// Always the same work, in registers.
fn spin() -> u64 {
    (0..LOOP).fold(1, |sum, step| black_box(sum).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step))
}

fn spread(samples: &Samples) -> f64 {
    (samples.percentile(90) - samples.percentile(10)) / samples.median() * 100.0
}

/// Only Linux tells it in a file.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// One more kilobyte at the end of a file, made durable.
fn fdatasync(lab: &Lab) -> Result<Samples> {
    let directory = lab.directory()?;
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
    fn a_steady_loop_has_no_spread() {
        assert!(spread(&Samples::new(vec![2.0; 10])).abs() < f64::EPSILON);
        let uneven = (1..=11).map(f64::from).collect();
        assert!((spread(&Samples::new(uneven)) - 800.0 / 6.0).abs() < 1e-9);
    }
}

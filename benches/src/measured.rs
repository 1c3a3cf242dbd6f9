//! Measurements in processes of their own, because the peak memory of a process cannot be reset.

use anyhow::{Context, Result, ensure};
use std::{fs, process::Command};

/// Does one measurement several times, each in a new process. Returns the numbers that it printed.
pub fn measured<const N: usize>(rounds: usize, words: &[&str]) -> Result<Vec<[u64; N]>> {
    let mut results = Vec::new();
    for _ in 0..rounds.max(1) {
        let output = Command::new(std::env::current_exe()?).arg("one").args(words).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let numbers = text.split_whitespace().map(|word| word.parse::<u64>());
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        results.push(numbers.try_into().ok().with_context(|| format!("{N} numbers: {text}"))?);
    }
    Ok(results)
}

/// Peak memory of this process: VmHWM.
pub fn peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("VmHWM")?;
    Ok(kib.trim().parse::<u64>()? << 10)
}

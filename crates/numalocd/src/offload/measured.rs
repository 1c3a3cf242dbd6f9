//! What was measured of offload, as it is kept over restarts: by folio size and page list, with and without.

use numaloc_core::offload::{Calibration, Rates};
use numaloc_executor::calibrate::Timed;
use std::{fmt, str::FromStr};

/// A calibration as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured(pub Calibration);

impl Measured {
    /// Joins two measurements: with offload off, and on. What only one of them has is left out.
    pub fn join(off: &[Timed], on: &[Timed]) -> Self {
        let rates = off.iter().filter_map(|off| {
            let same =
                |on: &&Timed| (on.folio_bytes, on.run_folios) == (off.folio_bytes, off.run_folios);
            Some(Rates {
                folio_bytes: off.folio_bytes,
                run_folios: off.run_folios,
                cpu_bytes_per_second: off.bytes_per_second,
                engine_bytes_per_second: on.iter().find(same)?.bytes_per_second,
            })
        });
        Self(Calibration(rates.collect()))
    }
}

impl fmt::Display for Measured {
    /// `4096x16:3500000000>2200000000`, one word for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |rates: &Rates| {
            let Rates { folio_bytes, run_folios, cpu_bytes_per_second, engine_bytes_per_second } =
                rates;
            format!("{folio_bytes}x{run_folios}:{cpu_bytes_per_second}>{engine_bytes_per_second}")
        };
        let words: Vec<String> = self.0.0.iter().map(word).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Measured {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let one = |word: &str| {
            let (sizes, rates) = word.split_once(':')?;
            let (folio_bytes, run_folios) = sizes.split_once('x')?;
            let (cpu, engine) = rates.split_once('>')?;
            let number = |text: &str| text.parse::<u64>().ok().filter(|&number| number > 0);
            Some(Rates {
                folio_bytes: number(folio_bytes)?,
                run_folios: number(run_folios)?,
                cpu_bytes_per_second: number(cpu)?,
                engine_bytes_per_second: number(engine)?,
            })
        };
        let rates = text.split(' ').map(|word| one(word).ok_or(())).collect::<Result<_, _>>()?;
        Ok(Self(Calibration(rates)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(folio_bytes: u64, bytes_per_second: u64) -> Timed {
        Timed { folio_bytes, run_folios: 8, bytes_per_second }
    }

    #[test]
    fn what_both_have_is_kept_and_read_again() {
        let measured = Measured::join(&[timed(1, 30), timed(2, 90)], &[timed(2, 95)]);
        assert_eq!(measured.to_string(), "2x8:90>95");
        assert_eq!(measured.to_string().parse(), Ok(measured));
        for text in ["", "2x8", "2x8:90", "2x8:0>95", "2x8:90>95 x"] {
            assert_eq!(text.parse::<Measured>(), Err(()), "{text}");
        }
    }
}

//! Placements and rules for mappings, as `--tiers`, `--placement` and `--map` have them: what is valid is written as it is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numaloc_core::{MapRule, Placement};

fuzz_target!(|text: &str| {
    if let Ok(placement) = text.parse::<Placement>() {
        let written = placement.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&placement), "{written}");
    }
    if let Ok(rule) = text.parse::<MapRule>() {
        let written = rule.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&rule), "{written}");
    }
});

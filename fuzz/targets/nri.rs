//! What a container runtime sends to the plugin, with what pods have in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| numaloc_nri::fuzz::runtime(bytes));

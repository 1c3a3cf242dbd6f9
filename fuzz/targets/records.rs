//! Records of the store.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| numaloc_api::fuzz::read_all(bytes));

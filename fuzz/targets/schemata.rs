//! The schemata of a group of resctrl.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| numaloc_host::fuzz::schemata(bytes));

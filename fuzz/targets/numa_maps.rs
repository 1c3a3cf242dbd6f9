//! /proc/PID/numa_maps and /proc/PID/maps: any process chooses names in them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| numaloc_host::fuzz::numa_maps(bytes));

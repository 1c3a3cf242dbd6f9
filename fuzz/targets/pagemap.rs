//! /proc/PID/pagemap of two processes that share memory, and /proc/kpagecount.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| numaloc_host::fuzz::pagemap(bytes));

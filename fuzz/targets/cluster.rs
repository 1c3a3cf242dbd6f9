//! Objects of a cluster, as the node agent reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| numaloc_agent::fuzz::objects(bytes));

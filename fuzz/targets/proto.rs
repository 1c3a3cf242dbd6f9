//! Requests, as any client may send them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    numaloc_api::fuzz::convert_all(bytes);
});

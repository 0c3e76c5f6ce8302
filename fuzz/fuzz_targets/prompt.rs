#![no_main]

#[path = "../oracles.rs"]
#[allow(dead_code)]
mod oracles;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracles::prompt(data));

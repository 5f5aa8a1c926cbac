#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tautline_testkit::fuzz::codes(data));

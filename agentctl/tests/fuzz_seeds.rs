//! The seeds of the fuzzers hold what the fuzzers check, also where no fuzzer is installed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../fuzz/oracles.rs"]
mod oracles;

/// The name of a target, and what it checks.
type Target = (&'static str, fn(&[u8]));

#[test]
fn seeds_hold() {
    let targets: [Target; 6] = [
        ("frame", oracles::frame),
        ("envelope", oracles::envelope),
        ("prompt", oracles::prompt),
        ("projection", oracles::projection),
        ("redactor", oracles::redactor),
        ("control", oracles::control),
    ];
    for (target, check) in targets {
        let folder = format!("{}/../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let result = std::panic::catch_unwind(|| check(&std::fs::read(&path).unwrap()));
            assert!(result.is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count > 0, "{target} has no seed");
    }
}

//! The seeds of the fuzzers, and a short run of changed ones, hold what the fuzzers check: also where no fuzzer is installed.
//! `scripts/fuzz` makes long runs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../fuzz/oracles.rs"]
mod oracles;

use std::panic::catch_unwind;

/// What is put into inputs: where the parsers and the redactor decide something.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\u0022",
    b"\\ud800",
    b",",
    b":",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b"'",
    b"`",
    b"$(",
    b"<<E\n",
    b"=",
    b"--token ",
    b"password: ",
    b"sk-ant-",
    b"://",
    b"@",
    b"\x01",
    b"[redacted]",
    b"null",
    b"1e999",
    b"-0",
    b"\"id\":1,",
    b"\"method\":\"x\",",
    b"\xc2\x9b",
    b"\xe2\x80\xae",
    b"\xff",
    b"-----BEGIN PRIVATE KEY-----",
];

/// The same numbers in every run (xorshift), so that a failure comes again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }

    fn range(&mut self, of: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(of.len() + 1);
        start..start + self.below((of.len() - start).min(40) + 1)
    }

    /// One seed with up to eight changes.
    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            let at = self.below(input.len() + 1);
            match self.below(5) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 => drop(input.drain(self.range(&input))),
                2 => {
                    let again = input[self.range(&input)].to_vec();
                    input.splice(at..at, again);
                }
                3 => {
                    let other = &seeds[self.below(seeds.len())];
                    let part = self.range(other);
                    input.splice(at..at, other[part].iter().copied());
                }
                _ => {
                    let piece = PIECES[self.below(PIECES.len())];
                    input.splice(at..at, piece.iter().copied());
                }
            }
        }
        input
    }
}

/// The seeds of a target, and so many changed ones.
fn run(target: &str, count: usize, check: fn(&[u8])) {
    let folder = format!("{}/../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for (seed, path) in seeds.iter().zip(&paths) {
        assert!(catch_unwind(|| check(seed)).is_ok(), "{}", path.display());
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..count {
        let input = numbers.changed(&seeds);
        assert!(catch_unwind(|| check(&input)).is_ok(), "{target}: {:?}", String::from_utf8_lossy(&input));
    }
}

#[test]
fn frame() {
    run("frame", 20_000, oracles::frame);
}

#[test]
fn envelope() {
    run("envelope", 50_000, oracles::envelope);
}

#[test]
fn prompt() {
    run("prompt", 20_000, oracles::prompt);
}

#[test]
fn projection() {
    run("projection", 10_000, oracles::projection);
}

#[test]
fn redactor() {
    run("redactor", 10_000, oracles::redactor);
}

#[test]
fn control() {
    run("control", 20_000, oracles::control);
}

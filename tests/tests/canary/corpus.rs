//! Secrets that tell where they were put, so that a leak names its place.

use std::collections::HashMap;

/// How many bytes in a row of a secret are a leak of it.
const WINDOW: usize = 8;
const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz";
/// Tokens whose form is hexadecimal.
const HEXADECIMAL: &[&str] = &[
    "dop_v1_",
    "shpat_",
    "agentctl_pat_",
    "SK{",
    "key-",
    "sbp_",
    "pul-",
    "PMAK-",
    "pat",
    "bkua_",
    "squ_",
    "fc-",
    "lsv2_",
    "sk_{",
    "xkeysib-",
];

/// The secrets that were made, and what they were made for.
pub struct Corpus {
    shapes: Vec<String>,
    /// By each of their windows, in lower case.
    made: HashMap<[u8; WINDOW], usize>,
    names: Vec<String>,
    seed: u64,
}

impl Corpus {
    /// The shapes of the redaction's own corpus.
    pub fn new() -> Self {
        let shapes = include_str!("../../../acp-bridge/tests/data/secrets.txt").lines();
        // The file writes line ends, tabs and backslashes as `\n`, `\t`, `\\`.
        let unescape =
            |line: &str| line.split(r"\\").map(|part| part.replace(r"\n", "\n").replace(r"\t", "\t")).collect::<Vec<_>>().join(r"\");
        Self { shapes: shapes.map(unescape).collect(), made: HashMap::new(), names: Vec::new(), seed: 0x9e37_79b9_7f4a_7c15 }
    }

    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// A new secret of a shape, for a place.
    pub fn secret(&mut self, place: &str, shape: usize) -> String {
        let text = self.shapes[shape].clone();
        let body = self.body(place, &text);
        text.replace("{32}", &body[..32]).replace("{}", &body).replace("{U}", &body[..16].to_uppercase())
    }

    /// A new secret that nothing but its value tells, for a place.
    pub fn bare(&mut self, place: &str) -> String {
        self.body(place, "a value of the environment")
    }

    fn body(&mut self, place: &str, shape: &str) -> String {
        let mut draw = |from: &[u8]| {
            // xorshift: the same secrets in every run.
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            char::from(from[usize::try_from(self.seed >> 33).unwrap_or_default() % from.len()])
        };
        let letters = if HEXADECIMAL.iter().any(|prefix| shape.starts_with(prefix)) { &LETTERS[..6] } else { LETTERS };
        let body: String = (0..20).flat_map(|_| [draw(letters), draw(b"0123456789")]).collect();
        let number = self.names.len();
        self.names.push(format!("{place}: {shape}"));
        for window in body.as_bytes().windows(WINDOW) {
            // Few windows stand in two of them: then the first is named.
            self.made.entry(window.try_into().expect("so long are windows")).or_insert(number);
        }
        body
    }

    /// What was found of the secrets in an output: the place and the shape of each, once.
    pub fn found(&self, output: &[u8]) -> Vec<&str> {
        let lower = without_uuids(output.to_ascii_lowercase());
        let is_body =
            |at: &[u8]| at[0].is_ascii_alphanumeric() && at.iter().zip(&at[1..]).all(|(a, b)| a.is_ascii_digit() != b.is_ascii_digit());
        let mut found: Vec<usize> = lower.windows(WINDOW).filter(|at| is_body(at)).filter_map(|at| self.made.get(at)).copied().collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|number| self.names[number].as_str()).collect()
    }
}

/// A text without our own random ids, of which a part could look like a part of a secret.
fn without_uuids(mut text: Vec<u8>) -> Vec<u8> {
    const LENGTH: usize = 36;
    let is_uuid = |at: &[u8]| {
        at.iter().enumerate().all(|(n, byte)| if [8, 13, 18, 23].contains(&n) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
    };
    let mut at = 0;
    while at + LENGTH <= text.len() {
        if text[at + 8] == b'-' && is_uuid(&text[at..at + LENGTH]) {
            text[at..at + LENGTH].fill(b'-');
        }
        at += 1;
    }
    text
}

/// What stands beside the secrets of a place, and is no secret.
pub fn mark(place: &str) -> String {
    format!("seen-{place}-here")
}

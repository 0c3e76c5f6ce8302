//! What the tree depends on: known licences, registry sources only.

use std::process::Command;

use serde_json::Value;

/// Licences that an Apache-2.0 binary may link.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
];

#[test]
fn every_dependency_has_an_allowed_licence_and_comes_from_the_registry() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Only what this platform builds is here for sure.
    let version = Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(version.stdout).unwrap().lines().find_map(|line| line.strip_prefix("host: ").map(str::to_owned)).unwrap();
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        // `A OR B`: one suffices; `A AND B`: all are needed.
        let allowed = |text: &str| ALLOWED.contains(&text.trim().trim_matches(['(', ')']));
        let fits = licence.replace('/', " OR ").split(" OR ").any(|choice| choice.split(" AND ").all(allowed));
        assert!(fits, "{name}: licence {licence}");
        match package["source"].as_str() {
            None => assert!(name.starts_with("agentctl") || name == "acp-bridge", "{name} is no crate of ours"),
            Some(source) => assert!(source.starts_with("registry+"), "{name} comes from {source}"),
        }
    }
}

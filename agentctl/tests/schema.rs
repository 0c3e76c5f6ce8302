//! The committed schema file and the documents say what the binary says.

use std::path::Path;

use agentctl::code::Code;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_committed_schema_is_that_of_the_binary() {
    let described = serde_json::to_string_pretty(&agentctl::daemon::schema()).unwrap() + "\n";
    assert!(described == read("schema/control.json"), "run: target/debug/agentctl describe > agentctl/schema/control.json");
}

#[test]
fn the_reference_lists_exactly_the_stable_codes() {
    let text = read("../docs/reference.md");
    let table = text.split("## Stable codes").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            (cells.next().unwrap().trim_end_matches('`'), cells.next().unwrap())
        })
        .collect();
    let codes: Vec<(&str, String)> = Code::ALL.iter().map(|code| (code.as_str(), code.exit_status().to_string())).collect();
    assert_eq!(listed, codes.iter().map(|(code, exit)| (*code, exit.as_str())).collect::<Vec<_>>());
}

#[test]
fn the_reference_lists_exactly_the_methods() {
    let text = read("../docs/reference.md");
    let table = text.split("## Methods").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|row| row.split('`').next()).collect();
    let schema = agentctl::daemon::schema();
    assert_eq!(listed, schema.methods.iter().map(|m| m.name.as_str()).collect::<Vec<_>>());
}

#[test]
fn the_architecture_justifies_every_dependency() {
    let text = read("../ARCHITECTURE.md");
    for manifest in ["Cargo.toml", "../acp-bridge/Cargo.toml"] {
        let manifest = read(manifest);
        let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        for name in
            section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty() && *name != "acp-bridge")
        {
            assert!(text.contains(&format!("| `{name}` |")), "ARCHITECTURE.md has no line for {name}");
        }
    }
}

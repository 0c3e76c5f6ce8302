//! Agents that are known by name: the built-in ones and those of the configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use acp_bridge::process::resolve_command;
use anyhow::Context as _;
use serde::Deserialize;

/// How to start an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// A path, or a name to be found in `PATH`.
    pub command: String,
    /// Its arguments; those of the command line come after them.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment to add.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of variables that it must not see.
    #[serde(default)]
    pub strip_env: Vec<String>,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    agents: BTreeMap<String, Agent>,
}

/// What is told of a built-in agent.
#[derive(Debug, Clone, Copy)]
pub struct Advice {
    /// The command that installs it.
    pub install: &'static str,
    /// How it is made to ask before it acts.
    pub asks: &'static str,
}

/// One agent with its name.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// How to start it.
    pub agent: Agent,
    /// Whether it comes from the configuration file.
    pub configured: bool,
    /// Of a built-in name.
    pub advice: Option<Advice>,
}

impl Known {
    /// The file that would be started.
    pub fn installed(&self) -> Option<PathBuf> {
        resolve_command(&self.agent.command, std::env::var("PATH").ok().as_deref(), Path::new(".")).ok()
    }
}

/// Name, command, arguments, advice.
const BUILT_IN: &[(&str, &str, &[&str], Advice)] = &[
    (
        "claude",
        "claude-agent-acp",
        &[],
        Advice {
            install: "npm install -g @agentclientprotocol/claude-agent-acp",
            asks: "~/.claude/settings.json: {\"permissions\":{\"defaultMode\":\"default\"}}; without it a model may decide",
        },
    ),
    (
        "codex",
        "codex-acp",
        &[],
        Advice {
            install: "npm install -g @agentclientprotocol/codex-acp",
            asks: "environment INITIAL_AGENT_MODE=read-only, and ~/.codex/config.toml: approval_policy = \"on-request\", sandbox_mode = \"read-only\"",
        },
    ),
    (
        "copilot",
        "copilot",
        &["--acp"],
        Advice { install: "npm install -g @github/copilot", asks: "it does, unless it is started with --allow-all-tools" },
    ),
    (
        "gemini",
        "gemini",
        &["--acp"],
        Advice {
            install: "npm install -g @google/gemini-cli",
            asks: "it does, unless it is started with --yolo or another --approval-mode",
        },
    ),
    (
        "opencode",
        "opencode",
        &["acp"],
        Advice {
            install: "npm install -g opencode-ai",
            asks: "~/.config/opencode/opencode.json: {\"permission\":{\"bash\":\"ask\",\"edit\":\"ask\",\"webfetch\":\"ask\"}}; the default allows",
        },
    ),
    (
        "qwen",
        "qwen",
        &["--acp"],
        Advice {
            install: "npm install -g @qwen-code/qwen-code",
            asks: "it does, unless it is started with --yolo or another --approval-mode",
        },
    ),
];

/// All agents that are known by name.
#[derive(Debug)]
pub struct Agents(Vec<Known>);

impl Agents {
    /// The built-in agents, and those of a configuration file, which come before built-in ones of the same name. Without
    /// the file, if it was not `asked` for by name, only the built-in ones.
    ///
    /// # Errors
    /// The file can't be read, or says something that is not understood.
    pub fn load(file: &Path, asked: bool) -> anyhow::Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&text).with_context(|| format!("{} can't be understood", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !asked => Self::parse(""),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let Config { mut agents } = toml::from_str(text)?;
        if let Some((name, _)) = agents.iter().find(|(_, agent)| agent.command.is_empty()) {
            anyhow::bail!("agents.{name}.command is empty");
        }
        let mut all: Vec<Known> = BUILT_IN
            .iter()
            .map(|(name, command, args, advice)| {
                let configured = agents.remove(*name);
                Known {
                    name: (*name).to_owned(),
                    configured: configured.is_some(),
                    agent: configured.unwrap_or_else(|| Agent {
                        command: (*command).to_owned(),
                        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                        ..Agent::default()
                    }),
                    advice: Some(*advice),
                }
            })
            .collect();
        all.extend(agents.into_iter().map(|(name, agent)| Known { name, agent, configured: true, advice: None }));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(all))
    }

    /// The agent of this name.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn find(&self, name: &str) -> anyhow::Result<&Known> {
        let names = || self.0.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ");
        self.0.iter().find(|known| known.name == name).with_context(|| {
            format!("no agent is known as {name:?} (known: {}); a command goes after `--`: agentctl run -- {name}", names())
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Known> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_agent_replaces_the_built_in_one_and_adds_its_own() {
        let agents = Agents::parse(
            "[agents.codex]\ncommand = \"/opt/codex\"\nargs = [\"a\"]\nenv = { X = \"1\" }\nstrip_env = [\"OPENAI_API_KEY\"]\n[agents.mine]\ncommand = \"mine\"\n",
        )
        .unwrap();
        let codex = agents.find("codex").unwrap();
        assert!(codex.configured && codex.advice.is_some());
        assert_eq!((codex.agent.command.as_str(), codex.agent.args.len(), codex.agent.env["X"].as_str()), ("/opt/codex", 1, "1"));
        assert!(agents.find("mine").unwrap().configured && !agents.find("claude").unwrap().configured);
        assert_eq!(agents.iter().count(), BUILT_IN.len() + 1);
        let error = agents.find("other").unwrap_err().to_string();
        assert!(error.contains("claude, codex") && error.contains("run -- other"), "{error}");
    }

    #[test]
    fn what_is_wrong_in_the_file_is_named() {
        for (text, wanted) in [
            ("[agents.x]\nargs = []\n", "command"),
            ("[agents.x]\ncommand = \"\"\n", "agents.x.command is empty"),
            ("[agents.x]\ncommand = \"x\"\nenvironment = {}\n", "environment"),
            ("[agent.x]\ncommand = \"x\"\n", "agent"),
            ("agents = 1\n", "agents"),
        ] {
            let error = format!("{:#}", Agents::parse(text).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
        assert!(Agents::load(Path::new("/nowhere/config.toml"), false).is_ok());
        assert!(format!("{:#}", Agents::load(Path::new("/nowhere/config.toml"), true).unwrap_err()).contains("/nowhere/config.toml"));
    }
}

"""Which agents there are, how they are installed, and how they are told to use the scripted model and to ask."""
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys


class Agent:
    """One agent. `configure` writes its settings as a `Setup` wants them and returns its command and environment."""

    def __init__(self, name, package, configure, concurrent=False):
        self.name, self.package, self.configure = name, package, configure
        # Whether it asks for all tools of a turn at once.
        self.concurrent = concurrent

    def install(self, folder):
        where = folder / self.name
        # Written last: half an installation is none.
        done = where / "installed"
        if done.is_file() and done.read_text() == self.package:
            return
        if not shutil.which("npm"):
            sys.exit("npm is needed to install agents (for example the package nodejs or npm)")
        where.mkdir(parents=True, exist_ok=True)
        (where / "package.json").write_text('{"private":true}\n')
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", self.package]
        if subprocess.run(command, cwd=where, stdout=sys.stderr).returncode != 0:
            shutil.rmtree(where)
            sys.exit(f"{self.package} could not be installed")
        done.write_text(self.package)


@dataclasses.dataclass
class Setup:
    """How an agent is to be: whether it must ask, and the MCP server that it has (a command), if any."""

    modules: pathlib.Path
    home: pathlib.Path
    cwd: pathlib.Path
    model: str
    auto: bool = False
    server: list[str] | None = None


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def codex_settings(setup):
    server = f'[mcp_servers.notes]\ncommand = {json.dumps(setup.server[0])}\nargs = {json.dumps(setup.server[1:])}\n' if setup.server else ""
    put(setup.home / ".codex/config.toml", f'''model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "read-only"
[model_providers.scripted]
name = "scripted"
base_url = "{setup.model}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[analytics]
enabled = false
[projects."{setup.cwd}"]
trust_level = "trusted"
{server}''')
    return {"CODEX_HOME": str(setup.home / ".codex"), "SCRIPTED_KEY": "dummy", "OPENAI_API_KEY": "dummy"}


def codexzed(setup):
    return [setup.modules / "@zed-industries/codex-acp-linux-x64/bin/codex-acp"], codex_settings(setup)


def codex(setup):
    env = codex_settings(setup)
    env |= {"NO_BROWSER": "1", "MODEL_PROVIDER": "scripted", "INITIAL_AGENT_MODE": "agent" if setup.auto else "read-only"}
    return ["node", setup.modules / "@agentclientprotocol/codex-acp/dist/index.js"], env


def claude(setup):
    if not setup.auto:
        put(setup.home / ".claude/settings.json", {"permissions": {"defaultMode": "default"}, "enableAllProjectMcpServers": True})
    if setup.server:
        put(setup.cwd / ".mcp.json", {"mcpServers": {"notes": {"command": setup.server[0], "args": setup.server[1:]}}})
    env = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": setup.model, "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return ["node", setup.modules / "@agentclientprotocol/claude-agent-acp/dist/index.js"], env


def opencode(setup):
    decision = "allow" if setup.auto else "ask"
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Scripted", "options": {"baseURL": setup.model + "/v1", "apiKey": "dummy"},
                "models": {"scripted": {"name": "Scripted", "tool_call": True, "limit": {"context": 128000, "output": 4096}}}}
    tools = ["bash", "edit", "webfetch", "read", "grep", "external_directory", "notes_*"]
    put(setup.home / ".config/opencode/opencode.json", {
        "autoupdate": False, "share": "disabled", "model": "scripted/scripted", "small_model": "scripted/scripted",
        "provider": {"scripted": provider}, "permission": {tool: decision for tool in tools},
        "mcp": {"notes": {"type": "local", "command": setup.server}} if setup.server else {}})
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return [setup.modules / "opencode-ai/bin/opencode.exe", "acp"], env


def gemini(setup):
    servers = {"notes": {"command": setup.server[0], "args": setup.server[1:]}} if setup.server else {}
    put(setup.home / ".gemini/settings.json", {
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "general": {"enableAutoUpdate": False}, "mcpServers": servers})
    command = ["node", setup.modules / "@google/gemini-cli/bundle/gemini.js", "--acp", "--skip-trust", "-m", "gemini-2.5-pro"]
    return command, {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": setup.model}


AGENTS = {agent.name: agent for agent in [
    Agent("codexzed", "@zed-industries/codex-acp@0.16.0", codexzed, concurrent=True),
    Agent("opencode", "opencode-ai@1.18.33", opencode),
    Agent("codex", "@agentclientprotocol/codex-acp@2.6.0", codex, concurrent=True),
    Agent("claude", "@agentclientprotocol/claude-agent-acp@0.101.0", claude),
    Agent("gemini", "@google/gemini-cli@0.61.0", gemini),
]}

"""Which agents there are, how they are installed, and how they are told to use the scripted model and to ask."""
import json
import shutil
import subprocess
import sys


class Agent:
    """One agent. `configure` writes its settings under a home and returns its command and environment."""

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


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def codex_settings(home, cwd, model):
    put(home / ".codex/config.toml", f'''model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "read-only"
[model_providers.scripted]
name = "scripted"
base_url = "{model}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[analytics]
enabled = false
[projects."{cwd}"]
trust_level = "trusted"
''')
    return {"CODEX_HOME": str(home / ".codex"), "SCRIPTED_KEY": "dummy", "OPENAI_API_KEY": "dummy"}


def codexzed(modules, home, cwd, model, auto):
    return [modules / "@zed-industries/codex-acp-linux-x64/bin/codex-acp"], codex_settings(home, cwd, model)


def codex(modules, home, cwd, model, auto):
    env = codex_settings(home, cwd, model)
    env |= {"NO_BROWSER": "1", "MODEL_PROVIDER": "scripted", "INITIAL_AGENT_MODE": "agent" if auto else "read-only"}
    return ["node", modules / "@agentclientprotocol/codex-acp/dist/index.js"], env


def claude(modules, home, cwd, model, auto):
    if not auto:
        put(home / ".claude/settings.json", {"permissions": {"defaultMode": "default"}})
    env = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": model, "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return ["node", modules / "@agentclientprotocol/claude-agent-acp/dist/index.js"], env


def opencode(modules, home, cwd, model, auto):
    decision = "allow" if auto else "ask"
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Scripted", "options": {"baseURL": model + "/v1", "apiKey": "dummy"},
                "models": {"scripted": {"name": "Scripted", "tool_call": True, "limit": {"context": 128000, "output": 4096}}}}
    put(home / ".config/opencode/opencode.json", {
        "autoupdate": False, "share": "disabled", "model": "scripted/scripted", "small_model": "scripted/scripted",
        "provider": {"scripted": provider}, "permission": {"bash": decision, "edit": decision, "webfetch": decision}})
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return [modules / "opencode-ai/bin/opencode.exe", "acp"], env


def gemini(modules, home, cwd, model, auto):
    put(home / ".gemini/settings.json", {
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "general": {"enableAutoUpdate": False}})
    command = ["node", modules / "@google/gemini-cli/bundle/gemini.js", "--acp", "--skip-trust", "-m", "gemini-2.5-pro"]
    return command, {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": model}


AGENTS = {agent.name: agent for agent in [
    Agent("codexzed", "@zed-industries/codex-acp@0.16.0", codexzed, concurrent=True),
    Agent("opencode", "opencode-ai@1.18.33", opencode),
    Agent("codex", "@agentclientprotocol/codex-acp@2.6.0", codex, concurrent=True),
    Agent("claude", "@agentclientprotocol/claude-agent-acp@0.101.0", claude),
    Agent("gemini", "@google/gemini-cli@0.61.0", gemini),
]}

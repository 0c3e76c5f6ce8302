"""What each agent asks for each kind of tool, and what is shown of it."""
import json
import pathlib
import subprocess
import sys

from . import cases

SERVER = [sys.executable, str(pathlib.Path(__file__).with_name("mcp_server.py"))]
# What is done, and the type of action as which it must be shown.
CASES = {
    "edit": (("edit", "notes.txt"), "file_write"),
    "read": (("read", "../outside.txt"), "file_read"),
    "readcmd": (("shell", "cat notes.txt"), "command"),
    "search": (("search", ".."), "file_read"),
    "searchcmd": (("shell", "grep -rn hello ."), "command"),
    "fetch": (("fetch", "http://127.0.0.1:9/page?x=1#y"), "network"),
    "mcp": (("note", "a private text"), "mcp_tool"),
}

# opencode has no mark for a server's tool.
OTHERWISE = {("opencode", "mcp"): "other"}


def run(agent, case, agents, agentctl, record):
    """The action as shown and what is wrong with it, if anything; no action if the agent did not ask."""
    step, expected = CASES[case]
    expected = OTHERWISE.get((agent.name, case), expected)
    # An agent edits only what it has read.
    steps = [("read", step[1]), step] if step[0] == "edit" else [step]
    run = cases.Run(agent, agents, agentctl, steps, record, server=SERVER if case == "mcp" else None)
    for name in ("notes.txt", "removed", "../outside.txt"):
        (run.cwd / name).write_text("old\n")
    action = None
    try:
        while run.process.poll() is None:
            try:
                prompt = run.pending(wait=cases.START)[0]
            except cases.Failed:
                break
            run.resolve(prompt, "allow_once")
            if action is None or prompt["action"]["type"] == expected:
                action = prompt["action"]
        if action and action["type"] != expected:
            return action, f"shown as {action['type']}"
        return action, None
    except (cases.Failed, OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return action, str(problem)
    finally:
        run.close()


def table(name, agent, agents, agentctl, wanted, record):
    """Prints a row a case; false if one is not shown as it must."""
    good = True
    for case in wanted or CASES:
        action, problem = run(agent, case, agents, agentctl, record and record / f"{name}-{case}.jsonl")
        good &= problem is None
        print(f"{name:<9} {case:<9} {'FAILED: ' + problem if problem else 'ok' if action else 'did not ask'}  {json.dumps(action)}", flush=True)
    return good

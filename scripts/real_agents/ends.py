"""How an agent can end, in each state that it can be in: what of it is alive how long afterwards."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from . import cases, model
from .agents import Setup

# Nothing may be alive so long after an end.
ALLOWED = 2
WAIT = 60


class Editor:
    """An editor that drives `agentctl proxy`, and leaves every question to others."""

    def __init__(self, line, cwd, env, log):
        self.cwd, self.next = cwd, 0
        self.process = subprocess.Popen(line, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.next += 1
        self.write({"id": self.next, "method": method, "params": params})
        return self.next

    def call(self, method, params):
        number = self.ask(method, params)
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise cases.Failed(f"{method}: {message['error']}")
                return message["result"]
        raise cases.Failed(f"the agent ended before it answered {method}")

    def begin(self):
        """Until the agent is idle in a session; its id."""
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return self.call("session/new", {"cwd": str(self.cwd), "mcpServers": []})["sessionId"]

    def gone(self):
        self.process.stdin.close()
        self.process.stdout.close()


class Run(cases.Run):
    """One agent behind the proxy, brought into a state and then ended."""

    def __init__(self, agent, agents, agentctl):
        self.agent, self.agentctl = agent, agentctl
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="real-agents-"))
        home, self.cwd = self.folder / "home", self.folder / "home/project"
        self.cwd.mkdir(parents=True)
        self.model = model.Model(model.Script(self.cwd, [("shell", "echo > running; setsid sleep 600")]))
        command, env = agent.configure(Setup(agents / agent.name / "node_modules", home, self.cwd, self.model.url))
        self.env = cases.environment(self.folder, home)
        line = [agentctl, "proxy", "--task", "t", "--session", "s", "--", *command]
        self.out = open(self.folder / "out", "w+")
        self.editor = Editor([*map(str, line)], self.cwd, self.env | env, self.out)
        self.process = self.editor.process

    def bring(self, state):
        session = self.editor.begin()
        if state == "idle":
            return
        self.editor.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Please run the command now."}]})
        prompt = self.pending(wait=WAIT)[0]
        if state == "running":
            self.resolve(prompt, "allow_once")
            self.until("the running command", lambda: (self.cwd / "running").exists() or None)
            self.until("its own session", lambda: any(line == "sleep 600" for line in self.processes()) or None)

    def tree(self):
        """Number and start of each process that is below the agent, however it hides."""
        listed = self.data("ps", "--tree")["executions"][0]
        return listed["pid"], {(p["pid"], start) for p in listed["processes"] if (start := started(p["pid"]))}

    def end(self, how):
        """Ends it; how many processes there were, and seconds until none of them, and no other of this run, was alive."""
        leader, tree = self.tree()
        begun = time.monotonic()
        match how:
            case "leader killed":
                os.kill(leader, signal.SIGKILL)
            case "group killed":
                os.killpg(leader, signal.SIGKILL)
            case "stdin closed":
                self.editor.gone()
            case "stopped":
                result = self.data("stop", "--session", "s")
                self.must(result["tree_empty"] and not result["survivors"], f"stop says: {result}")
        while left := [pid for pid, start in tree if started(pid) == start] + self.processes():
            if time.monotonic() - begun > ALLOWED + WAIT:
                raise cases.Failed(f"left behind: {left}")
            time.sleep(0.01)
        return len(tree), time.monotonic() - begun

    def close(self):
        if not self.process.stdin.closed:
            self.editor.gone()
        super().close()


def started(pid):
    """When a process started; None if there is none, or it has ended and waits to be reaped."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


STATES = ["idle", "pending", "running"]
ENDS = ["leader killed", "group killed", "stdin closed", "stopped"]


def table(name, agent, agents, agentctl):
    """Prints a row for each end in each state; whether all of them ended in time."""
    good = True
    for how in ENDS:
        for state in STATES:
            run = Run(agent, agents, agentctl)
            try:
                run.bring(state)
                count, took = run.end(how)
                good &= took <= ALLOWED
                said = f"{count} gone after {took * 1000:5.0f} ms{'' if took <= ALLOWED else '  TOO LATE'}"
            except (cases.Failed, OSError, ValueError, subprocess.TimeoutExpired) as problem:
                good, said = False, f"FAILED: {problem}"
            finally:
                run.close()
            print(f"{name:<9} {how:<13} {state:<8} {said}", flush=True)
    return good

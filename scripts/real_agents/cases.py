"""The cases: what is done with an agent, and what must be seen."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from . import model
from .agents import Setup

START, STEP = 60, 60
MARK = "REAL_AGENTS_RUN"
# Told to every agent; no recording may hold it.
CANARY = "canary-3b1f6a90c7d24e58"


class Failed(Exception):
    pass


def environment(folder, home):
    """What everything of a run is started with."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), MARK: str(folder),
            "AGENTCTL_SOCKET": str(folder / "run/control.sock"), "AGENTCTL_STATE_DIR": str(folder / "state")}


class Run:
    """One agent under one daemon, in a folder of its own."""

    def __init__(self, agent, agents, agentctl, steps, record, auto=False, server=None):
        self.agent, self.agentctl = agent, agentctl
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="real-agents-"))
        home, self.cwd = self.folder / "home", self.folder / "home/project"
        self.cwd.mkdir(parents=True)
        self.model = model.Model(model.Script(self.cwd, steps))
        command, env = agent.configure(Setup(agents / agent.name / "node_modules", home, self.cwd, self.model.url, auto, server))
        self.env = environment(self.folder, home) | {"MY_API_TOKEN": CANARY}
        line = [agentctl, "run", "--task", "t", "--session", "s", "-p", f"Please run the command now. My token is {CANARY}."]
        if record:
            record.parent.mkdir(parents=True, exist_ok=True)
            line += ["--record", record]
        self.out = open(self.folder / "out", "w+")
        self.process = subprocess.Popen([*map(str, line), "--", *map(str, command)], cwd=self.cwd, env=self.env | env,
                                        stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT)

    def ctl(self, *words):
        return subprocess.run([str(self.agentctl), *words], env=self.env, capture_output=True, text=True, timeout=STEP)

    def data(self, *words):
        done = self.ctl(*words, "--json")
        if done.returncode != 0:
            raise Failed(f"agentctl {words[0]} exits {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def until(self, what, found, wait=STEP):
        end = time.monotonic() + wait
        while time.monotonic() < end:
            if (value := found()) is not None:
                return value
            if self.process.poll() is not None:
                raise Failed(f"the agent's run ended before {what}: {self.said()}")
            time.sleep(0.05)
        raise Failed(f"{what} did not come within {wait} s")

    def pending(self, count=1, wait=STEP):
        """The live prompts, once there are so many."""
        def found():
            listed = self.ctl("permissions", "--json")
            if listed.returncode == 0:
                live = [p for p in json.loads(listed.stdout)["permissions"] if p["status"] == "pending"]
                if len(live) >= count:
                    return live
            return None
        return self.until(f"{count} prompt(s)", found, wait)

    def resolve(self, prompt, kind):
        option = next((o["option_id"] for o in prompt["options"] if o["kind"] == kind), None)
        if option is None:
            raise Failed(f"no option of kind {kind} is offered")
        self.data("resolve", "--task", prompt["task_id"], "--session", prompt["session_id"], "--request", prompt["request_id"],
                  "--pending", prompt["pending_id"], "--option", option)

    def ends(self):
        try:
            return self.process.wait(STEP)
        except subprocess.TimeoutExpired:
            raise Failed("the turn did not end") from None

    def ends_by(self, reason):
        """The turn's own stop reason, as an agent gives it."""
        self.ends()
        if f"the turn ended: {reason}" not in self.said():
            raise Failed(f"the turn did not end with {reason}: {self.said()}")

    def said(self):
        return (self.folder / "out").read_text(errors="replace").strip()[-400:]

    def audit(self):
        return self.data("audit")["records"]

    def must(self, holds, what):
        if not holds:
            raise Failed(what)

    def processes(self):
        """What is alive of this run, but for its daemon and its command."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in (os.getpid(), self.process.pid):
                try:
                    environ, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.folder).encode() in environ + line and b"\0serve\0" not in line and line:
                    found.append(line.replace(b"\0", b" ").decode(errors="replace").strip())
        return found

    def nothing_left(self):
        end = time.monotonic() + 2
        while left := self.processes():
            if time.monotonic() > end:
                raise Failed(f"left behind: {left}")
            time.sleep(0.02)

    def close(self):
        if self.ctl("shutdown").returncode not in (0, 3):
            print(f"the daemon of {self.folder} did not end", file=sys.stderr)
        self.process.kill()
        self.process.wait()
        self.model.close()
        self.out.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def allow(run):
    run.resolve(run.pending(wait=START)[0], "allow_once")
    run.must(run.ends() == 0, f"the turn failed: {run.said()}")
    run.must((run.cwd / "proof").read_text() == "hello\n", "the approved command did not run")
    accepted = [r for record in run.audit() for r in record["resolutions"] if r["result"] == "accepted"]
    run.must(len(accepted) == 1, "the audit does not have the answer")


def reject(run):
    run.resolve(run.pending(wait=START)[0], "reject_once")
    run.ends()
    run.must(not (run.cwd / "proof").exists(), "the rejected command ran")
    run.must(run.audit()[0]["end"] == "resolved", "the audit does not have the answer")


def cancel(run):
    run.pending(wait=START)
    run.data("cancel", "--session", "s")
    run.ends_by("cancelled")
    run.must(not (run.cwd / "proof").exists(), "the command ran")
    run.must({record["end"] for record in run.audit()} == {"cancelled"}, "the audit does not say so")


def two(run):
    live = run.pending(2 if run.agent.concurrent else 1, wait=START)
    run.resolve(live[0], "allow_once")
    second = live[1] if run.agent.concurrent else run.until("the second prompt", lambda: next(
        (p for p in run.pending() if p["request_id"] != live[0]["request_id"]), None))
    run.resolve(second, "allow_once")
    run.must(run.ends() == 0, f"the turn failed: {run.said()}")
    run.must((run.cwd / "proof").exists() and (run.cwd / "proof2").exists(), "an approved command did not run")
    run.must(len(run.audit()) == 2, "the audit does not have both")


def write(run):
    prompt = run.pending(wait=START)[0]
    run.must(prompt["action"]["type"] == "file_write", f"the prompt is shown as {prompt['action']}")
    run.must("hello" not in json.dumps(prompt["action"]), "the file's content is shown")
    run.resolve(prompt, "allow_once")
    run.must(run.ends() == 0, f"the turn failed: {run.said()}")
    run.must((run.cwd / "written").read_text() == "hello\n", "the file was not written")


def stop(run):
    run.resolve(run.pending(wait=START)[0], "allow_once")
    run.until("the running command", lambda: (run.cwd / "running").exists() or None)
    result = run.data("stop", "--session", "s")
    run.must(result["tree_empty"] and not result["survivors"], f"stop says: {result}")
    run.nothing_left()


def restart(run):
    first = run.pending(wait=START)[0]
    started = run.data("restart", "--session", "s")
    run.session = started["acp_session"]
    run.process.wait(STEP)
    stale = run.ctl("resolve", "--task", "t", "--session", "s", "--request", first["request_id"], "--pending", first["pending_id"],
                    "--option", first["options"][0]["option_id"])
    run.must("permission_stale" in stale.stderr, f"the prompt of the last generation: {stale.stdout}{stale.stderr}")
    run.process = subprocess.Popen([str(run.agentctl), "prompt", "--session", "s", "Please run the command now."], env=run.env,
                                   stdin=subprocess.DEVNULL, stdout=run.out, stderr=subprocess.STDOUT)
    run.resolve(run.pending(wait=START)[0], "allow_once")
    run.must(run.ends() == 0, f"the turn failed: {run.said()}")
    run.must((run.cwd / "proof").read_text() == "hello\n", "the approved command did not run")
    run.data("stop", "--session", "s")


def auto(run):
    run.must(run.ends() == 0, f"the turn failed: {run.said()}")
    run.must(not run.audit(), "it has asked")
    run.must((run.cwd / "proof").exists(), "the command did not run")
    witness = run.data("ps", "--all")["executions"][0]["witness"]
    run.must(witness["unasked"] > 0, f"the witness has not seen it: {witness}")


PROOF = ("shell", "echo hello > proof")
CASES = {
    "allow": (allow, [PROOF]),
    "reject": (reject, [PROOF]),
    "cancel": (cancel, [PROOF]),
    "two": (two, [PROOF, ("shell", "echo hello > proof2")]),
    "write": (write, [("write", "written")]),
    "restart": (restart, [PROOF]),
    "stop": (stop, [("shell", "echo > running; setsid sleep 600")]),
}


def run(agent, case, agents, agentctl, record):
    """Runs a case; returns what went wrong, or None."""
    check, steps = CASES.get(case) or (auto, [PROOF])
    started = Run(agent, agents, agentctl, steps, record, auto=case == "auto")
    try:
        check(started)
        started.ends()
        started.nothing_left()
        started.must(not record or CANARY not in record.read_text(), "the recording holds a secret")
        return None
    except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    finally:
        started.close()

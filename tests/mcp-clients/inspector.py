"""Lists and answers a live request with the inspector's command line: inspector.py TASK INSPECTOR COMMAND..."""

import json
import subprocess
import sys

task, inspector, *command = sys.argv[1:]


def inspect(method, *arguments):
    output = subprocess.run([inspector, "--cli", *command, "--method", method, *arguments], capture_output=True, text=True, check=False)
    assert output.returncode == 0, output
    return json.loads(output.stdout)


def call(name, **arguments):
    given = [part for argument in arguments.items() for part in ("--tool-arg", "=".join(argument))]
    return inspect("tools/call", "--tool-name", name, *given)


names = [tool["name"] for tool in inspect("tools/list")["tools"]]
assert names == ["list_pending_agent_permissions", "resolve_agent_permission"], names
permission = call("list_pending_agent_permissions", task_id=task)["structuredContent"]["permissions"][0]
answer = {name: permission[name] for name in ("task_id", "session_id", "request_id", "pending_id")}
answer["option_id"] = permission["options"][0]["option_id"]
assert call("resolve_agent_permission", **answer)["structuredContent"]["source"] == "external_mcp"
again = call("resolve_agent_permission", **answer)
assert again["isError"] and json.loads(again["content"][0]["text"])["code"] == "permission_already_resolved", again
print("inspector --cli: listed, answered, refused the second answer")

"""Lists and answers a live request with the official Python SDK, of either era: client.py TASK COMMAND..."""

import asyncio
import json
import os
import sys

import jsonschema
import mcp

RESOURCE = "agentctl://permissions/pending"


def member(thing, older, newer):
    return getattr(thing, older) if hasattr(thing, older) else getattr(thing, newer)


async def drive(session, era, task):
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert list(tools) == ["list_pending_agent_permissions", "resolve_agent_permission"], tools

    async def call(name, arguments):
        result = await session.call_tool(name, arguments)
        if not member(result, "isError", "is_error"):
            structure = member(result, "structuredContent", "structured_content")
            jsonschema.validate(structure, member(tools[name], "outputSchema", "output_schema"))
            assert structure == json.loads(result.content[0].text)
        return result

    listed = await call("list_pending_agent_permissions", {"task_id": task})
    permission = member(listed, "structuredContent", "structured_content")["permissions"][0]
    answer = {name: permission[name] for name in ("task_id", "session_id", "request_id", "pending_id")}
    answer["option_id"] = permission["options"][0]["option_id"]
    resolved = await call("resolve_agent_permission", answer)
    assert member(resolved, "structuredContent", "structured_content")["source"] == "external_mcp", resolved
    again = await call("resolve_agent_permission", answer)
    assert member(again, "isError", "is_error"), again
    assert json.loads(again.content[0].text)["code"] == "permission_already_resolved", again
    resources = (await session.list_resources()).resources
    assert [str(resource.uri) for resource in resources] == [RESOURCE], resources
    assert json.loads((await session.read_resource(resources[0].uri)).contents[0].text)["total"] == 0
    print(f"python sdk, {era}: listed, answered, refused the second answer")


async def main(task, command):
    server = mcp.StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    if hasattr(mcp, "Client"):
        async with mcp.Client(server) as client:
            await drive(client, client.protocol_version, task)
    else:
        async with mcp.stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
            era = (await session.initialize()).protocolVersion
            await drive(session, era, task)


asyncio.run(main(sys.argv[1], sys.argv[2:]))

#!/usr/bin/env python3
"""An MCP server on stdio with one tool, for which an agent has to ask. Standard library only."""
import json
import sys

TOOL = {"name": "add_note", "description": "Adds a note", "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}


def answer(method, params):
    match method:
        case "initialize":
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "noted"}]}
        case "ping":
            return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | outcome), flush=True)

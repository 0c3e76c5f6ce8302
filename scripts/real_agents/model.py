"""A scripted model on loopback: whatever is asked, it uses the tools of its script once, and then says that it is done.

It speaks what the agents speak: Anthropic messages, OpenAI chat completions and responses, Gemini. Each protocol is read into
(tools offered, whether a tool has answered) and written from (text, calls).
"""
import gzip
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# By what is to be done, the names that agents give such a tool.
TOOLS = {
    "shell": ["bash", "shell", "exec_command", "shell_command", "run_shell_command", "local_shell"],
    "write": ["write", "write_file", "apply_patch", "edit"],
    "edit": ["edit", "replace", "apply_patch"],
    "read": ["read", "read_file"],
    "search": ["grep", "grep_search", "search_file_content"],
    "fetch": ["webfetch", "web_fetch"],
    # Of the MCP server beside this file.
    "note": ["add_note"],
}
USAGE = {"input_tokens": 10, "output_tokens": 5}


class Call:
    """A tool call: arguments, or a text for a tool that takes one."""

    def __init__(self, tool, arguments):
        self.id = uuid.uuid4().hex[:20]
        self.tool, self.namespace, self.arguments = tool.name, tool.namespace, arguments

    def text(self):
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Tool:
    def __init__(self, name, schema, free_text=False, namespace=None):
        self.name, self.schema, self.free_text, self.namespace = name, schema or {}, free_text, namespace


def texts(*names):
    return {"properties": {name: {"type": "string"} for name in names}, "required": list(names)}


# By the tool with which an agent lets its model look for more: those that it doesn't offer at first, but takes.
DEFERRED = {
    "ToolSearch": [Tool("WebFetch", texts("url", "prompt")), Tool("mcp__notes__add_note", texts("text"))],
    "tool_search": [Tool("add_note", texts("text"), namespace="mcp__notes")],
}


class Script:
    """What the model does: steps are (what to do, with what): a command, a file, a URL, a text."""

    def __init__(self, cwd, steps):
        self.cwd, self.steps = cwd, steps

    def calls(self, tools):
        return [call for step in self.steps if (call := self.call(tools, *step))]

    def call(self, tools, kind, what):
        tools = tools + [more for tool in tools for more in DEFERRED.get(tool.name, [])]
        # Some agents put a prefix before a tool's name, others have tools whose names end alike.
        is_it = [lambda tool, name: tool.name.lower() == name, lambda tool, name: tool.name.lower().endswith(name)]
        tool = next((tool for matches in is_it for name in TOOLS[kind] for tool in tools if matches(tool, name)), None)
        if tool is None:
            return None
        if tool.free_text:
            return Call(tool, patch(kind, what))
        return Call(tool, {key: value for key, schema in tool.schema.get("properties", {}).items()
                                if (value := self.argument(kind, what, key, schema, key in tool.schema.get("required", []))) is not None})

    def argument(self, kind, what, key, schema, required):
        match kind, key.lower():
            case "shell", "command" | "cmd":
                return ["bash", "-lc", what] if schema.get("type") == "array" else what
            # Codex asks only for what it can't do in its sandbox.
            case "shell", "sandbox_permissions":
                return "require_escalated"
            case "shell", "with_escalated_permissions":
                return True
            case "write" | "edit" | "read", "file_path" | "filepath" | "path":
                return str(self.cwd / what)
            case "write", "content" | "text" | "new_string":
                return "hello\n"
            case "edit", "old_string" | "oldstring":
                return "old\n"
            case "edit", "new_string" | "newstring":
                return "new\nnewer\n"
            case "write" | "edit", "input" | "patch" | "patchtext":
                return patch(kind, what)
            case "search", "path" | "dir_path":
                return str(self.cwd / what)
            case "search", "pattern":
                return "hello"
            case "fetch", "url":
                return what
            case "fetch", "urls":
                return [what]
            case "fetch", "prompt":
                return f"Read {what}"
            case "note", "text":
                return what
        return filled(schema, "a scripted text") if required or key in ("description", "justification") else None


def patch(kind, what):
    """As `apply_patch` takes it."""
    if kind == "write":
        return f"*** Begin Patch\n*** Add File: {what}\n+hello\n*** End Patch\n"
    return (f"*** Begin Patch\n*** Update File: {what}\n@@\n-old\n+new\n+newer\n*** Add File: added\n+hello\n"
            "*** Delete File: removed\n*** End Patch\n")


def filled(schema, text):
    """A value for a schema; where there is a choice, the one that lets things happen."""
    if choices := schema.get("enum"):
        return next((choice for choice in choices if str(choice).lower() in ("allow", "approve", "approved", "low")), choices[0])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        return {key: filled(value, text) for key, value in schema.get("properties", {}).items()}
    return {"integer": 30, "number": 30, "boolean": False, "array": []}.get(str(kind).lower(), text)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer({})

    def do_GET(self):
        models = [{"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "scripted", "created": 1,
                   "created_at": "2026-01-01T00:00:00Z"} for name in ("scripted", "gpt-5.5", "gemini-2.5-pro")]
        self.answer({"object": "list", "has_more": False, "data": models, "models": []})

    def do_POST(self):
        path, request = self.path.split("?")[0], self.body()
        try:
            if path.endswith("/messages"):
                self.anthropic_messages(request)
            elif path.endswith("/chat/completions"):
                self.openai_chat(request)
            elif path.endswith("/responses"):
                self.openai_responses(request)
            elif "enerateContent" in path:
                self.gemini(request, "stream" in path)
            else:
                self.answer({"input_tokens": 10, "totalTokens": 10})
        except ConnectionError:
            pass  # The agent has cancelled its turn.

    def body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        return json.loads(raw or b"{}")

    def answer(self, value):
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def stream(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{name}data: {data}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    def plan(self, tools, done):
        """The text and the calls of this answer."""
        calls = [] if done or not tools else self.server.script.calls(tools)
        return ("Done." if done else "I will use a tool." if calls else "Nothing to do."), calls

    def anthropic_messages(self, request):
        users = [message for message in request["messages"] if message["role"] == "user"]
        last = users[-1]["content"] if users else ""
        done = isinstance(last, list) and any(block.get("type") == "tool_result" for block in last)
        text, calls = self.plan([Tool(tool["name"], tool.get("input_schema")) for tool in request.get("tools") or []], done)
        blocks = [{"type": "text", "text": text}]
        blocks += [{"type": "tool_use", "id": f"toolu_{call.id}", "name": call.tool, "input": call.arguments} for call in calls]
        usage = USAGE | {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        stop = "tool_use" if calls else "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model"), "content": blocks,
                   "stop_reason": stop, "stop_sequence": None, "usage": usage}
        if not request.get("stream"):
            return self.answer(message)
        events = [{"type": "message_start", "message": message | {"content": [], "stop_reason": None}}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty, delta = block | {"text": ""}, {"type": "text_delta", "text": text}
            else:
                empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [{"type": "content_block_start", "index": index, "content_block": empty},
                       {"type": "content_block_delta", "index": index, "delta": delta}, {"type": "content_block_stop", "index": index}]
        events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}, {"type": "message_stop"}]
        self.stream(events)

    def openai_chat(self, request):
        roles = [message["role"] for message in request["messages"]]
        done = "tool" in roles[len(roles) - roles[::-1].index("user"):]
        functions = [tool["function"] for tool in request.get("tools") or [] if tool.get("type") == "function"]
        text, calls = self.plan([Tool(function["name"], function.get("parameters")) for function in functions], done)
        asked = [{"index": index, "id": f"call_{call.id}", "type": "function", "function": {"name": call.tool, "arguments": call.text()}}
                 for index, call in enumerate(calls)]
        base = {"id": "chat_1", "created": 1, "model": request.get("model")}
        finish, usage = ("tool_calls" if calls else "stop"), {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not request.get("stream"):
            message = {"role": "assistant", "content": text} | ({"tool_calls": asked} if asked else {})
            return self.answer(base | {"object": "chat.completion", "usage": usage,
                                       "choices": [{"index": 0, "message": message, "finish_reason": finish}]})
        deltas = [{"role": "assistant", "content": text}, *({"tool_calls": [call]} for call in asked)]
        chunk = base | {"object": "chat.completion.chunk"}
        events = [chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        self.stream([*events, chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, chunk | {"choices": [], "usage": usage}, "[DONE]"])

    def openai_responses(self, request):
        done = False
        for item in reversed(request["input"] if isinstance(request.get("input"), list) else []):
            if item.get("role") == "user":
                break
            done |= str(item.get("type", "")).endswith("_output")
        tools = []
        for tool in request.get("tools") or []:
            if tool.get("type") == "function":
                tools.append(Tool(tool["name"], tool.get("parameters")))
            elif tool.get("type") == "custom":
                tools.append(Tool(tool["name"], None, free_text=True))
            elif tool.get("type") == "namespace":
                tools += [Tool(inner["name"], inner.get("parameters"), namespace=tool["name"]) for inner in tool["tools"]]
            elif tool.get("type") == "tool_search":
                tools.append(Tool("tool_search", None))
        text, calls = self.plan(tools, done)
        if schema := ((request.get("text") or {}).get("format") or {}).get("schema"):
            # A question about an action, to be answered in a given form.
            text, calls = json.dumps(filled(schema, "a scripted reason")), []
        items = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                  "content": [{"type": "output_text", "text": text, "annotations": []}]}]
        for call in calls:
            kind, member = ("custom_tool_call", "input") if isinstance(call.arguments, str) else ("function_call", "arguments")
            item = {"type": kind, "id": f"item_{call.id}", "call_id": f"call_{call.id}", "name": call.tool, member: call.text(), "status": "completed"}
            items.append(item | ({"namespace": call.namespace} if call.namespace else {}))
        usage = USAGE | {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
        response = {"id": f"resp_{uuid.uuid4().hex[:12]}", "object": "response", "created_at": 1, "model": request.get("model"),
                    "status": "completed", "output": items, "usage": usage}
        if not request.get("stream"):
            return self.answer(response)
        events = [{"type": "response.created", "response": response | {"status": "in_progress", "output": [], "usage": None}}]
        for index, item in enumerate(items):
            events += [{"type": "response.output_item.added", "output_index": index, "item": item},
                       {"type": "response.output_item.done", "output_index": index, "item": item}]
        self.stream([*events, {"type": "response.completed", "response": response}])

    def gemini(self, request, streamed):
        contents = request.get("contents") or [{}]
        done = any("functionResponse" in part for part in contents[-1].get("parts", []))
        declared = [function for tool in request.get("tools") or [] for function in tool.get("functionDeclarations") or []]
        text, calls = self.plan([Tool(f["name"], f.get("parametersJsonSchema") or f.get("parameters")) for f in declared], done)
        settings = request.get("generationConfig") or {}
        if schema := settings.get("responseJsonSchema") or settings.get("responseSchema"):
            text = json.dumps(filled(schema, "a scripted text"))
        parts = [{"text": text}, *({"functionCall": {"name": call.tool, "args": call.arguments}} for call in calls)]
        response = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "scripted"}
        self.stream([response]) if streamed else self.answer(response)


class Model:
    """A running model; `url` is where."""

    def __init__(self, script):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.script = script
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

"""A provider on loopback that speaks the formats of three vendors, whole and streamed:
`/CASE/v1/chat/completions`, `/CASE/v1/responses`, `/CASE/v1/messages`,
`/CASE/v1beta/models/MODEL:generateContent`. The script of the case answers."""

import http.server
import json
import re
import threading

from script import Request, Tool


class Provider:
    """Serves the scripts of all cases, each below its own path."""

    def __init__(self):
        self.scripts = {}
        self.faults = []
        provider = self

        class Bound(Handler):
            owner = provider

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def address(self, case):
        return f"http://127.0.0.1:{self.server.server_port}/{case}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    owner = None
    protocol_version = "HTTP/1.1"
    # Events leave one by one.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        case, _, path = self.path.split("?")[0].lstrip("/").partition("/")
        script = self.owner.scripts.get(case)
        form = next((form for at, form in FORMATS.items() if re.fullmatch(at, path)), None)
        if script is None or form is None:
            self.owner.faults.append(f"a call of {self.path}, which is not there")
            self.respond(404, "application/json", b'{"error": {"message": "not found"}}')
            return
        body = json.loads(body)
        script.saw(path, body)
        read, write_whole, write_events = form
        try:
            request = read(body)
            request.stream = request.stream or "stream" in path
            reply = script.reply(request)
        except Exception as error:  # noqa: BLE001 - it is reported with the case
            script.fault(f"a request that the script cannot answer: {error!r}")
            self.respond(400, "application/json", b'{"error": {"message": "not understood"}}')
            return
        if request.stream:
            self.stream(write_events(body, request, reply))
        else:
            answer = json.dumps(write_whole(body, request, reply)).encode()
            self.respond(200, "application/json", answer)

    def respond(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events:
            text = f"event: {name}\n" if name else ""
            text += f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
            piece = text.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def pieces(text):
    """A text in pieces that cut words and placeholders."""
    return [text[at : at + 9] for at in range(0, len(text), 9)]


def texts(content):
    """The text of a message or result, whatever its form."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    parts = [part if isinstance(part, str) else part.get("text") or "" for part in content or []]
    return "\n".join(parts)


def arguments_text(reply):
    return reply.arguments if isinstance(reply.arguments, str) else json.dumps(reply.arguments)


# --- OpenAI's chat completions ------------------------------------------------------------------


def read_chat(body):
    tools = {}
    for tool in body.get("tools", []):
        about = tool.get("function") or tool.get("custom")
        schema = about.get("parameters", {}) if tool["type"] == "function" else None
        tools[about["name"]] = Tool(about["name"], schema)
    messages = body["messages"]
    wants = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    return Request(
        tools,
        [texts(message["content"]) for message in messages if message["role"] == "tool"],
        "\n".join(texts(message.get("content")) for message in messages),
        wants,
        body.get("stream", False),
    )


CHAT_USAGE = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}


def chat_calls(reply):
    if reply.tool is None:
        return None
    about = {"id": reply.id("call")}
    if reply.tool.schema is None:
        custom = {"name": reply.tool.name, "input": reply.arguments}
        return [about | {"type": "custom", "custom": custom}]
    function = {"name": reply.tool.name, "arguments": arguments_text(reply)}
    return [about | {"type": "function", "function": function}]


def whole_chat(body, request, reply):
    calls = chat_calls(reply)
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {
        "id": reply.id("chatcmpl"),
        "object": "chat.completion",
        "created": 1700000000,
        "model": body["model"],
        "choices": [choice],
        "usage": CHAT_USAGE,
    }


def chat_events(body, request, reply):
    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return None, chunk_head | {"choices": [choice]}

    chunk_head = {
        "id": reply.id("chatcmpl"),
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": body["model"],
    }
    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.text):
        yield chunk({"content": piece})
    calls = chat_calls(reply)
    if calls:
        call, kind = calls[0], calls[0]["type"]
        member = "arguments" if kind == "function" else "input"
        text = call[kind][member]
        yield chunk({"tool_calls": [{"index": 0} | call | {kind: call[kind] | {member: ""}}]})
        for piece in pieces(text):
            yield chunk({"tool_calls": [{"index": 0, kind: {member: piece}}]})
    yield chunk({}, "tool_calls" if calls else "stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield None, chunk_head | {"choices": [], "usage": CHAT_USAGE}
    yield None, "[DONE]"


# --- OpenAI's responses -------------------------------------------------------------------------


def read_responses(body):
    tools = {}

    def add(declared, namespace=None):
        for tool in declared:
            if tool["type"] == "namespace":
                add(tool["tools"], tool["name"])
            elif tool["type"] == "function":
                schema = tool.get("parameters") or {}
                tools.setdefault(tool["name"], Tool(tool["name"], schema, namespace))
            elif tool["type"] == "custom":
                tools[tool["name"]] = Tool(tool["name"], None, namespace)

    add(body.get("tools", []))
    items = body["input"] if isinstance(body["input"], list) else []
    outputs = ("function_call_output", "custom_tool_call_output")
    wanted = (body.get("text") or {}).get("format") or {}
    return Request(
        tools,
        [texts(item["output"]) for item in items if item.get("type") in outputs],
        "\n".join(texts(item.get("content")) for item in items),
        wanted.get("schema"),
        body.get("stream", False),
    )


RESPONSES_USAGE = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 150,
}


def response_items(reply):
    content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
    said = {"type": "message", "id": reply.id("msg"), "role": "assistant"}
    yield said | {"status": "completed", "content": content}
    if reply.tool is None:
        return
    call = {"call_id": reply.id("call"), "name": reply.tool.name, "status": "completed"}
    if reply.tool.namespace:
        call["namespace"] = reply.tool.namespace
    if reply.tool.schema is None:
        yield {"type": "custom_tool_call", "id": reply.id("ctc"), "input": reply.arguments} | call
    else:
        text = arguments_text(reply)
        yield {"type": "function_call", "id": reply.id("fc"), "arguments": text} | call


def response_head(body, reply, status, items=()):
    return {
        "id": reply.id("resp"),
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": body["model"],
        "output": list(items),
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": RESPONSES_USAGE if status == "completed" else None,
    }


def whole_response(body, request, reply):
    return response_head(body, reply, "completed", response_items(reply))


def response_events(body, request, reply):
    numbers = iter(range(10**6))

    def event(name, /, **more):
        return name, {"type": name, "sequence_number": next(numbers)} | more

    yield event("response.created", response=response_head(body, reply, "in_progress"))
    yield event("response.in_progress", response=response_head(body, reply, "in_progress"))
    items = list(response_items(reply))
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}}
        empty = empty.get(item["type"], {"input": ""})
        begun = item | {"status": "in_progress"} | empty
        yield event("response.output_item.added", output_index=at, item=begun)
        if item["type"] == "message":
            part, place = item["content"][0], place | {"content_index": 0}
            yield event("response.content_part.added", **place, part=part | {"text": ""})
            for piece in pieces(part["text"]):
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **place, part=part)
        else:
            is_function = item["type"] == "function_call"
            kind = "function_call_arguments" if is_function else "custom_tool_call_input"
            member = "arguments" if is_function else "input"
            for piece in pieces(item[member]):
                yield event(f"response.{kind}.delta", **place, delta=piece)
            name = {"name": item["name"]} if is_function else {}
            yield event(f"response.{kind}.done", **place, **name, **{member: item[member]})
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.completed", response=response_head(body, reply, "completed", items))


# --- Anthropic's messages -----------------------------------------------------------------------

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBzY3JpcHQ="


def read_messages(body):
    tools = {}
    for tool in body.get("tools", []):
        if "input_schema" in tool:
            tools[tool["name"]] = Tool(tool["name"], tool["input_schema"])
    results, said = [], [texts(body.get("system"))]
    for message in body["messages"]:
        content = message["content"]
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_result":
                results.append(texts(block.get("content")))
        said.append(texts(content))
    wanted = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    thinking = (body.get("thinking") or {}).get("type", "disabled")
    stream = body.get("stream", False)
    return Request(tools, results, "\n".join(said), wanted, stream, thinking != "disabled")


def message_blocks(request, reply):
    if request.thinks:
        yield {"type": "thinking", "thinking": "Step by step.", "signature": SIGNATURE}
    yield {"type": "text", "text": reply.text}
    if reply.tool is not None:
        call = {"type": "tool_use", "id": reply.id("toolu"), "name": reply.tool.name}
        yield call | {"input": reply.arguments}


def message_head(body, reply, blocks, reason, output):
    return {
        "id": reply.id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 120, "output_tokens": output},
    }


def whole_message(body, request, reply):
    reason = "tool_use" if reply.tool else "end_turn"
    return message_head(body, reply, list(message_blocks(request, reply)), reason, 30)


def message_events(body, request, reply):
    def event(name, /, **more):
        return name, {"type": name} | more

    yield event("message_start", message=message_head(body, reply, [], None, 1))
    for at, block in enumerate(message_blocks(request, reply)):
        if block["type"] == "thinking":
            begun = {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            begun = {"text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        else:
            begun = {"input": {}}
            text = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]
        yield event("content_block_start", index=at, content_block=block | begun)
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    reason = "tool_use" if reply.tool else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": 30})
    yield event("message_stop")


def read_count(body):
    return read_messages(body)


def whole_count(body, request, reply):
    return {"input_tokens": 120}


# --- Gemini's generateContent -------------------------------------------------------------------


def read_gemini(body):
    tools = {}
    for group in body.get("tools", []):
        for tool in group.get("functionDeclarations", []):
            schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
            tools[tool["name"]] = Tool(tool["name"], schema)
    system = body.get("systemInstruction") or body.get("system_instruction") or {}
    results, said = [], [texts(system.get("parts"))]
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                results.append(result_text(part["functionResponse"]["response"]))
            said.append(part.get("text") or "")
    config = body.get("generationConfig") or {}
    wanted = config.get("responseJsonSchema") or config.get("responseSchema")
    return Request(tools, results, "\n".join(said), wanted)


def result_text(response):
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in response.values())


def gemini_answer(reply, parts, reason=None):
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = {"promptTokenCount": 120, "candidatesTokenCount": 30, "totalTokenCount": 150}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": reply.id("response"),
    }


def gemini_calls(reply):
    if reply.tool is None:
        return []
    call = {"name": reply.tool.name, "args": reply.arguments}
    return [{"functionCall": call, "thoughtSignature": SIGNATURE}]


def whole_gemini(body, request, reply):
    said = {"text": reply.text, "thoughtSignature": SIGNATURE}
    return gemini_answer(reply, [said, *gemini_calls(reply)], "STOP")


def gemini_events(body, request, reply):
    for piece in pieces(reply.text):
        yield None, gemini_answer(reply, [{"text": piece}])
    last = gemini_calls(reply) or [{"text": "", "thoughtSignature": SIGNATURE}]
    yield None, gemini_answer(reply, last, "STOP")


# The path below a case, and how requests there are read and answered.
FORMATS = {
    r"v1/chat/completions": (read_chat, whole_chat, chat_events),
    r"v1/responses": (read_responses, whole_response, response_events),
    r"v1/messages": (read_messages, whole_message, message_events),
    r"v1/messages/count_tokens": (read_count, whole_count, None),
    r"v1beta/models/[^/]+:(streamG|g)enerateContent": (read_gemini, whole_gemini, gemini_events),
}

"""A provider on loopback in the formats of OpenAI and Gemini, and an MCP server beside it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "A boat of Bergen."
RESULT = "Mild in Bergen."
TOOL = "weather"
USAGE = {"prompt_tokens": 30, "completion_tokens": 9, "total_tokens": 39}


def completion(model, message, reason):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": f"{model}-2026",
        "choices": [choice],
        "usage": USAGE,
    }


def chat(body):
    model = body["model"]
    if model == "failing":
        return 400, {"error": {"message": "No.", "type": "invalid_request_error"}}
    has_result = any(message["role"] == "tool" for message in body["messages"])
    if body.get("tools") and not has_result:
        call = {"name": TOOL, "arguments": '{"city":"Bergen"}'}
        call = {"id": "call_1", "type": "function", "function": call}
        return 200, completion(model, {"content": None, "tool_calls": [call]}, "tool_calls")
    return 200, completion(model, {"content": ANSWER}, "stop")


def image(_):
    usage = {"input_tokens": 12, "output_tokens": 544, "total_tokens": 556}
    return 200, {"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}], "usage": usage}


def generate_content(_):
    content = {"role": "model", "parts": [{"text": ANSWER}]}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2026"}
    return 200, {**answer, "responseId": "x"}


def mcp(body):
    if body["method"] == "initialize":
        result = {
            "protocolVersion": body["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "telemetry", "version": "1"},
        }
    elif body["method"] == "tools/list":
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        result = {"tools": [{"name": TOOL, "inputSchema": schema}]}
    elif body["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": RESULT}]}
    else:
        return 202, None
    return 200, {"jsonrpc": "2.0", "id": body["id"], "result": result}


ROUTES = {
    "/v1/chat/completions": chat,
    "/v1/images/generations": image,
    "/mcp": mcp,
}


class Provider:
    def __init__(self):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                route = ROUTES.get(self.path, generate_content)
                self.answer(*route(body))

            def do_GET(self):
                # No events of the MCP server beside its answers.
                self.answer(405, None)

            def answer(self, status, body):
                text = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def models(self):
        """The definitions of its models."""
        openai = {"provider": "openai", "base_url": f"{self.address}/v1"}
        gemini = {"provider": "gemini", "base_url": self.address, "api_key": "hush"}
        prices = {"input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6, "is_public": False}
        return [
            {"name": name, "identifier": name, **place, **prices}
            for name, place in [
                ("plain", openai),
                ("failing", openai),
                ("painter", openai),
                ("gemini-own", gemini),
            ]
        ]

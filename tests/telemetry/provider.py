"""A provider on loopback in the formats of OpenAI and Gemini, and an MCP server beside it."""

import json

from loopback import Handler, Loopback

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


class ProviderHandler(Handler):
    def do_POST(self):
        status, answer = ROUTES.get(self.path, generate_content)(json.loads(self.body()))
        self.answer(status, "application/json", b"" if answer is None else json.dumps(answer).encode())

    def do_GET(self):
        # No events of the MCP server beside its answers.
        self.answer(405, "application/json", b"")


class Provider(Loopback):
    def __init__(self):
        super().__init__(ProviderHandler)

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

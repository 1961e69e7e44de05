"""The simulator of the providers, as the tests of the clients meet it: how its models are registered
with a gateway, what they are to say next, and what the vendors would have found fault with."""

import json
import os
import urllib.request

ADDRESS = os.environ.get("SLUICE_TEST_SIM", "").rstrip("/")

# Each has a port of its own after the control port, in this order.
PROVIDERS = [
    ("openai", "/v1", "sk-sim-openai", "gpt-4.1-mini", {}),
    ("anthropic", "", "sk-ant-sim-key", "claude-sonnet-4-5", {}),
    ("gemini", "", "AIzaSim-gemini-key", "gemini-2.5-flash", {}),
    (
        "bedrock",
        "",
        "AKIASIMULATOR0000001:simulator/secret+key/with/slashes0000001",
        "us.anthropic.claude-3-5-sonnet-20240620-v1:0",
        {"region": "us-east-1"},
    ),
    ("azure", "", "azure-sim-key-0123456789", "our-model", {"api_version": "2024-10-21"}),
    ("internal", "/v1", "internal-sim-key", "our-model", {}),
]
NAMES = [provider[0] for provider in PROVIDERS]


def definitions():
    """The models, each under the name of its provider."""
    host, port = ADDRESS.rsplit(":", 1)
    for place, (name, path, key, upstream, config) in enumerate(PROVIDERS, start=1):
        yield {
            "name": name,
            "identifier": name,
            "provider": name,
            "base_url": f"{host}:{int(port) + place}{path}",
            "api_key": key,
            "additional_config": config | {"upstream_model": upstream},
        }


def control(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def script(provider, *answers):
    """What a provider answers next, in pieces that split characters and events."""
    control("/_script", {"clear": True})
    answers = [{"split_bytes": 7} | answer for answer in answers]
    control("/_script", {"scripts": [{"provider": provider, "answers": answers}]})

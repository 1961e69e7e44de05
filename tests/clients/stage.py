"""Waits for a fresh gateway, lifts its limits on requests, and registers a model of every provider
where there is a simulator of them: stage.py BASE_URL PASSWORD"""

import json
import sys
import time
import urllib.error
import urllib.request

import providers

BASE, PASSWORD = sys.argv[1:]


def call(method, path, body, cookie=None):
    headers = {"Content-Type": "application/json"} | ({"Cookie": cookie} if cookie else {})
    request = urllib.request.Request(
        BASE + path, json.dumps(body).encode(), headers, method=method
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers


def wait():
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{BASE}/ready", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit("stage.py: the gateway did not come up")


wait()
signed_in = call("POST", "/api/v1/session", {"email": "owner@localhost", "password": PASSWORD})
cookie = signed_in["Set-Cookie"].split(";")[0]
limits = {"requests_per_hour": None, "loop_requests": None}
call("PATCH", "/api/v1/projects/1", {"project": {"settings": {"limits": limits}}}, cookie)
if providers.ADDRESS:
    for definition in providers.definitions():
        call("POST", "/api/v1/projects/1/models", {"model_definition": definition}, cookie)

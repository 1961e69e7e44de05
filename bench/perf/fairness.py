#!/usr/bin/env python3
"""Measures what one project's long texts cost another project.

    bench/perf/fairness.py target/dist/sluice [--attackers 4] [--seconds 20] [--megabytes 9]

Starts the gateway in a folder of its own, on loopback, with two projects. One asks for chat completions
of 2 KB at a steady rate; latencies are taken from the moment at which each was due. Meanwhile callers of
the other send `POST /checks` with texts that are dear to judge, one after the other, and some of them
hang up before they are answered. Three phases in one run: without, with, and without them again. Needs
nothing but Python's standard library.
"""

import argparse
import http.client
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "memory"))
from worst import KEY, Gateway  # noqa: E402

TEXTS = {
    "keys": "$api_key=@Bearer ",
    "digits": "4111 1111 1111 1111 ",
    "labels": "password: token= secret ",
    "addresses": "a@b.c 10.0.0.1 ",
}


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def second_project(gateway):
    status, body, _ = gateway.ask("POST", "/projects", {"project": {"name": "Other"}}, session=True)
    assert status == 201, body
    project = json.loads(body)["id"]
    model = {"name": "Sandbox", "identifier": "sandbox", "provider": "internal", "base_url": "http://sandbox.invalid/v1",
             "is_public": False, "input_cost_per_1k": 0, "output_cost_per_1k": 0}
    models = json.loads(gateway.ask("GET", "/projects/1/models", session=True)[1])
    model["base_url"] = models[0]["model_definition"].get("base_url") or model["base_url"]
    model["identifier"] = models[0]["model_definition"]["identifier"]
    status, body, _ = gateway.ask("POST", f"/projects/{project}/models", {"model_definition": model}, session=True)
    assert status == 201, body
    limits = {"requests_per_hour": None, "loop_requests": None}
    settings = {"project": {"settings": {"limits": limits}}}
    assert gateway.ask("PATCH", f"/projects/{project}", settings, session=True)[0] == 200
    status, body, _ = gateway.ask("POST", "/keys", {"name": "other", "project_id": project}, session=True)
    assert status == 201, body
    return json.loads(body)["raw_key"], model["identifier"]


class Caller:
    """A kept connection with a key."""

    def __init__(self, gateway, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, path, body):
        self.connection.request("POST", "/api/v1" + path, body, self.headers)
        response = self.connection.getresponse()
        return response.status, response.read()


def steady(gateway, key, model, seconds, rate, workers=4):
    """Latencies of chat completions, from when each was due."""
    opener = Caller(gateway, key)
    trace = json.loads(opener.post("/traces", "{}")[1])["id"]
    text = "An ordinary sentence of a letter to a colleague about the plans of next week. " * 26
    latencies, lock, begin = [], threading.Lock(), time.perf_counter() + 0.5

    def work(number):
        caller = Caller(gateway, key)
        for turn in range(number, int(seconds * rate), workers):
            due = begin + turn / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            body = json.dumps({"trace_id": trace, "model": model, "messages": [{"role": "user", "content": f"{turn} {text}"}]})
            status, answer = caller.post("/chat/completions", body)
            assert status == 200, answer
            with lock:
                latencies.append(time.perf_counter() - due)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return latencies


def attack(gateway, text, size, stop, answered):
    trace = gateway.trace()
    body = json.dumps({"trace_id": trace, "input": text * (size // len(text))}).encode()
    turn = 0
    while not stop.is_set():
        turn += 1
        caller = Caller(gateway, KEY)
        if turn % 3 == 0:
            # Hangs up while its text is judged, or waits for its turn.
            caller.connection.timeout = 0.3
        try:
            answered.append(caller.post("/checks", body)[0])
        except (OSError, http.client.HTTPException):
            answered.append("hung up")
        finally:
            caller.connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--attackers", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=25)
    parser.add_argument("--megabytes", type=float, default=9)
    arguments = parser.parse_args()
    gateway = Gateway(arguments.binary)
    try:
        key, model = second_project(gateway)
        steady(gateway, key, model, 3, arguments.rate)
        for name, text in TEXTS.items():
            phases = {"before": steady(gateway, key, model, arguments.seconds, arguments.rate)}
            stop, answered = threading.Event(), []
            size = int(arguments.megabytes * 1_000_000)
            threads = [threading.Thread(target=attack, args=(gateway, text, size, stop, answered)) for _ in range(arguments.attackers)]
            [thread.start() for thread in threads]
            time.sleep(1)
            phases["during"] = steady(gateway, key, model, arguments.seconds, arguments.rate)
            stop.set()
            [thread.join() for thread in threads]
            time.sleep(2)
            phases["after"] = steady(gateway, key, model, arguments.seconds, arguments.rate)
            print(f"{name}: " + ", ".join(
                f"{phase} p50 {percentile(values, 0.5):.1f} ms, p99 {percentile(values, 0.99):.1f} ms" for phase, values in phases.items()))
            print(f"  attackers were answered {({str(status): answered.count(status) for status in set(answered)})}", flush=True)
    finally:
        gateway.stop()


if __name__ == "__main__":
    main()

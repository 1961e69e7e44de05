#!/usr/bin/env python3
"""Kills gateways in the middle of calls, and looks for losses there and at the others.

    kills.py GATEWAY --postgres URL [--redis URL] [--rounds 50] [--calls 32]        GATEWAY: the binary

Starts three gateways on a database of its own at the PostgreSQL of the URL (made now, dropped at the end) and on a
Redis (its own, or the empty one of a URL), and a provider that takes 0.2 to 2 seconds for an answer. In each round one
of the gateways gets calls of a key with a cap and is killed (SIGKILL) as soon as `--calls` of them are at the provider,
while four clients call each of the others all the time; then it is started again. Once, a minute after the last round,
the script counts what is still reserved in Redis, and looks for the step of every call that was answered, at a gateway
that was not killed last. Exit code 1 if a claim fails. Standard library; loopback only.
"""
import argparse
import collections
import contextlib
import http.client
import json
import random
import sys
import tempfile
import threading
import time

from fleet import Database, Fleet, Gateway, Redis
from gateway import lift_limits
from upstream import Upstream

NODES, OTHER_CLIENTS = 3, 4
# More clients than calls that have to be open, since some of them are between two calls.
SPARE_CLIENTS = 8
SETTLED_AFTER = 60


class Client(threading.Thread):
    """Calls one gateway, one call after the other, until it is stopped or its connection breaks."""

    def __init__(self, node, key, stop):
        super().__init__(daemon=True)
        self.node, self.key, self.stop = node, key, stop
        self.trace, self.answered, self.failed, self.broken = None, [], [], None

    def run(self):
        try:
            gateway = Gateway(self.node.base).with_key(self.key)
            self.trace = gateway.call("POST", "/traces", {})["id"]
            body = {"trace_id": self.trace, "model": f"mock-{self.node.number}", "input": "How are things?"}
            while not self.stop.is_set():
                status, headers, read = gateway.send("POST", "/runs", body)
                if status == 200:
                    self.answered.append(json.loads(read)["step_id"])
                else:
                    self.failed.append(f"{status} {read.decode()[:200]}")
                    self.stop.wait(float(headers.get("retry-after", "0")))
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            self.broken = repr(error)


class Figures:
    """The clients and times of all rounds."""

    def __init__(self):
        self.victims, self.others = [], []
        self.at_provider, self.ready_after = [], []


def prepare(owner, upstream, cap):
    """A model for each gateway, and a key under a cap that is far away; its raw form."""
    lift_limits(owner, 1)
    for number in range(NODES):
        model = {"name": f"mock-{number}", "identifier": f"mock-{number}", "provider": "openai", "is_public": False,
                 "base_url": f"http://127.0.0.1:{upstream.port}/{number}/v1", "api_key": "sk-upstream",
                 "input_cost_per_1k": 0.00015, "output_cost_per_1k": 0.0006}
        owner.call("POST", "/projects/1/models", {"model_definition": model})
    return owner.call("POST", "/keys", {"name": "kills", "project_id": 1, "hourly_limit": cap})["raw_key"]


def wait_for_calls(upstream, victim, calls):
    """Waits until so many calls of a gateway are at the provider at the same time; how many those are."""
    until = time.monotonic() + 60
    while (count := upstream.open[str(victim.number)]) < calls:
        if time.monotonic() > until:
            raise RuntimeError(f"only {count} calls are open: {victim.log.read_text()[-1000:]}")
        time.sleep(0.002)
    return count


def one_round(fleet, upstream, key, victim, args, figures):
    stop = threading.Event()
    victims = [Client(victim, key, stop) for _ in range(args.calls + SPARE_CLIENTS)]
    others = [Client(node, key, stop) for node in fleet.nodes if node is not victim for _ in range(OTHER_CLIENTS)]
    for client in others + victims:
        client.start()
    try:
        # Some are answered before, so that answers are on their way when it dies.
        time.sleep(random.uniform(1, 2))
        figures.at_provider.append(wait_for_calls(upstream, victim, args.calls))
        victim.kill()
        figures.ready_after.append(victim.start())
    finally:
        stop.set()
        for client in others + victims:
            client.join(120)
    figures.victims += victims
    figures.others += others


def steps_of(gateway, clients):
    """The recorded steps of the traces of some clients: their states by their ids."""
    states = {}
    for client in clients:
        if client.trace is not None:
            trace = gateway.call("GET", f"/traces/{client.trace}")
            states.update({step["id"]: step["status"] for step in trace["steps"]})
    return states


def report(figures, states, right_after, left, args):
    """Prints the table; whether all claims hold."""
    answered = [step for client in figures.victims + figures.others for step in client.answered]
    missing = [step for step in answered if states.get(step) != "completed"]
    failed = [text for client in figures.others for text in client.failed + ([client.broken] if client.broken else [])]
    early = [text for client in figures.victims for text in client.failed]
    twice = [step for step, count in collections.Counter(answered).items() if count > 1]
    rows = [
        ("kills", len(figures.at_provider)),
        ("calls at the provider at a kill, least and most", f"{min(figures.at_provider)}, {max(figures.at_provider)}"),
        ("answered calls", len(answered)),
        ("**answered calls without their step**", len(missing)),
        ("step ids that were given twice", len(twice)),
        ("calls that broke off with a gateway", sum(client.broken is not None for client in figures.victims)),
        ("steps that were recorded as failed", sum(state == "failed" for state in states.values())),
        ("calls to the other gateways", sum(len(client.answered) for client in figures.others) + len(failed)),
        ("**of these failed**", len(failed)),
        ("calls that were refused by a gateway before it was killed", len(early)),
        ("seconds until a killed gateway was ready again, median and longest",
         f"{sorted(figures.ready_after)[len(figures.ready_after) // 2]:.1f}, {max(figures.ready_after):.1f}"),
        ("reservations at the end of the last round", right_after[0]),
        (f"**reservations {SETTLED_AFTER} s later**", left[0]),
        ("keys with money set aside then", left[1]),
    ]
    print("| | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    for name, found in (("without step", missing), ("failed elsewhere", failed), ("refused before", early)):
        if found:
            print(f"{name}: {found[:5]}")
    # Refusals before a kill are no loss: they are shown so that nobody takes a busy machine for a quiet one.
    is_well = not (missing or twice or failed or left[0] or left[1])
    print("every claim holds" if is_well else "A CLAIM FAILS")
    print(json.dumps({"rounds": args.rounds, "calls": args.calls, "answered": len(answered), "missing": len(missing),
                      "failed_elsewhere": len(failed), "reservations": left[0]}))
    return is_well


def measure(args, stack):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-kills-"))
    database = stack.enter_context(Database(args.postgres))
    redis = stack.enter_context(Redis(folder, args.redis))
    upstream = Upstream(lambda: random.uniform(0.2, 2))
    fleet = stack.enter_context(Fleet(NODES, args.gateway, folder, database, redis))
    fleet.run(NODES)
    key = prepare(fleet.owner(), upstream, cap=1e6)
    # The other gateways know of the key and of the models within a second.
    time.sleep(2)
    figures = Figures()
    for number in range(args.rounds):
        victim = fleet.nodes[number % NODES]
        one_round(fleet, upstream, key, victim, args, figures)
        print(f"# round {number + 1}: {figures.at_provider[-1]} calls were at the provider", file=sys.stderr, flush=True)
    right_after = redis.reservations()
    time.sleep(SETTLED_AFTER)
    left = redis.reservations()
    gateway = Gateway(fleet.nodes[args.rounds % NODES].base).with_key(key)
    return report(figures, steps_of(gateway, figures.victims + figures.others), right_after, left, args)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("--postgres", required=True, help="a user that may make databases")
    parser.add_argument("--redis", help="an empty Redis; without it redis-server is started")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--calls", type=int, default=32)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        is_well = measure(args, stack)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()

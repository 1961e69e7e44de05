#!/usr/bin/env python3
"""The processor time that live pages of the console cost a chat call: pairs of rounds with and without them, in one run.

    ROUND_SECONDS=60 live_cost.py GATEWAY KIT [PAIRS]      KIT: the folder of `upstream` and `pload` (bench/perf/perfkit)

Three pages are open as a browser holds them: overview, traces and jobs. Each round is a closed loop of 32 connections,
and begins when the pages show all that they show: what is measured is pages that stay open. A round shorter than the
longest rest of a part of a page (a minute) may miss that part. CPU time of rounds differs by some percent from minute
to minute on a shared machine, so the pages are measured alone as well, after the load and with all that it has written:
rounds with five calls a second, which let every part of a page change, as a part of the time that the load has taken.
Standard library; loopback only.
"""
import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(BENCH / "fleet"), str(BENCH / "perf")]
from chat_load import ChatLoad, capitals, cpu_micros  # noqa: E402
from fleet import EMAIL, PASSWORD, Node, free_port  # noqa: E402

PAGES = ("/live/overview?project=2", "/live/traces?project=2", "/live/jobs?project=2")
# The list sums the steps of the newest 50: with few traces each would have thousands.
TRACES = 20_000
QUIET_SECONDS = 5
# Calls a second while pages are measured alone.
TRICKLE = 5
TRICKLE_PAIRS = 3
SECONDS = float(os.environ.get("ROUND_SECONDS", "60"))


class Page(threading.Thread):
    """A page that is open: reads its events until it is closed, and counts them."""

    def __init__(self, address, path, cookie):
        super().__init__(daemon=True)
        self.events = 0
        self.connection = http.client.HTTPConnection(address, timeout=30)
        self.connection.request("GET", path, headers={"cookie": cookie, "sec-fetch-site": "same-origin"})
        self.response = self.connection.getresponse()
        if self.response.status != 200:
            sys.exit(f"{path}: {self.response.status} {self.response.read()[:200]}")
        self.start()

    def run(self):
        try:
            for line in self.response:
                self.events += line.startswith(b"data:")
        except (OSError, ValueError, AttributeError):
            pass

    def close(self):
        self.connection.sock and self.connection.sock.shutdown(2)
        self.join(5)


def wait_for_all(pages):
    """Waits until pages have been sent nothing for a few seconds: without calls nothing changes."""
    seen = -1
    while (now := sum(page.events for page in pages)) != seen:
        seen = now
        time.sleep(QUIET_SECONDS if pages else 0)


def main():
    gateway_path, kit = sys.argv[1:3]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 6
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream = f"127.0.0.1:{free_port()}"
        provider = subprocess.Popen([f"{kit}/upstream"], env={**os.environ, "LISTEN": upstream})
        stack.callback(provider.wait)
        stack.callback(provider.kill)
        node = Node(0, os.path.abspath(gateway_path), folder, {})
        stack.callback(node.stop)
        node.start()
        load = ChatLoad(kit, folder, node.base, (EMAIL, PASSWORD), upstream, TRACES, capitals())
        measure(node, load, pairs)


def measure(node, load, pairs):
    login = http.client.HTTPConnection(node.address)
    login.request("POST", "/api/v1/session", json.dumps({"email": EMAIL, "password": PASSWORD}), {"content-type": "application/json"})
    cookie = login.getresponse().getheader("set-cookie").split(";")[0]

    def round_of(seconds, is_open):
        pages = [Page(node.address, path, cookie) for path in PAGES] if is_open else []
        wait_for_all(pages)
        shown = sum(page.events for page in pages)
        figures = load.run(node.process.pid, node.base, seconds)
        events = sum(page.events for page in pages) - shown
        for page in pages:
            page.close()
        return *figures, events

    round_of(3, False)
    ratios, taken = [], []
    for pair in range(pairs):
        order = (False, True) if pair % 2 == 0 else (True, False)
        rounds = {is_open: round_of(SECONDS, is_open) for is_open in order}
        (alone, rate, _), (beside, _, events) = rounds[False], rounds[True]
        ratios.append(beside / alone)
        taken.append(alone * rounds[False][1])
        print(f"pair {pair}: {alone:.0f} us a call alone, {beside:.0f} with live pages ({events} events), "
              f"ratio {beside / alone:.4f}, {rate:.0f} calls/s", flush=True)
    print(f"median ratio {statistics.median(ratios):.4f} (from {min(ratios):.4f} to {max(ratios):.4f})", flush=True)

    def trickle(is_open):
        pages = [Page(node.address, path, cookie) for path in PAGES] if is_open else []
        wait_for_all(pages)
        began = cpu_micros(node.process.pid)
        load.trickle(node.base, TRICKLE, SECONDS)
        used = cpu_micros(node.process.pid) - began
        for page in pages:
            page.close()
        return used / SECONDS

    costs = []
    for pair in range(TRICKLE_PAIRS):
        order = (False, True) if pair % 2 == 0 else (True, False)
        rounds = {is_open: trickle(is_open) for is_open in order}
        costs.append(rounds[True] - rounds[False])
        print(f"pair {pair}: {rounds[False] / 1000:.1f} ms a second without pages, {rounds[True] / 1000:.1f} with them", flush=True)
    cost = statistics.median(costs)
    print(f"pages take {cost / 1000:.1f} ms a second, {100 * cost / statistics.median(taken):.2f} % of what the load takes")


if __name__ == "__main__":
    main()

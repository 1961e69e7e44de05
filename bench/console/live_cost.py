#!/usr/bin/env python3
"""The processor time that live pages of the console cost a chat call, of two gateways side by side.

    ROUND_SECONDS=60 live_cost.py GATEWAY KIT [PAIRS]      KIT: the folder of `upstream` and `pload` (bench/perf/perfkit)

Two gateways have the same load at the same time, a closed loop of 16 connections each, and three pages of one of them are
open as a browser holds them: overview, traces and jobs. In the second round of a pair they are open at the other one.
The ratio of a pair is the geometric mean of both rounds: the speed of a shared machine, which changes by some percent
from minute to minute, and whatever makes one of the processes faster, are in both sides of it. A round begins when the
pages show all that they show: what is measured is pages that stay open. A round shorter than the longest rest of a part
of a page (a minute) may miss that part.

The pages are measured alone as well, after the load and with all that it has written: rounds with five calls a second,
which let every part of a page change, as a part of the time that the load of both gateways has taken. Standard library;
loopback only.
"""
import concurrent.futures
import contextlib
import http.client
import json
import math
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
# Connections to each gateway.
CONNECTIONS = 16
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
        time.sleep(QUIET_SECONDS)


class Side:
    """A gateway with a load of its own, and with pages that can be opened."""

    def __init__(self, number, binary, kit, folder, upstream):
        self.node = Node(number, os.path.abspath(binary), folder, {})
        self.folder = pathlib.Path(folder, f"load-{number}")
        self.folder.mkdir()
        self.kit, self.upstream = kit, upstream

    def start(self):
        self.node.start()
        self.load = ChatLoad(self.kit, self.folder, self.node.base, (EMAIL, PASSWORD), self.upstream, TRACES, capitals())
        login = http.client.HTTPConnection(self.node.address)
        body = json.dumps({"email": EMAIL, "password": PASSWORD})
        login.request("POST", "/api/v1/session", body, {"content-type": "application/json"})
        self.cookie = login.getresponse().getheader("set-cookie").split(";")[0]

    def open(self):
        """Opens the pages, and waits until they show all that they show."""
        pages = [Page(self.node.address, path, self.cookie) for path in PAGES]
        wait_for_all(pages)
        return pages


def main():
    gateway_path, kit = sys.argv[1:3]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 6
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream = f"127.0.0.1:{free_port()}"
        provider = subprocess.Popen([f"{kit}/upstream"], env={**os.environ, "LISTEN": upstream})
        stack.callback(provider.wait)
        stack.callback(provider.kill)
        sides = [Side(number, gateway_path, kit, folder, upstream) for number in range(2)]
        for side in sides:
            stack.callback(side.node.stop)
            side.start()
        measure(sides, pairs)


def measure(sides, pairs):
    run_both(sides, 3)
    ratios, taken = [], []
    for pair in range(pairs):
        parts, events = [], 0
        for opened in sides if pair % 2 == 0 else sides[::-1]:
            (beside, beside_rate), (alone, rate), count = round_of(opened, sides)
            parts.append(beside / alone)
            taken.append(alone * rate + beside * beside_rate)
            events += count
        ratios.append(math.sqrt(parts[0] * parts[1]))
        print(f"pair {pair}: {alone:.0f} us a call alone, {rate:.0f} calls/s, {events} events of pages, "
              f"rounds {parts[0]:.4f} and {parts[1]:.4f}, ratio {ratios[-1]:.4f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.4f} (from {min(ratios):.4f} to {max(ratios):.4f})", flush=True)
    measure_alone(sides[0], statistics.median(taken))


def round_of(opened, sides):
    """The figures of the side whose pages are open and of the other one, and how much the pages were sent."""
    pages = opened.open()
    shown = sum(page.events for page in pages)
    figures = run_both(sides, SECONDS)
    events = sum(page.events for page in pages) - shown
    for page in pages:
        page.close()
    other, = (side for side in sides if side is not opened)
    return figures[opened], figures[other], events


def run_both(sides, seconds):
    """Microseconds a call, and calls a second, of each side; both run at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(sides)) as pool:
        running = {side: pool.submit(side.load.run, side.node.process.pid, side.node.base, seconds,
                                     connections=CONNECTIONS) for side in sides}
        return {side: future.result() for side, future in running.items()}


def measure_alone(side, taken):
    """Measures the pages without a load, as a part of the microseconds that the load has taken in a second."""
    pid = side.node.process.pid

    def trickle(is_open):
        pages = side.open() if is_open else []
        began = cpu_micros(pid)
        side.load.trickle(side.node.base, TRICKLE, SECONDS)
        used = cpu_micros(pid) - began
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
    print(f"pages take {cost / 1000:.1f} ms a second, {100 * cost / taken:.2f} % of what the load takes")


if __name__ == "__main__":
    main()

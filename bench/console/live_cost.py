#!/usr/bin/env python3
"""The processor time that live pages of the console cost a chat call: pairs of rounds with and without them, in one run.

    ROUND_SECONDS=10 live_cost.py GATEWAY KIT [PAIRS]      KIT: the folder of `upstream` and `pload` (bench/perf/perfkit)

Three pages are open as a browser holds them: overview, traces and jobs. Each round is a closed loop of 32 connections.
Standard library; loopback only.
"""
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

PERF = pathlib.Path(__file__).parent.parent / "perf"
GATEWAY, UPSTREAM = "127.0.0.1:9461", "127.0.0.1:9460"
EMAIL, PASSWORD = "owner@bench.invalid", "bench-owner-password"
PAGES = ("/live/overview?project=2", "/live/traces?project=2", "/live/jobs?project=2")
# The list sums the steps of the newest 50: with few traces each would have thousands.
TRACES = 20_000
SECONDS = float(os.environ.get("ROUND_SECONDS", "10"))


def cpu(pid):
    """User and system time of a process in microseconds."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 / os.sysconf("SC_CLK_TCK")


def wait_until_ready(address):
    for _ in range(300):
        try:
            connection = http.client.HTTPConnection(address, timeout=1)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("the gateway is not ready")


class Page(threading.Thread):
    """A page that is open: reads its events until it is closed, and counts them."""

    def __init__(self, path, cookie):
        super().__init__(daemon=True)
        self.events = 0
        self.connection = http.client.HTTPConnection(GATEWAY, timeout=30)
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


def main():
    gateway_path, kit = sys.argv[1:3]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 6
    with tempfile.TemporaryDirectory() as folder:
        upstream = subprocess.Popen([f"{kit}/upstream"], env={**os.environ, "LISTEN": UPSTREAM})
        environment = {"PATH": os.environ["PATH"], "SLUICE_LISTEN": GATEWAY, "SLUICE_DATA_DIR": f"{folder}/data",
                       "SLUICE_OWNER_EMAIL": EMAIL, "SLUICE_OWNER_PASSWORD": PASSWORD, "SLUICE_LOG": "error",
                       "SLUICE_METRICS_LISTEN": "off", "SLUICE_EGRESS_ALLOW": "127.0.0.1"}
        gateway = subprocess.Popen([gateway_path, "serve"], env=environment)
        try:
            wait_until_ready(GATEWAY)
            measure(gateway.pid, kit, folder, pairs)
        finally:
            gateway.terminate()
            gateway.wait(60)
            upstream.kill()


def measure(pid, kit, folder, pairs):
    setup = json.loads(subprocess.check_output(
        [sys.executable, PERF / "sluice_setup.py", f"http://{GATEWAY}", EMAIL, PASSWORD, f"http://{UPSTREAM}/v1",
         str(TRACES)]))
    body = {"model": "mock", "max_tokens": 64, "messages": [{"role": "user", "content": "@TEXT@"}], **setup["extra_body"]}
    files = {"body": json.dumps(body), "ids": "\n".join(setup["ids"]),
             "texts": "\n".join(f"What is the capital of country number {n}?" for n in range(997))}
    for name, text in files.items():
        pathlib.Path(folder, name).write_text(text)
    command = [f"{kit}/pload", "--url", f"http://{GATEWAY}/api/v1/chat/completions", "--body", f"{folder}/body",
               "--ids", f"{folder}/ids", "--texts", f"{folder}/texts", "--conns", "32"]
    for name, value in setup["headers"].items():
        command += ["-H", f"{name}: {value}"]
    login = http.client.HTTPConnection(GATEWAY)
    login.request("POST", "/api/v1/session", json.dumps({"email": EMAIL, "password": PASSWORD}), {"content-type": "application/json"})
    cookie = login.getresponse().getheader("set-cookie").split(";")[0]

    def round_of(seconds, is_open):
        pages = [Page(path, cookie) for path in PAGES] if is_open else []
        began = cpu(pid)
        answered = json.loads(subprocess.check_output([*command, "--secs", str(seconds)]))
        used = cpu(pid) - began
        events = sum(page.events for page in pages)
        for page in pages:
            page.close()
        if answered["errors"] or not answered["ok"]:
            sys.exit(f"calls failed: {answered}")
        return used / answered["ok"], answered["ok"] / seconds, events

    round_of(3, False)
    ratios = []
    for pair in range(pairs):
        order = (False, True) if pair % 2 == 0 else (True, False)
        rounds = {is_open: round_of(SECONDS, is_open) for is_open in order}
        (alone, rate, _), (beside, _, events) = rounds[False], rounds[True]
        ratios.append(beside / alone)
        print(f"pair {pair}: {alone:.0f} us a call alone, {beside:.0f} with live pages ({events} events), "
              f"ratio {beside / alone:.4f}, {rate:.0f} calls/s", flush=True)
    print(f"median ratio {statistics.median(ratios):.4f} (from {min(ratios):.4f} to {max(ratios):.4f})")


if __name__ == "__main__":
    main()

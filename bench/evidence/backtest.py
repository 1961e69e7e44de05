#!/usr/bin/env python3
"""The time of a backtest, and what it costs live requests.

    backtest.py GATEWAY [--calls 100000] [--pairs 6] [--seconds 20] [--rate 50]        GATEWAY: the binary

Starts a gateway in a folder of its own (on the database of SLUICE_DATABASE_URL, if that is set: give it an empty one),
records calls of the sandbox model, runs three backtests alone, and then pairs of rounds of live calls without and with
backtests beside them, the order turned round in every other pair. Calls of a round are due at a fixed rate and are
timed from when they are due. Standard library; loopback only.
"""
import argparse
import concurrent.futures
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from gateway import Gateway, lift_limits, new_key

ADDRESS = "127.0.0.1:9471"
EMAIL, PASSWORD = "owner@bench.invalid", "bench-owner-password"
FILLERS, LIVE = 8, 16
WORDS = "invoice meeting figures Friday contract summary customer answer table release weather budget design limit".split()
TASKS = ("Summarise in one sentence:", "Translate into French:", "What follows from this?",
         "Prove step by step, and compare three approaches with their trade-offs:", "Write a function for this:")
PERSONAL = ("", "", "", "", " Write to jane.doe@acme.org.", " My number is +49 30 901820.", " The project Bluebird is late.")


def prompt(dice):
    """A question of 10 to 400 words; some have personal data, some a name that the draft blocks."""
    words = " ".join(dice.choices(WORDS, k=dice.choice((10, 30, 30, 60, 120, 400))))
    return f"{dice.choice(TASKS)} {words}.{dice.choice(PERSONAL)}"


def draft(number):
    """Rules, tiers, prices and limits: everything that a backtest looks at. Another one each time."""
    return {"safety": {"rules": [{"name": "bluebird", "pattern": f"(?i)bluebird|number {number} of none"}]},
            "routing": {"complexity_threshold": 0.4},
            "prices": {"sandbox": {"input_cost_per_1k": 0.0001, "output_cost_per_1k": 0.0002}},
            "limits": {"requests_per_hour": 10_000_000, "hourly_limit": 1_000_000}, "monthly_budget": 1_000_000}


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def wait_until_ready(base):
    for _ in range(600):
        try:
            if Gateway(base).send("GET", "/models")[0] in (200, 401):
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("the gateway is not ready")


def execute(gateway, trace, text):
    status, _, read = gateway.send("POST", "/executions", {"trace_id": trace, "input": text})
    if status != 200:
        raise RuntimeError(f"{status}: {read.decode()[:200]}")


def in_threads(count, work):
    """Runs `work` with the numbers of as many threads, and raises the first error of one."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result()


def fill(base, key, calls):
    """Records calls, and gives the seconds that it took."""
    left, lock = iter(range(calls)), threading.Lock()

    def work(seed):
        gateway, dice, trace = Gateway(base).with_key(key), random.Random(seed), None
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            if trace is None or dice.random() < 0.05:
                trace = gateway.call("POST", "/traces", {})["id"]
            execute(gateway, trace, f"{number}: {prompt(dice)}")

    began = time.monotonic()
    in_threads(FILLERS, work)
    return time.monotonic() - began


class Backtests:
    """Asks for backtests of the last day, one after the other."""

    def __init__(self, base, calls):
        self.session, self.calls, self.number = Gateway(base).sign_in(EMAIL, PASSWORD), calls, 0

    def one(self):
        """The seconds of a backtest, and its report."""
        self.number += 1
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 86_400))
        began = time.monotonic()
        path = "/projects/1/backtests"
        job = self.session.call("POST", path, {"settings": draft(self.number), "from": since})["job_id"]
        while True:
            found = self.session.call("GET", f"{path}/{job}")
            if found["status"] == "failed":
                raise RuntimeError(f"a backtest failed: {found}")
            if found["status"] == "completed":
                break
            # A poll takes time of the interpreter that times the calls.
            time.sleep(1)
        took, report = time.monotonic() - began, found["report"]
        if report["steps"]["judged"] < self.calls:
            raise RuntimeError(f"not all were judged: {report['steps']}")
        return took, report

    def until(self, end, times):
        """Runs backtests until a time; the last one goes on behind it."""
        while time.monotonic() < end:
            times.append(self.one()[0])


def live(base, key, rate, seconds):
    """Milliseconds of calls that are due at a rate, each from when it is due to the last byte."""
    times, failed, lock = [], [], threading.Lock()
    due, began = iter(range(int(rate * seconds))), time.monotonic() + 0.2

    def work(seed):
        gateway, dice = Gateway(base).with_key(key), random.Random(seed)
        trace = gateway.call("POST", "/traces", {})["id"]
        while True:
            with lock:
                number = next(due, None)
            if number is None:
                return
            at = began + number / rate
            time.sleep(max(0, at - time.monotonic()))
            try:
                execute(gateway, trace, prompt(dice))
            except (OSError, RuntimeError) as error:
                failed.append(str(error))
            times.append((time.monotonic() - at) * 1000)

    in_threads(LIVE, work)
    if failed:
        raise RuntimeError(f"{len(failed)} calls failed: {failed[0]}")
    return times


def measure(base, args):
    session = Gateway(base).sign_in(EMAIL, PASSWORD)
    lift_limits(session, 1)
    key = new_key(session, 1)
    took = fill(base, key, args.calls)
    print(f"{args.calls} calls were recorded in {took:.0f} s")
    backtests = Backtests(base, args.calls)
    alone = [backtests.one()[0] for _ in range(3)]
    _, report = backtests.one()
    print(f"backtest alone: {', '.join(f'{took:.1f}' for took in alone)} s; {report['steps']}")
    live(base, key, args.rate, 3)
    ratios, beside, pooled = [], [], {False: [], True: []}
    print("| pair | p50 without, ms | p50 with | p99 without | p99 with | ratio of p99 |\n|---|---|---|---|---|---|")
    for pair in range(args.pairs):
        rounds = {}
        for is_beside in ((False, True) if pair % 2 == 0 else (True, False)):
            if not is_beside:
                rounds[False] = live(base, key, args.rate, args.seconds)
                continue
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                done = pool.submit(backtests.until, time.monotonic() + args.seconds, beside)
                time.sleep(0.5)
                rounds[True] = live(base, key, args.rate, args.seconds)
            # A round whose backtests failed is none: its calls had nothing beside them.
            done.result()
        without, beside_one = rounds[False], rounds[True]
        for is_beside, times in rounds.items():
            pooled[is_beside] += times
        ratios.append(percentile(beside_one, 0.99) / percentile(without, 0.99))
        figures = [percentile(times, share) for share in (0.5, 0.99) for times in (without, beside_one)]
        print(f"| {pair + 1} | " + " | ".join(f"{figure:.2f}" for figure in figures) + f" | {ratios[-1]:.3f} |")
    print(f"p99 beside a backtest: {100 * (statistics.median(ratios) - 1):+.1f} % (median of {args.pairs} pairs)")
    of_all = {share: percentile(pooled[True], share) / percentile(pooled[False], share) for share in (0.5, 0.9, 0.99)}
    print("of all calls of all rounds: " + ", ".join(f"p{share * 100:.0f} {ratio:.3f}" for share, ratio in of_all.items()))
    print(f"backtest beside live calls: {statistics.median(beside):.1f} s (median of {len(beside)}, longest {max(beside):.1f} s)")
    print(json.dumps({"calls": args.calls, "alone_s": alone, "beside_s": beside, "p99_ratios": ratios}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=50)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "SLUICE_LISTEN": ADDRESS, "SLUICE_DATA_DIR": f"{folder}/data",
                       "SLUICE_OWNER_EMAIL": EMAIL, "SLUICE_OWNER_PASSWORD": PASSWORD, "SLUICE_LOG": "error",
                       "SLUICE_METRICS_LISTEN": "off"}
        for name in ("SLUICE_DATABASE_URL", "SLUICE_MASTER_KEY"):
            if name in os.environ:
                environment[name] = os.environ[name]
        gateway = subprocess.Popen([args.gateway, "serve"], env=environment, stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(f"http://{ADDRESS}")
            measure(f"http://{ADDRESS}", args)
        finally:
            gateway.terminate()
            gateway.wait(60)


if __name__ == "__main__":
    main()

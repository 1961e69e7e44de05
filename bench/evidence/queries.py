#!/usr/bin/env python3
"""The time of every filter of `GET /traces` and of every `group_by` over 30 days, at a running gateway.

    queries.py BASE_URL EMAIL PASSWORD [--project 1] [--runs 20] [--json]

Values are taken from the records: of each filter the dearest one of its groups, the last of the (at most 1,000) groups,
and one that no trace has. Lists are asked for in pages of 50, also from the middle and the end of the 30 days. `first`
is the first request of each, `median` and `worst` are of those that follow. Answers other than 200 (503 after 5 s) count
with their times and are listed at the end, as are filters of which the records have no value. Groups are
asked for cold, by periods that nobody has asked for (720 h, 719 h, ...), and warm, by the same period again. For a cold
cache of the database and of the system, restart both and drop the caches before: `first` is what they cost then.
The script lifts the limits of the project and makes a key in it.
"""
import argparse
import json
import statistics
import time
import urllib.parse
from collections import Counter

from gateway import Gateway, lift_limits, new_key

HOURS = 30 * 24
PAGE = 50


FAILED = []


def timed(gateway, path):
    """Milliseconds to the last byte, and the answer; an empty one, which is noted, if it failed."""
    began = time.perf_counter()
    status, headers, read = gateway.send("GET", path)
    took = (time.perf_counter() - began) * 1000
    if status != 200:
        FAILED.append(f"{path}: {status} after {took:.0f} ms, {read.decode()[:200]}")
        return took, headers, {} if "group_by" in path else []
    return took, headers, json.loads(read)


def row(name, first, rest, found):
    return {"query": name, "first_ms": first, "median_ms": statistics.median(rest), "worst_ms": max(rest), "found": found}


def frequent(values):
    """The most frequent of values, if there is any."""
    common = Counter(value for value in values if value is not None).most_common(1)
    return common[0][0] if common else None


def groups(gateway, project, dimension):
    """The values of a dimension that have one, dearest first."""
    path = f"/stats?project_id={project}&window={HOURS}&group_by={urllib.parse.quote(dimension)}"
    return [group["value"] for group in timed(gateway, path)[2].get("groups", []) if group["value"] is not None]


def filters(key, session, project):
    """The filters with values: names and lists of pairs."""
    listed = timed(key, f"/traces?per_page={PAGE}")[2]
    details = [detail for trace in listed[:10] if (detail := timed(key, f"/traces/{trace['id']}")[2])]
    steps = [step for detail in details for step in detail["steps"]]
    metadata = Counter((name, value) for trace in listed for name, value in (trace.get("metadata") or {}).items()
                       if isinstance(value, (str, int, bool)))
    tags = Counter(pair for step in steps for pair in (step.get("tags") or {}).items())
    found, missing = {"no filter": []}, []
    for name in ("user", "session", "model", "key"):
        values = groups(session, project, name)
        for kind, value in (("dearest", values[:1]), ("last", values[-1:])):
            if value:
                found[f"{name}, {kind}"] = [(name, value[0])]
            else:
                missing.append(f"{name}, {kind}")
    for name in ("user", "session", "tag[absent]", "metadata[absent]"):
        found[f"{name}, of no trace"] = [(name, "of-no-trace")]
    for kind, pairs in (("tag", tags), ("metadata", metadata)):
        if not pairs:
            missing.append(kind)
        for (name, value), _ in pairs.most_common(1):
            text = value if isinstance(value, str) else json.dumps(value)
            found[f"{kind}[{name}]"] = [(f"{kind}[{name}]", text)]
    for name, values in {
        "status": ("completed", "pending", "failed", "replay"), "grade": "ABCDF", "finding": ("pii", "injection", "secret"),
        "has_error": ("true", "false"), "min_cost": ("0.000001", "1000"), "min_latency_ms": ("1", "1000000"),
    }.items():
        for value in values:
            found[f"{name}={value}"] = [(name, value)]
    found["from, to: one day"] = [("from", day(15)), ("to", day(15))]
    found["from: 30 days"] = [("from", day(30))]
    found["page=100"] = [("page", "100")]
    model, user = (frequent(step.get(name) for step in steps) for name in ("model", "user"))
    pairs = {"model and grade": [("model", model), ("grade", "A")], "user and has_error=false": [("user", user), ("has_error", "false")],
             "finding and min_cost": [("finding", "pii"), ("min_cost", "0.000001")],
             "model, has_error=false and a day": [("model", model), ("has_error", "false"), ("from", day(15)), ("to", day(15))]}
    for name, values in pairs.items():
        if all(value for _, value in values):
            found[name] = values
        else:
            missing.append(name)
    return found, missing


def day(ago):
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() - ago * 86400))


def anchors(key):
    """Traces of the middle and of the end of the 30 days, for the pages behind them."""
    for ago in (15, 29):
        listed = timed(key, f"/traces?per_page=1&from={day(ago)}&to={day(ago)}")[2]
        if listed:
            yield ago, listed[0]["id"]


def traces(key, queries, runs):
    deep_pages = list(anchors(key))
    for name, pairs in queries.items():
        for order in ("newest", "oldest"):
            query = urllib.parse.urlencode([*pairs, ("per_page", PAGE), ("order", order)])
            first, _, page = timed(key, f"/traces?{query}")
            rest = [timed(key, f"/traces?{query}")[0] for _ in range(runs)]
            yield row(f"{name}, {order}", first, rest, len(page))
            if order == "newest" and len(page) == PAGE and "page=" not in name:
                # The page behind the last trace of this one, and those far behind.
                pages = [("next page", page[-1]["id"]), *((f"behind day {ago}", trace) for ago, trace in deep_pages)]
                for what, trace in pages:
                    deep = f"/traces?{query}&before={trace}"
                    first, _, page = timed(key, deep)
                    rest = [timed(key, deep)[0] for _ in range(runs)]
                    yield row(f"{name}, {what}", first, rest, len(page))


def usage(session, project, tags, runs):
    path = f"/stats?project_id={project}&group_by="
    for dimension in ["user", "session", "model", "key", "tier", "endpoint", *(f"tag:{tag}" for tag in tags)]:
        by = path + urllib.parse.quote(dimension)
        cold = [timed(session, f"{by}&window={HOURS - number}")[0] for number in range(runs)]
        _, _, answer = timed(session, f"{by}&window={HOURS}")
        warm = [timed(session, f"{by}&window={HOURS}")[0] for _ in range(runs)]
        yield row(f"group_by={dimension}, cold", cold[0], cold[1:] or cold, len(answer.get("groups", [])))
        yield row(f"group_by={dimension}, warm", warm[0], warm[1:] or warm, len(answer.get("groups", [])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("email")
    parser.add_argument("password")
    parser.add_argument("--project", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="one line of JSON for each query")
    args = parser.parse_args()
    session = Gateway(args.base).sign_in(args.email, args.password)
    lift_limits(session, args.project)
    key = session.with_key(new_key(session, args.project))
    # Groups first: what the filters ask of them is warm afterwards.
    tag_names = filters_of_tags(key)
    rows = list(usage(session, args.project, tag_names, args.runs))
    queries, missing = filters(key, session, args.project)
    rows += traces(key, queries, args.runs)
    if args.json:
        for one in rows:
            print(json.dumps(one))
        print(json.dumps({"failed": FAILED, "missing": missing}))
        return
    print("| query | first, ms | median, ms | worst, ms | rows |\n|---|---|---|---|---|")
    for one in rows:
        print("| {query} | {first_ms:.1f} | {median_ms:.1f} | {worst_ms:.1f} | {found} |".format(**one))
    slowest = max(rows, key=lambda one: one["worst_ms"])
    print(f"\n{len(rows)} queries, {args.runs} runs each; the slowest is {slowest['query']}: {slowest['worst_ms']:.1f} ms")
    print(f"without a value in the records: {', '.join(missing) or 'none'}")
    print("failed: " + ("\n".join(FAILED) or "none"))


def filters_of_tags(key):
    """The name of the most frequent tag of the latest traces."""
    listed = timed(key, "/traces?per_page=10")[2]
    details = [timed(key, f"/traces/{trace['id']}")[2] for trace in listed]
    steps = [step for detail in details if detail for step in detail["steps"]]
    name = frequent(name for step in steps for name in (step.get("tags") or {}))
    return [name] if name else []


if __name__ == "__main__":
    main()

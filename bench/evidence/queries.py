#!/usr/bin/env python3
"""The time of every filter of `GET /traces` and of every `group_by` over 30 days, at a running gateway.

    queries.py BASE_URL EMAIL PASSWORD [--project 1] [--runs 20] [--json]

Values are taken from the records: of each filter a frequent one and, where groups tell it, a rare one. Lists are asked
for in pages of 50. `first` is the first request of each, `median` and `worst` are of those that follow. Groups are
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


def timed(gateway, path):
    """Milliseconds to the last byte, and the answer."""
    began = time.perf_counter()
    status, headers, read = gateway.send("GET", path)
    took = (time.perf_counter() - began) * 1000
    if status != 200:
        raise SystemExit(f"{path}: {status} {read.decode()[:300]}")
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
    return [group["value"] for group in timed(gateway, path)[2]["groups"] if group["value"] is not None]


def filters(key, session, project):
    """The filters with values: names and lists of pairs."""
    listed = timed(key, f"/traces?per_page={PAGE}")[2]
    details = [timed(key, f"/traces/{trace['id']}")[2] for trace in listed[:10]]
    steps = [step for detail in details for step in detail["steps"]]
    metadata = Counter((name, value) for trace in listed for name, value in (trace.get("metadata") or {}).items()
                       if isinstance(value, (str, int, bool)))
    tags = Counter(pair for step in steps for pair in (step.get("tags") or {}).items())
    found = {"no filter": []}
    for name in ("user", "session", "model", "key"):
        values = groups(session, project, name)
        for kind, value in (("frequent", values[:1]), ("rare", values[-1:])):
            if value:
                found[f"{name}, {kind}"] = [(name, value[0])]
    for kind, pairs in (("tag", tags), ("metadata", metadata)):
        for (name, value), _ in pairs.most_common(1):
            text = value if isinstance(value, str) else json.dumps(value)
            found[f"{kind}[{name}]"] = [(f"{kind}[{name}]", text)]
    for name, values in {
        "status": ("completed", "pending", "failed", "replay"), "grade": "ABCDF", "finding": ("pii", "injection", "secret"),
        "has_error": ("true", "false"), "min_cost": ("0.000001", "1000"), "min_latency_ms": ("1", "1000000"),
    }.items():
        for value in values:
            found[f"{name}={value}"] = [(name, value)]
    day = lambda ago: time.strftime("%Y-%m-%d", time.gmtime(time.time() - ago * 86400))
    found["from, to: one day"] = [("from", day(15)), ("to", day(15))]
    found["from: 30 days"] = [("from", day(30))]
    found["page=100"] = [("page", "100")]
    model, user = (frequent(step.get(name) for step in steps) for name in ("model", "user"))
    pairs = {"model and grade": [("model", model), ("grade", "A")], "user and has_error=false": [("user", user), ("has_error", "false")],
             "finding and min_cost": [("finding", "pii"), ("min_cost", "0.000001")],
             "model, has_error=false and a day": [("model", model), ("has_error", "false"), ("from", day(15)), ("to", day(15))]}
    found |= {name: pairs for name, pairs in pairs.items() if all(value for _, value in pairs)}
    return found, [name for (name, _), _ in tags.most_common(1)]


def traces(key, queries, runs):
    for name, pairs in queries.items():
        for order in ("newest", "oldest"):
            query = urllib.parse.urlencode([*pairs, ("per_page", PAGE), ("order", order)])
            first, _, page = timed(key, f"/traces?{query}")
            rest = [timed(key, f"/traces?{query}")[0] for _ in range(runs)]
            yield row(f"{name}, {order}", first, rest, len(page))
            if order == "newest" and len(page) == PAGE and "page=" not in name:
                # The page behind the last trace of this one.
                deep = f"/traces?{query}&before={page[-1]['id']}"
                first, _, page = timed(key, deep)
                rest = [timed(key, deep)[0] for _ in range(runs)]
                yield row(f"{name}, next page", first, rest, len(page))


def usage(session, project, tags, runs):
    path = f"/stats?project_id={project}&group_by="
    for dimension in ["user", "session", "model", "key", "tier", "endpoint", *(f"tag:{tag}" for tag in tags)]:
        by = path + urllib.parse.quote(dimension)
        cold = [timed(session, f"{by}&window={HOURS - number}")[0] for number in range(runs)]
        _, _, answer = timed(session, f"{by}&window={HOURS}")
        warm = [timed(session, f"{by}&window={HOURS}")[0] for _ in range(runs)]
        yield row(f"group_by={dimension}, cold", cold[0], cold[1:] or cold, len(answer["groups"]))
        yield row(f"group_by={dimension}, warm", warm[0], warm[1:] or warm, len(answer["groups"]))


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
    queries, _ = filters(key, session, args.project)
    rows += traces(key, queries, args.runs)
    if args.json:
        for one in rows:
            print(json.dumps(one))
        return
    print("| query | first, ms | median, ms | worst, ms | rows |\n|---|---|---|---|---|")
    for one in rows:
        print("| {query} | {first_ms:.1f} | {median_ms:.1f} | {worst_ms:.1f} | {found} |".format(**one))
    slowest = max(rows, key=lambda one: one["worst_ms"])
    print(f"\n{len(rows)} queries, {args.runs} runs each; the slowest is {slowest['query']}: {slowest['worst_ms']:.1f} ms")


def filters_of_tags(key):
    """The name of the most frequent tag of the latest traces."""
    listed = timed(key, "/traces?per_page=10")[2]
    steps = [step for trace in listed for step in timed(key, f"/traces/{trace['id']}")[2]["steps"]]
    name = frequent(name for step in steps for name in (step.get("tags") or {}))
    return [name] if name else []


if __name__ == "__main__":
    main()

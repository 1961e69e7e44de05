"""Leaves out of a profile in text what was hardly ever run: thin.py LEAST < ALL > SOME

A function stays where one of its blocks was run LEAST times."""

import sys

least = int(sys.argv[1])
for block in sys.stdin.read().split("\n\n"):
    lines = block.strip("\n").split("\n")
    # The head of the file.
    while lines and (lines[0].startswith(":") or lines[0].startswith("# IR")):
        print(lines.pop(0))
    if "# Counter Values:" not in lines:
        continue
    begin = lines.index("# Counter Values:") + 1
    number = int(lines[lines.index("# Num Counters:") + 1])
    if max(map(int, lines[begin : begin + number])) >= least:
        print("\n".join(lines), end="\n\n")

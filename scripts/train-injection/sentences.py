"""Reads sentences.txt: patterns of sentences of our own, and draws sentences from them."""

import random
import re
from pathlib import Path

INNERMOST = re.compile(r"\{([^{}]*)\}")


def read(path=Path(__file__).with_name("sentences.txt")):
    """The patterns of a file: (whether an attack, language section, text, named lists)."""
    lists, patterns, section = {}, [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == "lang":
            section += 1
        elif line.startswith(("+ ", "- ")):
            patterns.append((line[0] == "+", section, line[2:].replace("\\n", "\n")))
        elif " = " in line and line.split(" = ")[0].isupper() or re.match(r"[A-Z0-9]+ = ", line):
            name, choices = line.split(" = ", 1)
            lists[name] = choices
    return patterns, lists


def draw(pattern, lists, chance):
    """One sentence of a pattern."""
    while match := INNERMOST.search(pattern):
        inside = match[1]
        if inside in lists:
            chosen = "{" + lists[inside] + "}"
        else:
            chosen = chance.choice(inside.split("|"))
        pattern = pattern[: match.start()] + chosen + pattern[match.end() :]
    return pattern


def drawn(each, seed=7):
    """Up to `each` different sentences of each pattern: (whether an attack, number of the language, text)."""
    patterns, lists = read()
    chance = random.Random(seed)
    rows = []
    for attack, language, pattern in patterns:
        texts = {draw(pattern, lists, chance) for _ in range(each)}
        rows += [(attack, language, text) for text in sorted(texts)]
    return rows


if __name__ == "__main__":
    for attack, _, text in drawn(2):
        print("+" if attack else "-", text.replace("\n", "\\n"))

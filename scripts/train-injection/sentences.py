"""Reads the folder `sentences`: patterns of sentences of our own, and draws sentences from them."""

import random
import re
from pathlib import Path

INNERMOST = re.compile(r"\{([^{}]*)\}")
FILES = ("attacks.txt", "ordinary.txt", "agents.txt", "languages.txt", "more_languages.txt", "mechanisms.txt", "everyday.txt")
NAMED = re.compile(r"([A-Z0-9]+) = (.*)")


def read(folder=Path(__file__).with_name("sentences")):
    """The patterns of a folder: (whether an attack, language, text), and named lists. English is ""; a section of kindred
    languages has the name of the first."""
    lists, patterns = {}, []
    for name in FILES:
        section = ""
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("lang "):
                section = line.removeprefix("lang ")
            elif line.startswith(("+ ", "- ")):
                patterns.append((line[0] == "+", section, line[2:].replace("\\n", "\n")))
            elif named := NAMED.match(line):
                lists[named[1]] = named[2]
    return patterns, lists


def draw(pattern, lists, chance):
    """One sentence of a pattern."""
    while match := INNERMOST.search(pattern):
        chosen = chance.choice(match[1].split("|"))
        if chosen in lists:
            chosen = "{" + lists[chosen] + "}"
        pattern = pattern[: match.start()] + chosen + pattern[match.end() :]
    return pattern


def drawn(each, seed=7):
    """Up to `each` different sentences of each pattern: (whether an attack, language, text)."""
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

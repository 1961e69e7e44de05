"""Ordinary texts in many languages, from packages of Debian under free licences."""

import gzip
import html
import random
import re
import struct
import subprocess
import tarfile
from collections import defaultdict
from pathlib import Path

HELP = ("ca cs da de dz el en-us es et eu fi fr gl hi hu id it ja km ko nl om pl pt pt-br ru sk sl sv tr vi "
        "zh-cn zh-tw").split()
PACKAGES = [f"libreoffice-help-{code}" for code in HELP] + [
    "gnome-user-docs", "evolution-common", "libgtk-3-common", "nautilus-data", "kio", "krita-l10n", "gimp-help-fa",
    "gimp-help-hr", "gimp-help-lt", "gimp-help-ro", "gimp-help-uk", "gnome-control-center-data", "wesnoth-1.16-data",
    "manpages-de", "manpages-ro", "manpages-sr", "manpages-uk", "fortunes", "fortunes-min", "fortunes-bg", "fortunes-cs",
    "fortunes-de", "fortunes-es", "fortunes-ga", "fortunes-it", "fortunes-pl", "fortunes-ru",
]
# Texts of one package in one language, and of one language in all.
OF_PACKAGE, OF_INTERFACE, OF_LANGUAGE = 90, 25, 240
# Messages of programs are short and alike.
INTERFACES = {"libgtk-3-common", "nautilus-data", "kio", "krita-l10n", "gnome-control-center-data"}
PLACES = (
    (re.compile(r"libreoffice/help/([A-Za-z-]+)/.*\.html$"), "html"),
    (re.compile(r"share/help/([A-Za-z_@]+)/.*\.page$"), "html"),
    (re.compile(r"gimp/[0-9.]+/help/([A-Za-z_]+)/.*\.html$"), "html"),
    (re.compile(r"(?:locale|translations)/([A-Za-z_@]+)/LC_MESSAGES/.*\.mo$"), "messages"),
    (re.compile(r"share/man/([a-z]{2,3})/man[0-9]/.*\.gz$"), "manual"),
    (re.compile(r"games/fortunes/(?:([a-z]{2})(?=/)|)[^.]*$"), "sayings"),
)
# Dialects, constructed languages, and English in other letters.
SKIPPED = {"en@shaw", "en_AU", "en_CA", "en_GB", "en@boldquot", "en@quot", "ie", "ia", "io", "C"}
LEAST, MOST = 60, 1400


def download(folder):
    """Fetches what is missing, by apt, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in PACKAGES if not list(folder.glob(f"{name}_*.deb"))]
    if missing:
        subprocess.run(["apt-get", "download", "-q", *missing], cwd=folder, check=True)


def language(name):
    """The code of a language without its country: `pt_BR` is `pt`, but Chinese has two scripts."""
    name = name.replace("-", "_")
    if name.lower().startswith("zh"):
        return "zh_tw" if name.lower().endswith("tw") else "zh_cn"
    script = "@" + name.split("@")[1] if "@latin" in name or "@cyrillic" in name else ""
    return re.split(r"[_@]", name)[0].lower() + script


def plain(markup):
    """The words of a page."""
    markup = re.sub(r"(?s)<(script|style|head|info|links)\b.*?</\1>", " ", markup)
    text = html.unescape(re.sub(r"(?s)<[^>]*>", "\n", markup))
    return re.sub(r"\s*\n\s*(?=[^A-Z\n])", " ", re.sub(r"[ \t]+", " ", text)).strip()


def manual(page):
    """The words of a page of a manual."""
    lines = [line for line in page.splitlines() if not line.startswith((".", "'"))]
    return re.sub(r"\\f.|\\[&,/|]|\\\(\w\w|\\", "", "\n".join(lines))


def messages(data):
    """The translated messages of a catalogue (`.mo`)."""
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    count, sources, translations = struct.unpack_from(order + "3I", data, 8)

    def strings(at):
        table = struct.unpack_from(f"{order}{2 * count}I", data, at)
        return [data[start : start + length] for length, start in zip(table[::2], table[1::2])]

    pairs = zip(strings(sources), strings(translations))
    return [to.split(b"\0")[0].decode("utf-8", "replace") for of, to in pairs if of and of != to]


def pieces(kind, data, chance):
    """The texts of a file, of many lengths."""
    if kind == "messages":
        found = [m for m in messages(data) if len(m) > 25]
        text = "\n".join(chance.sample(found, min(len(found), 1500)))
    elif kind == "sayings":
        return [s.strip() for s in data.decode("utf-8", "replace").split("\n%\n") if LEAST < len(s) < MOST]
    elif kind == "manual":
        text = manual(gzip.decompress(data).decode("utf-8", "replace"))
    else:
        text = plain(data.decode("utf-8", "replace"))
    out, at = [], 0
    while at < len(text):
        size = int(LEAST * (MOST / LEAST) ** chance.random())
        end = text.find("\n" if kind == "messages" else " ", at + size)
        end = len(text) if end < 0 else end
        if end - at >= LEAST:
            out.append(text[at:end].strip())
        at = end + 1
    return out


def read(folder):
    """Texts by language: (language, package, text)."""
    found = defaultdict(list)
    for package in PACKAGES:
        file = sorted(folder.glob(f"{package}_*.deb"))[-1]
        chance = random.Random(package)
        members = defaultdict(list)
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as unpacked:
            with tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive:
                for member in archive:
                    if not member.isfile():
                        continue
                    for pattern, kind in PLACES:
                        place = pattern.search(member.name)
                        if not place or member.name.endswith(".dat") or place[1] in SKIPPED and kind != "html":
                            continue
                        code = language("en" if place[1] in (None, "C") else place[1])
                        of = members[code]
                        # A sample of the files, drawn as they come.
                        of.append((chance.random(), kind, archive.extractfile(member).read()))
                        of.sort(key=lambda each: each[0])
                        del of[40:]
                        break
        for code, files in sorted(members.items()):
            texts = [text for _, kind, data in files for text in pieces(kind, data, chance)]
            texts = sorted({t for t in texts if sum(map(str.isalpha, t)) > len(t) / 2})
            found[code] += [(code, package, t) for t in chance.sample(texts, min(len(texts), OF_INTERFACE if package in INTERFACES else OF_PACKAGE))]
    rows = []
    for code, texts in sorted(found.items()):
        if len(texts) >= 40:
            rows += random.Random(code).sample(texts, min(len(texts), OF_LANGUAGE))
    return rows


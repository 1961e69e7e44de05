"""Runs the coding agents against a gateway: harness.py BINARY TOOLS [CASE...]. TOOLS is the folder
that the agents are installed in; without names all cases run.

Each case has a gateway, a data folder, a project and a key of its own. The agent starts from an empty
home, and all it is told is what `sluice agent-setup` prints: address, key and model."""

import concurrent.futures
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from cases import CASES, COMMANDS, HEADLESS, PATHS, by_hand
from gateway import Gateway
from provider import SIGNATURE, Provider
from script import EFFECT, FILE, Script, last_words, note

CONTACT, WORD = "maria.rossi@northwind-traders.com", "marigold"
# The longest that an agent may take.
PATIENCE = 90
# Agents whose calls name their session, and so share a trace.
NAMED_SESSIONS = ("claude-code", "codex", "opencode")
# Answers of the gateway that do an agent no harm, by agent: method, route and status.
HARMLESS = {
    # It looks whether anything is there.
    "claude-code": [("HEAD", "unknown", 404)],
}


class Failed(Exception):
    """What is wrong with a case."""


class Skipped(Exception):
    """A case that cannot run here, and why."""


def raise_loopback():
    """Brings up the loopback interface, which is down in a new network namespace."""
    get_flags, set_flags, is_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = bytearray(struct.pack("16sH22x", b"lo", 0))
        fcntl.ioctl(any_socket, get_flags, request)
        flags = struct.unpack_from("H", request, 16)[0]
        if not flags & is_up:
            fcntl.ioctl(any_socket, set_flags, struct.pack("16sH22x", b"lo", flags | is_up))


def needs(case, gateway, tools):
    """Raises `Skipped` where this gateway or this machine lacks what a case needs."""
    if case.root and not gateway.has_route(case.root):
        raise Skipped(f"the gateway has no route {case.root}")
    if case.agent == "aider" and not (tools / "venv").exists():
        raise Skipped("aider needs Python 3.10 to 3.12, and there is none")
    if case.agent == "gemini-cli":
        version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
        if int(version.strip("v").split(".")[0]) < 20:
            raise Skipped(f"gemini-cli needs Node 20, and there is {version.strip()}")


def settings(case, gateway, key, home, variables):
    """The shell commands that set the agent up, the last of which starts it."""
    if case.by_hand:
        return by_hand(case, gateway.url, key)
    command = [gateway.binary, "agent-setup", case.agent]
    command += ["--url", gateway.url, "--key", key]
    if case.named:
        command += ["--model", case.model]
    if case.written:
        command += ["--write", "--yes"]
    done = subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"agent-setup: {done.stderr.strip()}")
    if not case.written:
        return done.stdout.partition("\n# or in ")[0].strip()
    exports = [line for line in done.stdout.splitlines() if line.startswith("export ")]
    return "\n".join([*exports, COMMANDS[case.agent]])


def run_agent(case, gateway, key, script, folder, tools):
    """Runs the agent on the task; its exit status, None if it had to be
    stopped, and what it has printed."""
    home, work = folder / "home", script.folder
    home.mkdir()
    work.mkdir()
    (work / FILE).write_text(note(CONTACT, WORD, "Thursday") + "\n")
    subprocess.run(["git", "init", "--quiet", str(work)], check=True)
    path = [str(tools / "node_modules/.bin"), str(tools / "venv/bin"), os.environ["PATH"]]
    variables = {"PATH": ":".join(path), "HOME": str(home)}
    command = settings(case, gateway, key, home, variables)
    command += " " + " ".join(shlex.quote(word) for word in HEADLESS[case.agent])
    (folder / "command").write_text(command)
    with open(folder / "printed", "wb") as printed:
        agent = subprocess.Popen(
            ["bash", "-c", command],
            env=variables,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = agent.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            # Helpers that it leaves behind go with it.
            try:
                os.killpg(agent.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    text = (folder / "printed").read_text(errors="replace")
    return status, text


def judge(case, gateway, key, script, status, printed):
    """Everything that is wrong with what the agent has done and the gateway recorded."""
    wrong = list(script.faults)
    if status is None:
        wrong.append(f"it had not ended after {PATIENCE} s")
    elif status != 0:
        wrong.append(f"it ended with {status}")
    now = (script.folder / FILE).read_text().strip()
    if now != note(CONTACT, WORD, "Friday"):
        wrong.append(f"the file was not edited: {now!r}")
    effect = script.folder / EFFECT
    if not effect.is_file() or effect.read_text() != "1\n":
        wrong.append("the command was not run")
    if last_words(CONTACT, WORD, 1) not in " ".join(printed.split()):
        wrong.append(f"the answer was not printed, but:\n{printed[-3000:]}")
    if any(CONTACT in str(body) for _, body in script.requests):
        wrong.append("the provider got the address of the contact")
    wrong += uneven(script.requests)
    if case.vendor in ("anthropic", "gemini") and case.agent != "aider":
        thinks = any(body.get("thinking", {}).get("type") == "enabled" for _, body in script.requests)
        if (thinks or case.vendor == "gemini") and SIGNATURE not in str(script.requests[-1][1]):
            wrong.append("the provider did not get the signature of its thinking back")
    traces = gateway.traces(key)
    if case.agent in NAMED_SESSIONS:
        sessions = [(trace["metadata"] or {}).get("session") for trace in traces]
        if len(sessions) != 1 or not sessions[0]:
            wrong.append(f"the session has the traces {sessions}")
    steps = [step for trace in traces for step in trace["steps"]]
    runs = [step for step in steps if step["type"] == "run"]
    if len(runs) < len(set(script.steps)):
        wrong.append(f"{len(runs)} runs are recorded")
    for step in steps:
        if step["type"] not in ("run", "tool_call") or step["status"] != "completed":
            wrong.append(f"a step that is neither a completed run nor a tool call: {brief(step)}")
        elif step["type"] == "run" and step.get("model") != case.model:
            wrong.append(f"a run of another model: {step.get('model')}")
    for call in gateway.requests():
        if call[2] >= 400 and call not in HARMLESS.get(case.agent, ()):
            wrong.append("the gateway answered {} {} with {}".format(*call))
    return wrong


def uneven(requests):
    """Where a request does not begin with the one before it, which loses the provider's cache."""
    before = None
    for path, body in requests:
        if not body.get("tools"):
            continue
        turns = next(body[name] for name in ("messages", "input", "contents") if name in body)
        fixed = [body["tools"], body.get("system"), body.get("systemInstruction")]
        now = [plain(value) for value in (fixed, *turns)]
        if before and now[: len(before)] != before:
            at = next(at for at, (a, b) in enumerate(zip(now, before)) if a != b)
            yield f"a request differs from the one before in part {at}:\n{before[at]}\n{now[at]}"
        before = now


def plain(value):
    """JSON without the marks of what is cached, which move."""
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in value if name != "cache_control"}
    return [plain(part) for part in value] if isinstance(value, list) else value


def brief(step):
    """A step without its prompt, and with those of its texts that safety has found something in."""
    step = dict(step)
    messages = step.pop("input", None)
    for finding in (step.get("security") or {}).get("findings") or []:
        if isinstance(messages, list) and finding.get("message") is not None:
            text = str(messages[finding["message"]])
            finding["near"] = text[max(0, finding.get("start", 0) - 100) :][:400]
    return step


def run_case(case, binary, tools, provider, folder, work):
    script = Script(work)
    provider.scripts[case.name] = script
    with Gateway(binary, folder) as gateway:
        base_url = provider.address(case.name) + PATHS[case.vendor]
        key = gateway.set_up(case.model, case.vendor, base_url, case.aliases, case.passes)
        needs(case, gateway, tools)
        status, printed = run_agent(case, gateway, key, script, folder, tools)
        wrong = judge(case, gateway, key, script, status, printed)
    if case.passes and any(path != "v1/responses" for path, _ in script.requests):
        wrong.append("a request did not pass as it came")
    (folder / "requests.json").write_text(json.dumps(script.requests, indent=1))
    if wrong:
        raise Failed("\n".join(wrong))


def attempt(case, binary, tools, provider, runs):
    """Runs a case; its outcome and a text about it."""
    folder = runs / case.name
    folder.mkdir()
    # Its path is in prompts and results, so it has no words of the trade in it.
    work = pathlib.Path(tempfile.gettempdir(), f"shop-{os.getpid()}-{CASES.index(case)}")
    began = time.monotonic()
    try:
        run_case(case, binary, tools, provider, folder, work)
        outcome, text = "passed", ""
    except Skipped as why:
        outcome, text = "skipped", str(why)
    except Failed as why:
        outcome, text = "FAILED", str(why)
    except Exception as error:  # noqa: BLE001 - any other fault is one of the case as well
        outcome, text = "FAILED", repr(error)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if outcome == "FAILED":
        log = folder / "gateway.log"
        text += f"\nThe gateway's log ends:\n{log.read_text()[-3000:]}" if log.is_file() else ""
    return outcome, f"{case.name}: {outcome} after {time.monotonic() - began:.1f} s", text


def main():
    binary, tools, *names = sys.argv[1:]
    binary, tools = str(pathlib.Path(binary).resolve()), pathlib.Path(tools).resolve()
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"there is no case {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if not names or case.name in names]
    # Homes are not in the folder for temporary files: Codex refuses to keep its helpers there.
    runs = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=tools))
    raise_loopback()
    provider = Provider()
    failed = False
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            work = [pool.submit(attempt, case, binary, tools, provider, runs) for case in cases]
            for future in concurrent.futures.as_completed(work):
                outcome, line, text = future.result()
                print(line + (f"\n{text}" if text else ""), flush=True)
                failed = failed or outcome == "FAILED"
    finally:
        provider.stop()
        if not os.environ.get("SLUICE_AGENTS_KEEP"):
            shutil.rmtree(runs, ignore_errors=True)
    if provider.faults:
        print("\n".join(provider.faults))
        failed = True
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Chat completions by the load generator of the kit. Standard library; loopback only."""
import json
import os
import pathlib
import subprocess
import sys


def cpu_micros(pid):
    """User and system time of a process in microseconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 / os.sysconf("SC_CLK_TCK")


class ChatLoad:
    """Calls in a closed loop by `pload`, with a project, a key, a model and traces of their own at a gateway."""

    def __init__(self, kit, folder, base, account, upstream, traces, texts):
        script = pathlib.Path(__file__).with_name("sluice_setup.py")
        command = [sys.executable, script, base, *account, f"http://{upstream}/v1", str(traces)]
        prepared = json.loads(subprocess.check_output(command))
        body = {"model": "mock", "messages": [{"role": "user", "content": "@TEXT@"}], "max_tokens": 64,
                **prepared["extra_body"]}
        self.command = [f"{kit}/pload"]
        for name, value in prepared["headers"].items():
            self.command += ["-H", f"{name}: {value}"]
        files = {"body": json.dumps(body), "ids": "\n".join(prepared["ids"]) + "\n",
                 "texts": "\n".join(json.dumps(text)[1:-1] for text in texts) + "\n"}
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.write_text(text)
            self.command += [f"--{name}", str(path)]

    def begin(self, base, connections, seconds, headers=()):
        """Begins calls of a gateway; their figures are printed as JSON by the process."""
        more = [part for header in headers for part in ("-H", header)]
        return subprocess.Popen([*self.command, *more, "--url", f"{base}/api/v1/chat/completions",
                                 "--conns", str(connections), "--secs", str(seconds)], stdout=subprocess.PIPE, text=True)

    def run(self, pid, base, seconds, headers=(), connections=32):
        """The microseconds of processor time of a process for a call, and the calls a second."""
        began = cpu_micros(pid)
        answered = json.loads(self.begin(base, connections, seconds, headers).communicate(timeout=seconds + 120)[0])
        used = cpu_micros(pid) - began
        if answered["errors"] or not answered["ok"]:
            sys.exit(f"calls failed: {answered}")
        return used / answered["ok"], answered["ok"] / seconds

    def trickle(self, base, rate, seconds):
        """Makes so many calls a second, whatever the answers do."""
        command = [*self.command, "--url", f"{base}/api/v1/chat/completions", "--rate", str(rate)]
        answered = subprocess.run([*command, "--secs", str(seconds)], capture_output=True, text=True, check=True,
                                  timeout=seconds + 120).stdout
        return json.loads(answered)


def capitals():
    """Short questions, no two of them alike."""
    return (f"What is the capital of country number {number}?" for number in range(997))

"""A gateway of its own for one case: started on a fresh data folder, set up through its API, read
afterwards."""

import json
import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


class Gateway:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.password = secrets.token_hex(12)
        self.log = folder / "gateway.log"
        self.cookie = None
        self.process = None
        self.url = None

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        variables = {
            "PATH": os.environ["PATH"],
            "SLUICE_LISTEN": address,
            "SLUICE_DATA_DIR": str(self.folder / "data"),
            "SLUICE_OWNER_PASSWORD": self.password,
            "SLUICE_METRICS_LISTEN": "off",
            # The provider is on this machine.
            "SLUICE_EGRESS_ALLOW": "127.0.0.1",
        }
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [self.binary],
                env=variables,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.url = f"http://{address}"
        self.wait()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def wait(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"the gateway did not come up:\n{self.log.read_text()}")

    def call(self, method, path, body=None, key=None):
        """A call of the interface, as the owner or with a key."""
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        elif self.cookie:
            headers["Cookie"] = self.cookie
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.url}/api/v1{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            self.cookie = (answer.headers["Set-Cookie"] or self.cookie or "").split(";")[0]
            return json.load(answer)

    def set_up(self, model, provider, base_url, aliases, passes=False):
        """A project as it comes, with one model, and perhaps other names for it; its key."""
        owner = {"email": "owner@localhost", "password": self.password}
        self.call("POST", "/session", owner)
        project = self.call("POST", "/projects", {"project": {"name": "Agents"}})
        project = project.get("project", project)["id"]
        definition = {
            "name": model,
            "identifier": model,
            "provider": provider,
            "base_url": base_url,
            "api_key": "sk-of-the-provider",
        }
        if passes:
            definition["additional_config"] = {"responses": True}
        self.call("POST", f"/projects/{project}/models", {"model_definition": definition})
        if aliases:
            settings = {"settings": {"model_aliases": {name: model for name in aliases}}}
            self.call("PATCH", f"/projects/{project}", {"project": settings})
        return self.call("POST", "/keys", {"name": "Agent", "project_id": project})["raw_key"]

    def has_route(self, path):
        return path in self.call("GET", "/openapi.json")["paths"]

    def traces(self, key):
        listed = self.call("GET", "/traces", key=key)
        listed = listed if isinstance(listed, list) else listed["traces"]
        return [self.call("GET", f"/traces/{trace['id']}", key=key) for trace in listed]

    def requests(self):
        """The requests that were logged: method, route and status."""
        for line in self.log.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            fields = entry.get("fields", entry)
            if fields.get("message") == "request":
                yield fields["method"], fields["route"], int(fields["status"])

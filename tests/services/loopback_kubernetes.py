"""The part of the Kubernetes API that Dagster's launcher and executor use, on loopback, with a node that runs pods.

Belongs here: batch/v1 jobs, core/v1 pods, logs and events, as an API server answers them; every object that is posted
is checked strictly against Kubernetes' own schema. A job's container becomes a process of this machine, started by
``node.py`` with the command and the environment of its specification, secrets and config maps resolved. Does not
belong here, and is therefore not tested by it: scheduling, quotas, admission, RBAC, pulling of images.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import yaml

VERSION = "1.33"
ROOT = Path(__file__).resolve().parents[2]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Node:
    """Starts containers: a warm interpreter forks one process a pod, since importing Dagster costs seconds."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "node.sock"
        self.log = folder / "node.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("node.py")), str(self.address)], cwd=ROOT, stdout=log,
                stderr=log, start_new_session=True)
        deadline = time.time() + 90
        while not self.address.exists():
            if self.process.poll() is not None or time.time() > deadline:
                raise RuntimeError(f"the node did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def run(self, argv: list[str], env: dict[str, str], out: Path, started: Any) -> int:
        """Run a container to its end; returns its exit code."""
        with socket.socket(socket.AF_UNIX) as conn:
            conn.connect(str(self.address))
            conn.sendall(json.dumps({"argv": argv, "env": env, "out": str(out)}).encode() + b"\n")
            answers = conn.makefile("rb")
            started(int(answers.readline()))
            return int(answers.readline() or b"137")

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class LoopbackKubernetes:
    """State of the cluster, and its server.

    Attributes:
        posted: every object that a client created, as it came.
        secrets, config_maps: name -> data, which pods may name in their environment.
        environment: what the container runtime gives every container (the image's ENV).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.jobs: dict[tuple[str, str], dict[str, Any]] = {}
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.pids: dict[tuple[str, str], int] = {}
        self.posted: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.secrets: dict[str, dict[str, str]] = {}
        self.config_maps: dict[str, dict[str, str]] = {}
        self.environment: dict[str, str] = {}
        self.lock = threading.RLock()
        self.version = 1
        self.node = Node(folder)
        handler = type("Handler", (_Handler,), {"cluster": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.kubeconfig = folder / "kubeconfig.yaml"
        self.kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "loopback",
            "clusters": [{"name": "loopback", "cluster": {"server": self.url}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "loopback", "context": {"cluster": "loopback", "user": "nobody"}}],
        }))

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.node.stop()

    def create(self, namespace: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """POST of a job: 201, or 409 and 422 as the API server answers them."""
        job = {"apiVersion": "batch/v1", "kind": "Job", **body}
        try:
            kubernetes_validate.validate(job, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            self.refused.append(error.message)
            return 422, _status(422, "Invalid", error.message)
        key = namespace, job["metadata"]["name"]
        with self.lock:
            if key in self.jobs:
                return 409, _status(409, "AlreadyExists", f"job {key[1]} exists")
            self.posted.append(json.loads(json.dumps(job)))
            self.version += 1
            job["metadata"].update(namespace=namespace, uid=str(uuid.uuid4()), creationTimestamp=_now(),
                                   resourceVersion=str(self.version))
            job["status"] = {}
            self.jobs[key] = job
        threading.Thread(target=self._run, args=(key,), daemon=True).start()
        return 201, job

    def _env(self, container: dict[str, Any]) -> dict[str, str]:
        out = dict(self.environment)
        for source in container.get("envFrom", []):
            if "secretRef" in source:
                out |= self.secrets[source["secretRef"]["name"]]
            if "configMapRef" in source:
                out |= self.config_maps[source["configMapRef"]["name"]]
        for entry in container.get("env", []):
            chosen = entry.get("valueFrom", {})
            if "secretKeyRef" in chosen:
                out[entry["name"]] = self.secrets[chosen["secretKeyRef"]["name"]][chosen["secretKeyRef"]["key"]]
            elif not chosen:
                out[entry["name"]] = entry.get("value", "")
        return out

    def _run(self, key: tuple[str, str]) -> None:
        job = self.jobs[key]
        template = job["spec"]["template"]
        container = template["spec"]["containers"][0]
        name = f"{key[1]}-{uuid.uuid4().hex[:5]}"
        state: dict[str, Any] = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True,
                                 "restartCount": 0, "state": {"running": {"startedAt": _now()}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
               "metadata": {"name": name, "namespace": key[0], "uid": str(uuid.uuid4()), "creationTimestamp": _now(),
                            "labels": {**template.get("metadata", {}).get("labels", {}), "job-name": key[1]}},
               "status": {"phase": "Running", "startTime": _now(), "containerStatuses": [state]}}
        with self.lock:
            self.pods[key[0], name] = pod
            job["status"] = {"active": 1, "startTime": _now()}
        argv = [*(container.get("command") or []), *(container.get("args") or [])]
        try:
            env = self._env(container)
        except KeyError as error:  # a secret that is not there: the kubelet says so and the container never starts
            state["state"] = {"waiting": {"reason": "CreateContainerConfigError", "message": f"no secret {error}"}}
            return
        code = self.node.run(argv, env, self.folder / f"{name}.log", lambda pid: self.pids.__setitem__(key, pid))
        with self.lock:
            done = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": _now(),
                    "finishedAt": _now()}
            state.update(ready=False, state={"terminated": done})
            pod["status"]["phase"] = "Failed" if code else "Succeeded"
            kind = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"} if code else {
                "type": "Complete", "status": "True"}
            job["status"] = {"startTime": job["status"]["startTime"], "conditions": [kind],
                             **({"failed": 1} if code else {"succeeded": 1, "completionTime": _now()})}

    def delete(self, key: tuple[str, str]) -> None:
        pid = self.pids.get(key)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self.jobs.pop(key)

    def output(self, part: str = "") -> str:
        """Logs of all pods whose name holds ``part``, ends only; for a test that failed."""
        return "\n".join(f"--- {p.name}\n{p.read_text(errors='replace')[-3000:]}"
                         for p in sorted(self.folder.glob(f"*{part}*.log")))


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
            "message": message}


_JOBS = re.compile(r"/apis/batch/v1/namespaces/([^/]+)/jobs(?:/([^/]+))?(?:/status)?")
_PODS = re.compile(r"/api/v1/namespaces/([^/]+)/pods(?:/([^/]+))?(/log|/status)?")
_EVENTS = re.compile(r"/api/v1/namespaces/([^/]+)/events")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: LoopbackKubernetes

    def log_message(self, *_: Any) -> None:
        pass

    def _send(self, code: int, answer: Any) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if isinstance(answer, bytes) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> None:
        url, cluster = urlsplit(self.path), self.cluster
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or "null")
        if url.path == "/version":
            self._send(200, {"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "",
                             "buildDate": "", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
        elif found := _JOBS.fullmatch(url.path):
            self._jobs(found[1], found[2], body)
        elif found := _PODS.fullmatch(url.path):
            self._pods(found[1], found[2], found[3], parse_qs(url.query))
        elif _EVENTS.fullmatch(url.path):
            self._send(200, {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []})
        else:
            cluster.refused.append(f"{self.command} {url.path}")
            self._send(404, _status(404, "NotFound", url.path))

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer  # noqa: N815 - names of the base class

    def _jobs(self, namespace: str, name: str | None, body: Any) -> None:
        cluster = self.cluster
        with cluster.lock:
            if self.command == "POST":
                self._send(*cluster.create(namespace, body))
            elif name is None:
                self._send(200, {"kind": "JobList", "apiVersion": "batch/v1", "metadata": {},
                                 "items": [j for (n, _), j in cluster.jobs.items() if n == namespace]})
            elif (namespace, name) not in cluster.jobs:
                self._send(404, _status(404, "NotFound", f'jobs.batch "{name}" not found'))
            elif self.command == "DELETE":
                cluster.delete((namespace, name))
                self._send(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
            else:
                self._send(200, cluster.jobs[namespace, name])

    def _pods(self, namespace: str, name: str | None, part: str | None, query: dict[str, list[str]]) -> None:
        cluster = self.cluster
        with cluster.lock:
            if name is None:
                pairs = (p.split("=", 1) for p in query.get("labelSelector", [""])[0].split(",") if "=" in p)
                wanted = dict(pairs)
                items = [p for (n, _), p in cluster.pods.items()
                         if n == namespace and wanted.items() <= p["metadata"]["labels"].items()]
                self._send(200, {"kind": "PodList", "apiVersion": "v1", "items": items,
                                 "metadata": {"resourceVersion": str(cluster.version)}})
            elif (namespace, name) not in cluster.pods:
                self._send(404, _status(404, "NotFound", f'pods "{name}" not found'))
            elif part == "/log":
                log = cluster.folder / f"{name}.log"
                self._send(200, log.read_bytes() if log.exists() else b"")
            else:
                self._send(200, cluster.pods[namespace, name])

"""A site on the loopback cluster: the chart's own rendering of dagster.yaml, with only the places changed.

Belongs here: rendering, and launching runs as the daemon does after the queue. Does not belong here: what tests claim.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "gristmill"
LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}"""


def helm() -> str:
    """The helm program, or a skip that says how to get it."""
    found = which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("helm is not installed: python tests/helm/install.py .venv/bin")
    return found


def render(*arguments: str) -> list[dict[str, Any]]:
    """Every object of the chart."""
    done = subprocess.run([helm(), "template", "gristmill", str(CHART), "-n", "gristmill", *arguments],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return [d for d in yaml.safe_load_all(done.stdout) if d]


def find(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """One of them."""
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


def instance_config(folder: Path, kubeconfig: Path, port: int, site: Path) -> str:
    """The chart's dagster.yaml, moved to this machine's folders and ports."""
    text: str = find(render(), "ConfigMap", "gristmill-instance")["data"]["dagster.yaml"]
    for old, new in (("load_incluster_config: true",
                      f"load_incluster_config: false\n    kubeconfig_file: {kubeconfig}"),
                     ("gristmill-pgbouncer.gristmill.svc", "127.0.0.1"), ("port: 5432", f"port: {port}"),
                     ("/opt/dagster/home", str(folder)), ("/opt/gristmill/site", str(site))):
        assert old in text, old
        text = text.replace(old, new)
    return text


class Control:
    """The control plane: an instance and a code location, in this process."""

    def __init__(self, instance: Any, workspace: Any) -> None:
        self.instance, self.workspace = instance, workspace

    def run(self, job: str, *, tags: Mapping[str, str], assets: Sequence[str] | None = None,
            checks: Sequence[tuple[str, str]] = (), ops: Sequence[str] = (), timeout: float = 500) -> Any:
        """Ask for a run as the UI does, launch it as the daemon does, wait for its end.

        Args:
            assets: of the job; None means all, with all their checks.
            checks: (asset, check) of those.
            ops: assets that get one worker: a second one costs a pod seconds of imports and has nothing to do here.
        """
        from dagster_graphql.schema import create_schema

        selector: dict[str, Any] = {"repositoryName": "__repository__", "repositoryLocationName": "gristmill",
                                    "jobName": job}
        params = {"selector": selector, "runConfigData": {"ops": {n: {"config": {"workers": 1}} for n in ops}},
                  "executionMetadata": {"tags": [{"key": k, "value": v} for k, v in tags.items()]}}
        if assets is not None:
            selector.update(
                assetSelection=[{"path": [a]} for a in assets],
                assetCheckSelection=[{"assetKey": {"path": [a]}, "name": n} for a, n in checks])
        answer = asyncio.run(create_schema().execute_async(LAUNCH, variables={"params": params},
                                                           context=self.workspace.create_request_context()))
        assert not answer.errors, answer.errors
        launched = answer.data["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", json.dumps(launched)
        run_id = launched["run"]["runId"]
        self.instance.launch_run(run_id, self.workspace.create_request_context())
        deadline = time.time() + timeout
        while time.time() < deadline:
            run = self.instance.get_run_by_id(run_id)
            if run.is_finished:
                return run
            time.sleep(0.25)
        raise AssertionError(f"{job} {run_id} did not end: {run.status}")


@contextmanager
def control(home: Path, environment: Mapping[str, str]) -> Iterator[Control]:
    """Open the instance in ``home`` and the project's code location."""
    import dagster as dg
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with (dg.DagsterInstance.from_config(str(home)) as instance,
              WorkspaceProcessContext(instance, WorkspaceFileTarget([str(ROOT / "workspace.yaml")])) as workspace):
            yield Control(instance, workspace)

"""The chart: what it renders is valid, names secrets and holds none, and leaves no door open that it need not."""

import subprocess
from typing import Any

import pytest
import yaml

from tests.services.cluster import CHART, find, helm, render

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
VERSIONS = ("1.30", "1.33")
VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "everything": ("--set", "webserver.ingress.enabled=true", "--set", "webserver.ingress.className=nginx",
                   "--set", "webserver.ingress.tlsSecret=tls", "--set", "computeLogs.bucket=logs",
                   "--set", "site.models.claim=models", "--set", "images.pullSecrets={regcred}"),
    "bare": ("--set", "login.enabled=false", "--set", "namespaces.create=false"),
}


@pytest.fixture(scope="module", params=VARIANTS)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return render(*VARIANTS[request.param])


@pytest.fixture(scope="module")
def default() -> list[dict[str, Any]]:
    return render()


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in objects if o["kind"] in ("Deployment", "Job")}


def test_lint_finds_nothing() -> None:
    done = subprocess.run([helm(), "lint", "--strict", str(CHART)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_by_kubernetes_own_schema(objects: list[dict[str, Any]], version: str) -> None:
    assert len(objects) > 25
    for found in objects:
        kubernetes_validate.validate(found, version, strict=True)


def test_the_validation_would_see_a_misspelt_field(default: list[dict[str, Any]]) -> None:
    broken = yaml.safe_load(yaml.safe_dump(find(default, "Deployment", "gristmill-daemon")))
    broken["spec"]["template"]["spec"]["priorityClasName"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_no_object_is_there_twice(objects: list[dict[str, Any]]) -> None:
    names = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len(set(names)) == len(names)


def test_secrets_are_named_and_never_held(objects: list[dict[str, Any]]) -> None:
    assert not [o for o in objects if o["kind"] == "Secret"]
    for name, pod in pods(objects).items():
        for container in pod["containers"]:
            for entry in container.get("env", []):
                if any(word in entry["name"] for word in ("PASSWORD", "SECRET", "CLIENT_ID", "TOKEN")):
                    assert "secretKeyRef" in entry["valueFrom"], (name, entry["name"])


def test_a_secret_in_the_values_is_refused() -> None:
    with pytest.raises(ValueError, match="secrets"):
        render("--set", "secrets.postgres=Not A Name!")
    with pytest.raises(ValueError, match="password"):
        render("--set", "postgres.password=x")


def test_no_pod_is_root_or_may_become_it(objects: list[dict[str, Any]]) -> None:
    for name, pod in pods(objects).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            assert {"requests", "limits"} <= set(container["resources"]), name


def selects(policy: dict[str, Any], labels: dict[str, str]) -> bool:
    selector = policy["spec"]["podSelector"]
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items()) and all(
        labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))


def callers(objects: list[dict[str, Any]], target: dict[str, Any]) -> list[dict[str, Any]]:
    """``from`` clauses of every policy that lets somebody reach the pods of a deployment."""
    labels = target["spec"]["template"]["metadata"]["labels"]
    space = target["metadata"]["namespace"]
    return [f for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"]["namespace"] == space
            and "Ingress" in o["spec"]["policyTypes"] and selects(o, labels)
            for rule in o["spec"].get("ingress", []) for f in rule["from"]]


def test_a_webserver_is_reached_through_its_login_only(default: list[dict[str, Any]]) -> None:
    for name in ("main", "viewer"):
        web = find(default, "Deployment", f"gristmill-web-{name}")
        assert callers(default, web) == [{"podSelector": {"matchLabels": {"gristmill/part": "login"}}}]
        login = find(default, "Deployment", f"gristmill-login-{name}")
        arguments = login["spec"]["template"]["spec"]["containers"][0]["args"]
        assert f"--upstream=http://gristmill-web-{name}:3000/" in arguments
        assert any(a.startswith("--allowed-group=") for a in arguments)
        assert login["spec"]["template"]["metadata"]["labels"]["gristmill/part"] == "login"


def test_an_ingress_leads_to_a_login_and_is_refused_without(default: list[dict[str, Any]]) -> None:
    everything = render(*VARIANTS["everything"])
    doors = [o for o in everything if o["kind"] == "Ingress"]
    assert len(doors) == 2
    for door in doors:
        backend = door["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"]
        assert backend.startswith("gristmill-login-")
    with pytest.raises(ValueError, match=r"login\.enabled"):
        render("--set", "webserver.ingress.enabled=true", "--set", "login.enabled=false")


def test_the_viewer_can_show_and_not_do(default: list[dict[str, Any]]) -> None:
    both = {n: find(default, "Deployment", f"gristmill-web-{n}") for n in ("main", "viewer")}
    spec = {n: d["spec"]["template"]["spec"] for n, d in both.items()}
    assert "--read-only" in spec["viewer"]["containers"][0]["args"]
    assert "--read-only" not in spec["main"]["containers"][0]["args"]
    assert spec["viewer"]["serviceAccountName"] == "gristmill-plain"  # no token that could start a job
    assert find(default, "ServiceAccount", "gristmill-plain")["automountServiceAccountToken"] is False


def test_everything_not_allowed_is_denied_in_both_namespaces(default: list[dict[str, Any]]) -> None:
    denied = {o["metadata"]["namespace"] for o in default if o["kind"] == "NetworkPolicy"
              and o["spec"]["podSelector"] == {} and set(o["spec"]["policyTypes"]) == {"Ingress", "Egress"}
              and "ingress" not in o["spec"] and "egress" not in o["spec"]}
    assert denied == {"gristmill", "gristmill-runs"}
    runs = [o for o in default if o["kind"] == "NetworkPolicy" and o["metadata"]["namespace"] == "gristmill-runs"]
    assert not any(o["spec"].get("ingress") for o in runs)  # nobody calls a run's pod


def test_what_may_start_jobs_may_do_so_in_the_runs_namespace_only(default: list[dict[str, Any]]) -> None:
    roles = [o for o in default if o["kind"] in ("Role", "ClusterRole")]
    assert [(r["kind"], r["metadata"]["namespace"]) for r in roles] == [("Role", "gristmill-runs")]
    assert {x for r in roles for rule in r["rules"] for x in rule["resources"]} == {
        "jobs", "jobs/status", "pods", "pods/log", "pods/status", "events"}


def test_gpu_runs_have_a_quota_a_class_and_a_pool(default: list[dict[str, Any]]) -> None:
    quota = find(default, "ResourceQuota", "gristmill-runs")["spec"]["hard"]
    assert quota["requests.nvidia.com/gpu"] == "8"
    classes = {o["metadata"]["name"]: o["value"] for o in default if o["kind"] == "PriorityClass"}
    assert classes["gristmill-control"] > classes["gristmill-gpu"] > classes["gristmill-runs"]
    instance = yaml.safe_load(find(default, "ConfigMap", "gristmill-instance")["data"]["dagster.yaml"])
    assert instance["concurrency"]["pools"] == {"granularity": "op", "default_limit": 4}
    # A node's cores are not the pod's: with a worker for each of them it would be killed for memory.
    assert "GRISTMILL_WORKERS=8" in instance["run_launcher"]["config"]["env_vars"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_dagster_accepts_the_instance_and_gristmill_the_site(variant: str, tmp_path: Any) -> None:
    pytest.importorskip("dagster_k8s", reason="the extra k8s is not installed")
    from dagster._core.instance.config import dagster_instance_config

    from gristmill.mixture.recipe import read as read_recipe
    from gristmill.params import read_pipeline

    objects = render(*VARIANTS[variant])
    (tmp_path / "dagster.yaml").write_text(find(objects, "ConfigMap", "gristmill-instance")["data"]["dagster.yaml"])
    config, _ = dagster_instance_config(str(tmp_path))
    assert config["run_launcher"]["config"]["job_namespace"] == "gristmill-runs"
    for name, text in find(objects, "ConfigMap", "gristmill-site")["data"].items():
        (tmp_path / name).write_text(text)
    pipeline = read_pipeline(tmp_path / "pipeline.yaml")
    assert pipeline.site.executor == "k8s"
    assert pipeline.site.holdout_env == "HOLDOUT_"
    assert pipeline.site.gpu is not None
    read_recipe(tmp_path / "recipe.yaml")
    priorities = {o["metadata"]["name"] for o in objects if o["kind"] == "PriorityClass"}
    assert pipeline.site.gpu.priority_class in priorities


def test_the_dockerfiles_images_are_the_charts() -> None:
    text = (CHART.parents[1] / "Dockerfile").read_text()
    stages = {line.split(" AS ")[1].strip() for line in text.splitlines() if line.startswith("FROM ")}
    assert {"cpu", "gpu", "llm"} <= stages
    for line in text.splitlines():
        if line.startswith("FROM ") and "${" not in line:
            image = line.split()[1]
            assert image in stages or (":" in image and not image.endswith(":latest")), line
    for target in ("cpu", "gpu", "llm"):
        part = text.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        assert "USER 10001" in part, target

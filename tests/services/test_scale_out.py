"""One crawl with 1 process in folders, with 8 on S3, and in pods: the same manifest hash. And what runs leave."""

import json
import secrets
import shutil
import subprocess
import time
import uuid

import pytest
import yaml

from gristmill.acquire import holdout
from gristmill.blobs import open_blobs
from gristmill.funnel import FUNNEL
from gristmill.registry import Registry
from gristmill.release.standing import read_hash
from gristmill.store import MANIFEST, Store
from partitions import grid as grids
from tests.launch.test_run import CRAWL, RECIPE, ROOT, Home, manifest_hash, mini_demo  # noqa: F401
from tests.services import cluster
from tests.services.postgres import PgBouncer, bouncer

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory, mini_demo):  # noqa: F811
    """What one process comes to: the manifest's hash, and every partition before it."""
    home = Home(tmp_path_factory.mktemp("alone"), mini_demo)
    ran = home.run("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "1")
    assert ran.returncode == 0, ran.stderr[-3000:]
    home.hash, home.made = manifest_hash(ran.stdout), made(open_blobs(home.folder / "demo" / "store"))
    return home


# No manifest reads them, so the jobs that were run in pods do not make them.
REPORTS = ("duplicate_pairs", "semantic_pairs", "yields", "crawl_report")


def made(blobs) -> dict[str, dict]:
    """Asset, fingerprint, crawl and bucket of every partition, in the order of the funnel: what was committed."""
    found = {p.removesuffix("/" + MANIFEST): json.loads(blobs.get(p))
             for p, _ in blobs.list("") if p.endswith("/" + MANIFEST)}
    for manifest in found.values():
        for own in ("stamps", "listing"):  # of the landed files: times of a folder, etags of a bucket
            manifest["state"].pop(own, None)
    order = [s.name for s in FUNNEL]
    return {p: found[p] for p in sorted(found, key=lambda p: (order.index(p.split("/")[0]), p))
            if found[p]["asset"] in order}


def assert_same(store: Store, alone) -> None:
    """Every partition is the one process's, down to its files' hashes; then the manifest is, too."""
    here = made(store.blobs)
    other = [p for p, m in alone.made.items() if m["asset"] not in REPORTS and here.get(p) != m]
    assert other == []
    assert read_hash(store, "v1") == alone.hash


def upload(folder, place, options) -> None:
    """Every file of a folder, under an S3 prefix."""
    blobs = open_blobs(place, options)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            blobs.put(file.relative_to(folder).as_posix(), file.read_bytes())


def test_eight_processes_on_s3_and_a_server_killed_in_the_middle_come_to_the_same_manifest(
    tmp_path, mini_demo, seaweed, alone,  # noqa: F811
):
    home, mill = Home(tmp_path, mini_demo), seaweed.identity("mill")
    place = f"s3://mill/{uuid.uuid4().hex}"
    upload(mini_demo / "landing", f"{place}/landing", mill.options())
    shutil.rmtree(home.folder / "demo" / "landing")
    data = yaml.safe_load(home.pipeline.read_text())
    data["site"].update(store=f"{place}/store", landing=f"{place}/landing")
    home.pipeline.write_text(yaml.safe_dump(data))
    home.env.update(mill.environment())
    arguments = ("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "8")
    store = open_blobs(f"{place}/store", mill.options())
    with (tmp_path / "err").open("w") as err:
        running = subprocess.Popen(home.command(*arguments), env=home.env, cwd=ROOT, stdout=err, stderr=err)
        while running.poll() is None and sum(p.endswith(MANIFEST) for p, _ in store.list("")) < 30:
            time.sleep(0.2)
        assert running.poll() is None, "it was over before its server could be killed"
        seaweed.kill()
        seaweed.start("mill")
        running.wait(400)
    said = (tmp_path / "err").read_text()
    if running.returncode:  # the server was away for longer than a call is tried again: a sentence, and nothing lost
        assert "gristmill: " in said
        assert "Traceback" not in said
    last = home.run(*arguments)
    assert last.returncode == 0, last.stderr[-3000:]
    assert_same(Store(f"{place}/store", mill.options()), alone)
    again = home.run(*arguments)
    assert "nothing to do" in again.stdout
    assert manifest_hash(again.stdout) == alone.hash


class Site:
    """A site whose runs go to pods: store, landing and hold-outs in S3, history in PostgreSQL behind PgBouncer."""

    def __init__(self, folder, demo, seaweed, postgres, kubernetes) -> None:
        self.mill, self.keeper = seaweed.identity("mill"), seaweed.identity("keeper")
        place = f"s3://mill/{uuid.uuid4().hex}"
        self.store = f"{place}/store"
        upload(demo / "landing", f"{place}/landing", self.mill.options())
        self.home, self.folder = folder / "home", folder / "site"
        self.home.mkdir(parents=True)
        self.folder.mkdir()
        data = yaml.safe_load((demo / "pipeline.yaml").read_text())
        held = f"s3://holdouts/{uuid.uuid4().hex}"
        upload(demo / data["site"]["holdout"], held, self.keeper.options())
        copied = holdout.open_holdout(held, options=self.keeper.options())
        assert copied.hash == data["params"]["extract"]["holdout_hash"]
        shutil.copytree(demo / data["site"]["models"], self.folder / "models")
        data["site"].update(store=self.store, landing=f"{place}/landing", holdout=held, holdout_env="HOLDOUT_",
                            models="models", recipe="recipe.yaml", executor="k8s",
                            gpu={"image": "registry.example/gristmill:gpu", "node_selector": {"gristmill/pool": "gpu"},
                                 "limits": {"memory": "96Gi"}, "priority_class": "gristmill-gpu"})
        self.pipeline = self.folder / "pipeline.yaml"
        self.pipeline.write_text(yaml.safe_dump(data))
        (self.folder / "recipe.yaml").write_text(RECIPE)
        pool = cluster.find(cluster.render(), "ConfigMap", "gristmill-pgbouncer")["data"]["pgbouncer.ini"]
        settings = dict(line.split(" = ") for line in pool.split("[pgbouncer]")[1].strip().splitlines()
                        if " = " in line)
        for own in ("listen_addr", "listen_port", "auth_file"):
            settings.pop(own)
        self.pool = PgBouncer(postgres.folder / "pgbouncer", postgres, settings)
        (self.home / "dagster.yaml").write_text(cluster.instance_config(
            self.home, kubernetes.kubeconfig, self.pool.address.port, self.folder))
        # What the administrator made, and what only the pods and the code server are given.
        kubernetes.secrets = {
            "gristmill-postgres": {"password": postgres.address.password},
            "gristmill-store": self.mill.environment(), "gristmill-holdout": self.keeper.environment("HOLDOUT_"),
        }
        kubernetes.environment = {"GRISTMILL_PIPELINE": str(self.pipeline)}
        self.environment = {
            "DAGSTER_HOME": str(self.home), "DAGSTER_PG_PASSWORD": postgres.address.password,
            "GRISTMILL_PIPELINE": str(self.pipeline), "DAGSTER_EVENT_BATCH_SIZE": "1000",
            **self.mill.environment(), **self.keeper.environment("HOLDOUT_"),
        }


@pytest.fixture(scope="module")
def in_pods(tmp_path_factory, mini_demo, seaweed, postgres, kubernetes):  # noqa: F811
    """A crawl taken to a manifest by runs and steps in pods."""
    if bouncer() is None:
        pytest.skip("PgBouncer is not installed (apt-get install pgbouncer): .ci/run installs it")
    site = Site(tmp_path_factory.mktemp("pods"), mini_demo, seaweed, postgres, kubernetes)
    site.cluster, site.runs = kubernetes, []
    try:
        with cluster.control(site.home, site.environment) as control:
            Registry(Store(site.store, site.mill.options())).register(CRAWL)
            control.instance.add_dynamic_partitions(grids.CRAWL, [CRAWL])
            control.instance.add_dynamic_partitions(grids.VERSION, ["v1"])
            alone_first = [s for s in FUNNEL if not s.on_grid]
            before = [s for s in alone_first if FUNNEL.index(s) < next(i for i, f in enumerate(FUNNEL) if f.on_grid)]
            needed = [s for s in alone_first if s.name == "contamination_report"]
            jobs = [*((f"{s.name}_job", {"dagster/partition": CRAWL} if s.by == "crawl" else {}, {"ops": [s.name]})
                      for s in before),
                    # One stage's checks only: every one would be a pod, and this is not what they are tested by.
                    ("funnel_job", grids.range_tags(CRAWL, 0, 3), {
                        "assets": [s.name for s in FUNNEL if s.on_grid], "checks": [("raw_warc", "retention")],
                        "ops": [s.name for s in FUNNEL if s.on_grid]}),
                    *((f"{s.name}_job", {"dagster/partition": CRAWL}, {"ops": [s.name]}) for s in needed),
                    ("manifest_job", {"dagster/partition": "v1"}, {})]
            for job, tags, chosen in jobs:
                run = control.run(job, tags=tags, **chosen)
                assert run.is_success, f"{job}\n{kubernetes.output()[-8000:]}"
                site.runs.append(run)
        yield site
    finally:
        site.pool.stop()


@pytest.mark.cluster
def test_pods_come_to_the_same_partitions_and_manifest(in_pods, alone):
    assert_same(Store(in_pods.store, in_pods.mill.options()), alone)


@pytest.mark.cluster
def test_every_stage_of_the_grid_had_a_pod_of_its_own(in_pods):
    jobs = in_pods.cluster.posted
    assert all(j["spec"]["template"]["spec"]["serviceAccountName"] == "gristmill-launcher" for j in jobs)
    steps = [j["metadata"]["labels"].get("dagster/op") for j in jobs]
    assert {s.name for s in FUNNEL if s.on_grid} <= set(steps)
    assert in_pods.cluster.refused == []


@pytest.mark.cluster
def test_a_stage_that_uses_a_gpu_goes_to_the_gpu_pool_and_no_other_does(in_pods):
    gpu = {s.name for s in FUNNEL if s.device == "gpu"}
    assert gpu
    for job in in_pods.cluster.posted:
        pod = job["spec"]["template"]["spec"]
        container, op = pod["containers"][0], job["metadata"]["labels"].get("dagster/op")
        if op in gpu:
            assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
            assert container["image"] == "registry.example/gristmill:gpu"
            assert pod["nodeSelector"]["gristmill/pool"] == "gpu"
            assert pod["priorityClassName"] == "gristmill-gpu"
        else:
            assert "nvidia.com/gpu" not in container["resources"].get("limits", {})
            assert pod["nodeSelector"] == {"gristmill/pool": "cpu"}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.cluster
def test_no_secret_is_in_any_pod_run_event_log_or_partition(in_pods, postgres):
    """Every secret of this site was made for this test, so finding one anywhere says where it leaked."""
    planted = {postgres.address.password, in_pods.mill.secret, in_pods.keeper.secret}
    assert all(len(s) >= 24 for s in planted)
    stored = postgres.dump()
    assert CRAWL in stored
    places = {
        "Dagster's database": stored,
        "the posted jobs": json.dumps(in_pods.cluster.posted),
        "the pods' logs": "".join(p.read_text(errors="replace") for p in in_pods.cluster.folder.glob("*.log")),
        "dagster.yaml": (in_pods.home / "dagster.yaml").read_text(),
        "pipeline.yaml": in_pods.pipeline.read_text(),
    }
    for place, text in places.items():
        for secret in planted:
            assert secret not in text, place
    blobs = Store(in_pods.store, in_pods.mill.options()).blobs
    read = 0
    for path, _ in blobs.list(""):
        data = blobs.get(path)
        read += 1
        assert not any(s.encode() in data for s in planted), path
    assert read > 50
    assert secrets.token_hex(12) not in stored  # the search itself finds only what is there


@pytest.mark.cluster
def test_a_stages_materialisations_are_one_statement(in_pods, postgres):
    """Event batching as PostgreSQL sees it: in its own log a stage's four partitions are one INSERT.

    Dagster batches materialisations; what it plans stays one statement a partition.
    """
    run = next(r for r in in_pods.runs if r.job_name == "funnel_job")
    stages = len([s for s in FUNNEL if s.on_grid])
    stored = postgres.query(f"SELECT count(*) FROM event_logs WHERE run_id = '{run.run_id}' "
                            "AND dagster_event_type = 'ASSET_MATERIALIZATION'")[0][0]
    log = (postgres.folder / "log").read_text(errors="replace")
    inserts = [line.count("'ASSET_MATERIALIZATION'") for line in log.splitlines()
               if "INSERT INTO event_logs" in line and f"('{run.run_id}'" in line and "'ASSET_MATERIALIZATION'" in line]
    assert stored == 4 * stages
    assert inserts == [4] * stages


@pytest.mark.cluster
def test_many_connections_share_few(in_pods, postgres):
    """The pool before the server: as many clients as there are pods, no more servers than its size."""
    import psycopg2

    url = postgres.address.url.replace(f":{postgres.address.port}/", f":{in_pods.pool.address.port}/")
    clients = [psycopg2.connect(url) for _ in range(80)]  # the server itself takes 60
    try:
        for client in clients:
            client.autocommit = True
            with client.cursor() as cursor:
                cursor.execute("SELECT 1")
                assert cursor.fetchone() == (1,)
        busy = postgres.query("SELECT count(*) FROM pg_stat_activity WHERE datname = 'dagster'")[0][0]
        assert busy <= 22
    finally:
        for client in clients:
            client.close()

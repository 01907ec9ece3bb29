"""The command line on a training host: the loader's dependencies, and no others."""

import subprocess
import sys

import pytest

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"dagster", "polars", "pydantic", "yaml", "obstore", "trafilatura", "tokenizers"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def bare(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("code", [
    "import gristmill.loader, gristmill.loader.loader",
    "from gristmill.cli import main\nmain(['--help'])",
    "from gristmill.tokens import shard, packing\nfrom gristmill.mixture import schedule, replay",
])
def test_the_loader_and_the_command_line_load_without_the_pipelines_packages(code):
    result = bare(code)
    assert result.returncode == 0, result.stderr


def test_a_command_that_needs_more_says_what_to_install(tmp_path):
    result = bare("from gristmill.cli import main\nsys.exit(main(['yields', '--pipeline', 'x.yaml']))")
    assert result.returncode == 1
    assert "pip install '.[pipeline]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_replay_runs_on_a_training_host(tmp_path):
    result = bare(f"from gristmill.cli import main\nsys.exit(main(['replay', 'v1', '--root', {str(tmp_path)!r}]))")
    assert result.returncode == 1  # there is no such version, and that is all that is wrong
    assert "v1" in result.stderr
    assert "Traceback" not in result.stderr

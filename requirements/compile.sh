#!/usr/bin/env bash
# Writes the pinned, hashed requirement files anew. Needs uv. No index lines: the client's own settings decide where from.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
  uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
    --no-strip-extras --no-annotate -q "$@"
}
compile pyproject.toml -o requirements/base.txt
compile pyproject.toml requirements/build.in --extra pipeline --extra dev --extra aws --extra postgres --extra k8s \
  -o requirements/dev.txt
compile pyproject.toml requirements/build.in --extra pipeline -c requirements/dev.txt -o requirements/pipeline.txt
# What the Dockerfile's targets install, for their one Python and platform. cuDF and vLLM need different Numba versions.
image() {
  uv pip compile pyproject.toml requirements/build.in --python-version 3.12 --python-platform x86_64-manylinux_2_36 \
    --only-binary :all: --generate-hashes --no-emit-index-url --no-header --no-strip-extras --no-annotate -q \
    --extra pipeline --extra aws --extra postgres --extra k8s "$@"
}
image -c requirements/dev.txt -o requirements/image-cpu.txt
image --extra gpu --extra embed -o requirements/image-gpu.txt
image --extra llm -o requirements/image-llm.txt

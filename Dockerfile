# Three images of one project: cpu (control plane and most stages), gpu (stages that use CUDA) and llm (vLLM, which needs
# another Numba than cuDF, so it cannot share an image with it). Build: docker build --target cpu -t gristmill:0.1.0-cpu .
# The base is named by version; a deployment passes its digest: --build-arg BASE=python@sha256:...
# CUDA's libraries come as wheels; the node brings the driver (NVIDIA container toolkit).
ARG BASE=python:3.12.11-slim-bookworm

FROM ${BASE} AS base
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/venv/bin:$PATH
RUN python -m venv /opt/venv && groupadd -g 10001 mill && useradd -u 10001 -g 10001 -m -s /usr/sbin/nologin mill
WORKDIR /opt/gristmill

# Packages come from hashed lists, and before the source: a change of the source does not install them again.
FROM base AS cpu-packages
COPY requirements/image-cpu.txt requirements/
RUN pip install --no-deps --require-hashes -r requirements/image-cpu.txt

FROM base AS gpu-packages
# Triton and CuPy compile kernels when they run.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY requirements/image-gpu.txt requirements/
RUN pip install --no-deps --require-hashes -r requirements/image-gpu.txt
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM base AS llm-packages
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY requirements/image-llm.txt requirements/
RUN pip install --no-deps --require-hashes -r requirements/image-llm.txt
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

# The project, once; the images differ in their packages only. No credential, no site's file: those are mounted.
FROM base AS project
COPY pyproject.toml README.md definitions.py launch.py workspace.yaml ./
COPY gristmill gristmill
COPY assets assets
COPY checks checks
COPY partitions partitions
COPY resources resources
COPY sensors sensors

FROM cpu-packages AS cpu
COPY --from=project /opt/gristmill /opt/gristmill
RUN pip install --no-deps --no-build-isolation -e . && python -m compileall -q gristmill && mkdir -p /opt/dagster/home \
    && chown 10001:10001 /opt/dagster/home
ENV DAGSTER_HOME=/opt/dagster/home NUMBA_CACHE_DIR=/tmp/numba
USER 10001:10001

FROM gpu-packages AS gpu
COPY --from=project /opt/gristmill /opt/gristmill
RUN pip install --no-deps --no-build-isolation -e . && python -m compileall -q gristmill && mkdir -p /opt/dagster/home \
    && chown 10001:10001 /opt/dagster/home
ENV DAGSTER_HOME=/opt/dagster/home NUMBA_CACHE_DIR=/tmp/numba
USER 10001:10001

FROM llm-packages AS llm
COPY --from=project /opt/gristmill /opt/gristmill
RUN pip install --no-deps --no-build-isolation -e . && python -m compileall -q gristmill && mkdir -p /opt/dagster/home \
    && chown 10001:10001 /opt/dagster/home
ENV DAGSTER_HOME=/opt/dagster/home NUMBA_CACHE_DIR=/tmp/numba
USER 10001:10001

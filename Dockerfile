# The demo in a container, without a GPU:
#     docker build -t vinets --build-arg PIP_EXTRA_INDEX_URL=... .
# The index is PyTorch's for CPUs, see docs/install.md; without it, torch brings gigabytes for GPUs.
#     docker run --rm -v "$PWD/out:/work/out" vinets
# Any other command: docker run --rm -v "$PWD:/work" vinets vinets predict vinets/digits-cnn-products

FROM python:3.11-slim-bookworm

COPY constraints.txt pyproject.toml README.md LICENSE /source/
COPY .ci/readme.py /source/.ci/
COPY src /source/src
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[demo,images]" \
    && useradd --create-home --uid 1000 vinets \
    && install -d -o vinets /work /work/out

USER 1000
WORKDIR /work
CMD ["sh", "-c", "vinets reproduce all --on digits --jobs 2 --out out/demo && vinets report out/demo"]

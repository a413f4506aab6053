# Every target sets up what it needs on a machine that has just Python (3.11 or later) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two Envoys at a time is what a two-core machine carries; unit tests use every core.
WORKERS ?= auto

ON_BOTH_TRANSPORTS := smoke requests streaming bodies failover restart

.PHONY: demo test unit dataplane programs check style bench golden lock clean

demo: $(VENV)/.demo ## run the main job: a real Envoy, the processor, stand-in upstreams, a rate limit service
	$(BIN)/extproc demo $(ARGS)

test: $(VENV)/.dev programs ## the whole suite, and what a real Envoy sees also of the other transport
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)
	EXTPROC_TRANSPORT=grpcio $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ON_BOTH_TRANSPORTS:%=tests/dataplane/test_%.py)

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/unit $(ARGS)

programs: $(VENV)/.dev ## nghttp2's clients and Chromium, from Debian's packages; where they cannot be had, their tests are skipped
	@$(BIN)/python -m tests.bench.tools nghttp h2load chromium || echo "go on without them"

dataplane: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/dataplane $(ARGS)

check: $(VENV)/.dev ## format, lint, types, import contracts, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python protos/generate.py --check
	$(BIN)/python -m filter_config.schema --check
	$(BIN)/python -m extproc.settings | diff docs/reference/flags.md -
	$(BIN)/python -m deploy.controller.flags | diff docs/reference/controller-flags.md -
	$(BIN)/python -m extproc.translate.chat.matrix | diff docs/reference/chat-backends.md -
	$(BIN)/python -m extproc.translate.matrix | diff docs/reference/endpoints.md -
	$(BIN)/python -m deploy.compose --check
	$(BIN)/python -m deploy.grafana --check
	$(BIN)/python -m deploy.kubernetes --check

style: $(VENV)/.dev ## rewrite what the formatter and the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## what requests, chunks, streams and reloads cost on each transport; ARGS=--quick for two minutes
	$(BIN)/python -m tests.bench $(ARGS)

golden: $(VENV)/.dev ## rewrite generated and golden files from today's code
	$(BIN)/python protos/generate.py
	$(BIN)/python -m filter_config.schema
	$(BIN)/python -m extproc.settings > docs/reference/flags.md
	$(BIN)/python -m deploy.controller.flags > docs/reference/controller-flags.md
	$(BIN)/python -m extproc.translate.chat.matrix > docs/reference/chat-backends.md
	$(BIN)/python -m extproc.translate.matrix > docs/reference/endpoints.md
	$(BIN)/python -m deploy.compose
	$(BIN)/python -m deploy.grafana
	$(BIN)/python -m deploy.kubernetes
	$(BIN)/python -m pytest -q tests/unit/exchange/test_golden.py tests/unit/translate tests/unit/filter_config/sources \
		tests/unit/telemetry/tracing/test_golden_spans.py --update-golden

lock: $(VENV)/.dev ## resolve requirements/*.txt anew, with hashes
	$(BIN)/python requirements/lock.py

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/demo.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

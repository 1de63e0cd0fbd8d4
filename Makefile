# `make plan` and `make test` set up all they need in .venv; everything else builds on them.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks experiments examples docs/tools
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

# An environment cannot be moved: in a folder with another name it is made anew.
ifneq ($(shell cat .venv/path 2>/dev/null),$(CURDIR))
MOVED := moved
endif

.PHONY: plan serve test test-slow test-processors test-lowest check format docs benchmark evidence-quick dist clean moved

# A certificate and a report that exist are kept: the next ones get numbers.
plan: .venv/light
	@echo "Planning for 60,000 examples, batches of 512, 2,000 iterations, epsilon 4, delta 1e-5: under a minute."
	@number=; while [ -e certificate$$number.json ] || [ -e plan$$number.html ]; do \
		next=$$(($${next:-1} + 1)); number=-$$next; done; \
	$(BIN)/minsep plan --examples 60000 --batch-size 512 --iterations 2000 --epsilon 4 --delta 1e-5 \
		--output certificate$$number.json --report plan$$number.html && \
	echo && \
	echo "Check the certificate:  $(BIN)/minsep verify certificate$$number.json"
	@echo "Install PyTorch:        $(BIN)/python -m pip install -e '.[torch]'"
	@echo "Enter the environment:  . $(BIN)/activate    (after that, minsep and python are those of $(BIN))"

# A page to explore plans, in the browser of this machine.
serve: .venv/web
	@$(BIN)/minsep serve

test: .venv/ready .venv/browser check
	$(BIN)/pytest -q -n 2

test-slow: .venv/ready
	$(BIN)/pytest -q -n 2 -m slow

# The tests that may depend on the processor, as libraries compute on six types of processor: about half an hour.
test-processors: .venv/ready
	$(BIN)/python -m tests.processors

# The tests of the core, reports and Parquet with the lowest versions of their dependencies, in an environment of its own.
test-lowest: .venv-lowest/ready
	.venv-lowest/bin/pytest -q -n 2 tests/accounting tests/attribution tests/cli tests/noise tests/participation \
		tests/randomness tests/statements tests/strategy tests/test_mechanism.py tests/test_state.py

check: .venv/ready
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(MKDOCS) build --strict

format: .venv/ready
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# A broken link, or a public name that the reference leaves out, is an error.
docs: .venv/ready
	$(MKDOCS) build --strict
	@echo "The documentation is in site/index.html; to search it, run: $(BIN)/python -m http.server --directory site"

benchmark: .venv/benchmarks
	$(BIN)/python -m benchmarks.foundation
	$(BIN)/python -m benchmarks.accounting
	$(BIN)/python -m benchmarks.certify
	$(BIN)/python -m benchmarks.plan
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.attribution
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.device_noise
	$(BIN)/python -m benchmarks.audit

# A small slice of every section of docs/evidence.md, without data, in under five minutes.
evidence-quick: .venv/ready
	$(BIN)/python -m experiments.quick

.venv/light: pyproject.toml constraints.txt $(MOVED)
	$(PYTHON) -m venv $(if $(MOVED),--clear) .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[report]'
	@echo '$(CURDIR)' > .venv/path
	@touch $@

.venv/web: .venv/light
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[web]'
	@touch $@

.venv/ready: .venv/light
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# The report is opened in a real browser where there is one; Debian's is installed if that is possible.
.venv/browser: .venv/ready
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq >/dev/null 2>&1 && apt-get install -qq -y chromium >/dev/null 2>&1; } || \
		echo "There is no Chromium: tests that open the report in a browser are skipped (Debian: apt install chromium)."
	@touch $@

.venv/benchmarks: .venv/ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[benchmarks]'
	@touch $@

.venv-lowest/ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --upgrade pip
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt --editable '.[report,parquet]' \
		hypothesis mpmath pytest pytest-xdist
	@touch $@

dist: .venv/ready
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/pytest -q tests/packaging

clean:
	rm -rf .venv .venv-lowest build dist site

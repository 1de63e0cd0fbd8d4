# `make plan` and `make test` set up all they need in .venv; everything else builds on them.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks experiments examples

.PHONY: plan test test-slow check format benchmark evidence-quick clean

plan: .venv/light
	@echo "Planning for 60,000 examples, batches of 512, 2,000 iterations, epsilon 4, delta 1e-5: about half a minute."
	@$(BIN)/minsep plan --examples 60000 --batch-size 512 --iterations 2000 --epsilon 4 --delta 1e-5 \
		--output certificate.json --report plan.html

test: .venv/ready .venv/browser check
	$(BIN)/pytest -q -n 2

test-slow: .venv/ready
	$(BIN)/pytest -q -n 2 -m slow

check: .venv/ready
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/ready
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

benchmark: .venv/benchmarks
	$(BIN)/python -m benchmarks.foundation
	$(BIN)/python -m benchmarks.accounting
	$(BIN)/python -m benchmarks.certify
	$(BIN)/python -m benchmarks.plan
	$(BIN)/python -m benchmarks.attribution
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.device_noise

# A small slice of every section of docs/evidence.md, without data, in under five minutes.
evidence-quick: .venv/ready
	$(BIN)/python -m experiments.quick

.venv/light: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[report]'
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

clean:
	rm -rf .venv build dist

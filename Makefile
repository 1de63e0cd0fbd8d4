# `make plan` and `make test` set up all they need in .venv; everything else builds on them.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks

.PHONY: plan test test-slow check format benchmark clean

plan: .venv/ready
	@$(BIN)/minsep strategy --iterations 2000 --bands 16
	@$(BIN)/minsep batches --examples 60000 --batch-size 512 --iterations 2000 --min-sep 16
	@echo "Calibrating the noise for epsilon 4, delta 1e-5: about a minute."
	@$(BIN)/minsep calibrate --examples 60000 --batch-size 512 --iterations 2000 --bands 16 \
		--epsilon 4 --delta 1e-5 --output certificate.json

test: .venv/ready check
	$(BIN)/pytest -q -n 2

test-slow: .venv/ready
	$(BIN)/pytest -q -n 2 -m slow

check: .venv/ready
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

benchmark: .venv/benchmarks
	$(BIN)/python -m benchmarks.foundation
	$(BIN)/python -m benchmarks.accounting

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

.venv/benchmarks: .venv/ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[benchmarks]'
	@touch $@

clean:
	rm -rf .venv build dist

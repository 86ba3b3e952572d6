# `make` lists the targets. All work from a fresh clone: missing programs are installed first.

.DEFAULT_GOAL := help
.NOTPARALLEL:

BOOTSTRAP := deploy/local/bootstrap
PYTHON := .venv/bin/python
STACK := $(PYTHON) -m tablebell_local
TOOLS := $(PYTHON) -m tablebell_tools
SOURCES := $(wildcard shared/src services/*/src deploy/*/src tools/src bench chaos)
# One run each: two suites may have modules of the same name.
SUITES := $(wildcard shared/tests services/*/tests deploy/*/tests tools/tests tests)
SCRIPTS := $(BOOTSTRAP) .ci/run

# docker or local; without it, docker if an engine answers, otherwise local.
export MODE

##@ The system

.PHONY: up
up: python ## Start everything, and return when it is healthy (SCALE="event-relay=3", SET="MAX_ATTEMPTS=3", MODE=docker|local)
	@$(STACK) up $(addprefix --scale ,$(SCALE)) $(addprefix --set ,$(SET))

.PHONY: down
down: some-python ## Stop everything
	@$(STACK) down --all

.PHONY: status
status: some-python ## Show the state, age and address of every process
	@$(STACK) status

.PHONY: logs
logs: some-python ## Show the logs (PART=event-relay, FOLLOW=1, LINES=50)
	@$(STACK) logs $(PART) $(if $(FOLLOW),--follow) $(if $(LINES),--lines $(LINES))

.PHONY: demo
demo: python ## Start everything and show how one reservation reaches everyone (SCALE=…, MODE=…)
	@$(TOOLS) demo $(addprefix --scale ,$(SCALE))

##@ Working with it

.PHONY: token
token: some-python ## Print a token for a demo person (AS=restaurant_user:50, customer:5, admin_user:1, agency_user:70)
	@$(TOOLS) token "$(if $(filter default,$(origin AS)),,$(AS))"

.PHONY: env
env: some-python ## Print the running system's addresses: eval "$(make -s env)"
	@$(TOOLS) env

.PHONY: audit
audit: some-python ## Check that nothing was lost between the levels (HOURS=24)
	@$(TOOLS) audit $(if $(HOURS),--hours $(HOURS))

.PHONY: republish
republish: some-python ## Publish events again, or move dead messages back; without a filter, print the usage (UNHANDLED=1, DEAD=1, SINCE=1h, DRY=1)
	@$(TOOLS) republish $(if $(SINCE),--since "$(SINCE)") $(if $(EVENT),--event "$(EVENT)") $(if $(TYPE),--type "$(TYPE)") \
	  $(if $(UNHANDLED),--unhandled) $(if $(DEAD),--dead) $(if $(ERROR),--error "$(ERROR)") $(if $(DRY),--dry-run)

.PHONY: import
import: some-python ## Import people from a CSV file; without FILE, print the usage (FILE=people.csv, DRY=1)
	@$(TOOLS) import $(if $(FILE),--file "$(FILE)") $(if $(DRY),--dry-run)

.PHONY: migrate
migrate: python ## Bring the running database's schema up to date
	@$(STACK) migrate

##@ Working on it

.PHONY: setup
setup: ## Install what is missing: uv, the environment in .venv, PostgreSQL and RabbitMQ
	@$(BOOTSTRAP)

.PHONY: test
test: python ## Run the tests against a PostgreSQL and a RabbitMQ of their own (ARGS="-k outbox")
	@$(TOOLS) test -- $(ARGS)

.PHONY: preview
preview: python ## Write every message in every language to a folder with an index page (FOLDER=…, CUSTOMER=…, HELP=1)
	@$(TOOLS) preview $(if $(HELP),--help) $(if $(FOLDER),--folder "$(FOLDER)")

.PHONY: bench
bench: python ## Measure every hop and its raw ceiling (ONLY=relay)
	@$(TOOLS) bench $(ONLY)

.PHONY: chaos
chaos: python ## Kill and restart everything under load, then check that nothing was lost (DURATION=60, RATE=20, SEED=7)
	@$(PYTHON) -m chaos $(if $(DURATION),--duration $(DURATION)) $(if $(RATE),--rate $(RATE)) $(if $(SEED),--seed $(SEED))

.PHONY: lint
lint: python ## Check style, formatting, imports and shell scripts
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@.venv/bin/lint-imports
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); else echo "No shellcheck here: skipped $(SCRIPTS)"; fi

.PHONY: types
types: python ## Check the types
	@$(PYTHON) -m mypy $(SOURCES)
	@for suite in $(SUITES); do $(PYTHON) -m mypy --no-error-summary "$$suite" || exit 1; done

.PHONY: dependencies
dependencies: python ## Check uv.lock without a network: hashes, known vulnerabilities, licences
	@$(TOOLS) dependencies

.PHONY: advisories
advisories: python ## Download the list of known vulnerabilities (tools/advisories.json)
	@$(TOOLS) advisories

.PHONY: sbom
sbom: python ## Write the software bill of materials, CycloneDX 1.5 (OUT=sbom.cdx.json)
	@$(TOOLS) sbom $(if $(OUT),--out $(OUT))

.PHONY: format
format: python ## Format the code and apply automatic fixes
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

.PHONY: clean
clean: some-python ## Stop everything and remove all data, logs and caches
	@$(STACK) clean
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# The environment of this checkout; fast when it is up to date.
.PHONY: python
python:
	@$(BOOTSTRAP) python

# Targets that read or stop the system use any existing environment, so they work without a network.
.PHONY: some-python
some-python:
	@test -f .venv/synced || $(BOOTSTRAP) python

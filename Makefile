# What CI runs and what a developer runs are the same targets: `make help` lists them.

FUZZTIME ?= 10s
CHAOSTIME ?= 5m
CHAOSCLIENTS ?= 8
GO ?= go

# Packages with goroutines of their own, worth the race detector's price.
RACE := ./client/... ./internal/auth ./internal/disk/... ./internal/edge ./internal/node ./internal/peer ./internal/router ./internal/shard ./internal/telemetry ./internal/transport

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## one static binary: bin/galgo
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/galgo ./cmd/galgo

.PHONY: test
test: ## all tests
	$(GO) test ./...

# The race detector needs cgo; the binary does not.
.PHONY: race
race: ## tests of the concurrent packages under the race detector
	CGO_ENABLED=1 $(GO) test -race $(RACE)
	CGO_ENABLED=1 $(GO) test -race -run BesideWrites ./internal/wal

.PHONY: lint
lint: fmt vet staticcheck ## all that can be checked without running

.PHONY: fmt
fmt: ## refuse files that gofmt would change
	@unformatted="$$(gofmt -l .)"; \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:" $$unformatted >&2; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck: ## staticcheck, at the version of tools/go.mod
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

# go test fuzzes one target at a time, so each is found and run by itself.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: chaos
chaos: ## three real nodes for CHAOSTIME (5m) and CHAOSCLIENTS (8) producers and consumers, while much goes wrong; CHAOSSEED says what
	GALGO_CHAOS_DURATION=$(CHAOSTIME) GALGO_CHAOS_CLIENTS=$(CHAOSCLIENTS) GALGO_CHAOS_SEED=$(CHAOSSEED) $(GO) test ./test -count 1 -run 'TestChaos$$' -v -timeout 2h

.PHONY: bench
bench: ## all benchmarks of the packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Each mutation is a build of its own and up to some hundred seeds.
.PHONY: mutations
mutations: ## take one rule after the other out of galgo; the simulator must notice
	$(GO) run ./internal/sim/mutate

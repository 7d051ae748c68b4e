# make        what you want before a commit
# make test   the README's test command: installs PostgreSQL and promtool where it can, then runs every test
# make ci     what CI runs; if it passes here it passes there
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := check
.DELETE_ON_ERROR:

# The modules of the workspace. tools/ is none of them (docs/adr/0003).
MODULES  = $(shell go list -f '{{.Dir}}' -m)
BIN      := $(CURDIR)/bin
GOLANGCI := $(BIN)/golangci-lint
FUZZTIME ?= 30s
COUNT    ?= 1
# No goroutines, or whole scenarios for a minute.
RACE_SKIP ?= internal/archtest|dev/latencysim|dev/breakerstates|internal/assets|internal/playground|cmd/breakwater

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check
check: build test lint ## Build, test and lint every module

.PHONY: deps
deps: ## Install what the tests need (the PostgreSQL server, promtool, HAProxy, systemd-analyze), or say how
	@tools/install-postgres.sh
	@tools/install.sh promtool haproxy systemd-analyze

.PHONY: build
build: ## Compile every module of the workspace
	go build work

.PHONY: test
test: deps ## Every test of every module (./... would stop at the root module)
	go test -timeout 15m work

.PHONY: race
race: deps ## Race detector over the tests, but those of RACE_SKIP; COUNT=10 repeats
	GORACE=halt_on_error=1 go test -race -timeout $(if $(filter 1,$(COUNT)),20m,120m) -count=$(COUNT) $$(go list work | grep -vE '/($(RACE_SKIP))$$')

.PHONY: page
page: ## The page in headless Chromium, against a stand-in of the lab, then a daemon's (tools/page-test.sh --serve); installs Chromium and Node.js where it can
	@tools/install.sh chromium npm
	tools/page-test.sh
	tools/page-test.sh --serve

.PHONY: leaks
leaks: deps ## Every test with the goroutine-leak profile, which its TestMain then asks
	GOEXPERIMENT=goroutineleakprofile go test -count=1 -timeout 15m work

# golangci-lint and the others are built once per change of their versions: a linter that starts in
# a second is one that people run.
$(BIN)/golangci-lint $(BIN)/benchstat $(BIN)/govulncheck &: tools/go.mod tools/go.sum
	cd tools && GOWORK=off GOBIN=$(BIN) go install tool
	@touch $(BIN)/golangci-lint $(BIN)/benchstat $(BIN)/govulncheck

.PHONY: tools
tools: $(GOLANGCI) ## Build the linter, benchstat and govulncheck into bin/

.PHONY: lint
lint: $(GOLANGCI) ## vet, golangci-lint, go fix and tidy, per module; go.work.sum
	go vet work
	@bad=; for m in $(MODULES); do (cd $$m && echo "lint $$m" && $(GOLANGCI) run ./...) || bad="$$bad $$m"; done; \
	  test -z "$$bad" || { echo "the linter found faults in:$$bad"; exit 1; }
	@out=$$(go fix -diff work 2>&1) || true; test -z "$$out" || { echo "$$out"; echo "run: go fix work"; exit 1; }
	@for m in $(MODULES) $(CURDIR)/tools; do (cd $$m && GOWORK=off go mod tidy -diff); done
	@before=$$(cat go.work.sum); go list -m all >/dev/null; test "$$before" = "$$(cat go.work.sum)" || \
	  { echo "go list -m all has changed go.work.sum: commit it, or it changes in every clone"; exit 1; }

.PHONY: format
format: $(GOLANGCI) ## Rewrite the files as the linter wants them formatted
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI) fmt ./...); done

.PHONY: alone
alone: ## Every module must also build without the workspace
	@for m in $(MODULES); do (cd $$m && echo "alone $$m" && GOWORK=off go build -o /dev/null ./... && GOWORK=off go vet ./...); done

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME
	@go list -f '{{.Dir}}' work | while read -r d; do \
	  { grep -ho "^func Fuzz[A-Za-z0-9_]*" $$d/*_test.go 2>/dev/null || true; } | sed 's/func //' | while read -r f; do \
	    echo "fuzz $$f in $$d"; (cd $$d && go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x .); done; done

.PHONY: fuzz-http
fuzz-http: ## The endpoints of operators and of emits: whatever anybody sends, for 5 minutes
	cd cmd/breakwater && go test -run '^$$' -fuzz '^FuzzAdmin$$' -fuzztime 150s -fuzzminimizetime 10x ./internal/api
	cd cmd/breakwater && go test -run '^$$' -fuzz '^FuzzEmit$$' -fuzztime 150s -fuzzminimizetime 10x ./internal/gateway

.PHONY: bench
bench: $(BIN)/benchstat deps ## Benchmarks, ten runs, summarised by benchstat
	go test -run '^$$' -bench . -benchmem -count=10 -cpu 1,2 -timeout 120m work | tee bench.txt
	$(BIN)/benchstat bench.txt

.PHONY: bench-peers
bench-peers: ## The breaker beside other libraries, in under two minutes; rewrites the table of docs/benchmarks.md
	go run ./dev/peers -write docs/benchmarks.md

.PHONY: prove
prove: deps ## The long versions: a million calls under race, 20 million model steps, kills and power cuts, mutations, stress x 20, leaks, race x 10, fuzzing, lab scenarios five times
	BREAKWATER_PROVE=1 GORACE=halt_on_error=1 go test -race -count=1 -timeout 60m -run '^TestManyAtOnce$$' ./pgxread
	go test -count=1 -timeout 60m ./dev/breakermodel -rapid.checks=200000
	go test -count=1 -timeout 60m ./dev/readpathmodel -rapid.checks=300000
	BREAKWATER_PROVE=1 go test -count=1 -timeout 60m -run '^Test(Killed|PowerCut|RandomDamage)' -v ./contrib/boltletters
	tools/mutate.sh
	go test -count=20 -cpu 2,8 -timeout 60m -run 'Stress|^TestRaceAt|UnderChange$$|UnderConcurrency$$' ./breaker ./limit ./replica ./internal/relay
	$(MAKE) leaks
	$(MAKE) race COUNT=10
	$(MAKE) fuzz
	go test -race -timeout 20m ./cmd/breakwater ./cmd/breakwater/internal/playground
	$(MAKE) page
	tools/page-test.sh --lab
	$(MAKE) fuzz-http soak
	tools/prove-lab.sh

.PHONY: vuln
vuln: $(BIN)/govulncheck ## Known vulnerabilities that the code really reaches (asks the Go vulnerability database)
	@for m in $(MODULES); do (cd $$m && $(BIN)/govulncheck ./...); done

.PHONY: lab
lab: ## A real primary with three replicas, traffic, and a live table
	go build -o $(BIN)/breakwater ./cmd/breakwater
	$(BIN)/breakwater lab

SOAK_FOR ?= 10m

.PHONY: soak
soak: deps ## The daemon for SOAK_FOR with a real fleet, emits, clients, reloads and faults; prints what it judged
	go build -o $(BIN)/breakwater ./cmd/breakwater
	go run ./cmd/breakwater/internal/soak --binary $(BIN)/breakwater --for $(SOAK_FOR)

.PHONY: ci
ci: ## Everything that CI runs
	.ci/run

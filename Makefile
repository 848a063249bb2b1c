# Segue: build, test, check, rehearse. `make` alone says what there is.
# Needs Go 1.21 or newer (it fetches the version below by itself), git, make, bash and, for the race
# detector, a C compiler.

# The Go version that everything is built with. Set here and nowhere else: `make env` prints it for a shell.
export GOTOOLCHAIN := go1.27.3

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# Without the state of git in the binaries a commit does not link them again.
GOFLAGS += -buildvcs=false
export GOFLAGS

BIN       := $(CURDIR)/bin
SCENARIOS ?= lab/scenarios/*.txtar
HTML      ?= $(BIN)/rehearsal.html
OUTPUT    ?= table
BENCH     ?= .
COUNT     ?= 5

# The components of the control plane say their version by these variables; it is the version in lab/go.mod.
KUBERNETES  = $(shell sed -n 's|^\tk8s.io/kubernetes v||p' lab/go.mod)
VERSION_VAR := k8s.io/component-base/version
LAB_LDFLAGS = -s -w -X $(VERSION_VAR).gitVersion=v$(KUBERNETES) \
	-X $(VERSION_VAR).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) \
	-X $(VERSION_VAR).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

# The packages of lab/ that link the control plane. They are vetted but not linted, and tested without
# the race detector: both would go through all of Kubernetes once more. internal/house keeps the list true.
LINKED := ./internal/components/... ./cmd/segue-lab/...
LIGHT  := go list ./... | grep -v -e /internal/components -e /cmd/segue-lab

TOOL  := go tool -modfile=$(CURDIR)/tools/go.mod
BUILD := $(CURDIR)/hack/go-build

# The tests and the scenarios start these programs as child processes.
export SEGUE_LAB_BIN := $(BIN)/segue-lab
test: export SEGUE_BIN := $(BIN)/race/segue
rehearse bench: export SEGUE_BIN := $(BIN)/segue

FIRST_LAB  := first build: compiles Kubernetes and Karpenter from source, about 10 minutes on 2 cores; later builds take seconds
FIRST      := first build: compiles the Kubernetes client libraries, about 2 minutes on 2 cores; later builds take seconds
FIRST_RACE := first build with the race detector: compiles the client libraries once more, about 4 minutes on 2 cores; later builds take seconds

# Targets run one after the other, also with make -j: go uses all cores by itself.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build build-race test check fmt vet lint structure generate verify rehearse bench clean env need-go need-cc

help: ## say what there is (the default)
	@echo 'make TARGET, where TARGET is'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile
	@echo 'rehearse takes SCENARIOS (files), OUTPUT (table or json) and HTML (where the page goes); bench takes BENCH (a pattern)'
	@echo 'and COUNT (runs); for example make rehearse SCENARIOS=lab/scenarios/kubectl-drain.txtar'

build: need-go ## build bin/segue and bin/segue-lab
	@cd lab && $(BUILD) 'build segue-lab' '$(FIRST_LAB)' -ldflags '$(LAB_LDFLAGS)' -o $(BIN)/segue-lab ./cmd/segue-lab
	@$(BUILD) 'build segue' '$(FIRST)' -o $(BIN)/segue ./cmd/segue

# The operator that the tests start, and before go test, which is silent, all that the tests link.
build-race: need-go need-cc
	@$(BUILD) 'build segue with the race detector' '$(FIRST_RACE)' -race -o $(BIN)/race/segue ./cmd/segue
	@$(BUILD) 'build tests' '$(FIRST_RACE)' -race ./...
	@cd lab && light=$$($(LIGHT)) && $(BUILD) 'build lab tests' '$(FIRST_RACE)' -race $$light

test: build check build-race ## build, check and run every test, with the race detector on for Segue's own code
	@echo 'test: Segue, then the lab, a package at a time; what links Kubernetes comes last, without the race detector'
	@light=$$(cd lab && $(LIGHT)) && \
	$(TOOL) gotestsum --format standard-quiet --raw-command -- hack/test-json "$$light" '$(LINKED)'

check: fmt vet lint verify structure ## check formatting, vet, staticcheck, generated files and the structure of the code
	@echo 'check: ok'

fmt: need-go
	@out=$$(git ls-files -co --exclude-standard '*.go' | xargs "$$(go env GOROOT)/bin/gofmt" -l); \
	if [ -n "$$out" ]; then echo 'check: gofmt would change these files (run gofmt -w on them):'; echo "$$out"; exit 1; fi

vet: need-go
	@echo 'check: go vet'
	@go vet ./...
	@cd lab && go vet ./...

lint: need-go
	@echo 'check: staticcheck'
	@$(TOOL) staticcheck ./...
	@cd lab && light=$$($(LIGHT)) && $(TOOL) staticcheck $$light

structure: need-go
	@echo 'check: structure'
	@go test -count=1 -vet=off ./internal/house

generate: need-go ## write the generated files: deep copies and CRDs of api/v1alpha1
	@hack/generate api/v1alpha1 charts/segue/crds

verify: need-go ## fail, with a diff, when generated files are not what the sources say
	@echo 'check: generated files'
	@hack/verify

rehearse: build ## run every scenario without and with Segue, print the comparison, write the page
	@rm -f $(HTML); code=0; \
	$(SEGUE_LAB_BIN) rehearse -o $(OUTPUT) --html $(HTML) $(SCENARIOS) || code=$$?; \
	if [ -e $(HTML) ]; then echo 'The page with the timelines: $(HTML)' >&2; fi; \
	exit $$code

bench: build ## run the benchmarks on the lab: median and spread of COUNT runs
	@hack/bench '$(BENCH)' $(COUNT)

clean: ## remove what make built (Go's own build cache stays)
	rm -rf $(BIN)

env: ## print the environment for running go by hand: eval "$(make -s env)"
	@echo 'export GOTOOLCHAIN=$(GOTOOLCHAIN) SEGUE_BIN=$(BIN)/segue SEGUE_LAB_BIN=$(SEGUE_LAB_BIN)'

need-go:
	@command -v go >/dev/null || { echo 'make: Go is missing: install Go 1.21 or newer (https://go.dev/doc/install)' >&2; exit 1; }

need-cc:
	@command -v "$$(go env CC)" >/dev/null || { echo 'make: no C compiler: the race detector needs one, install gcc or clang' >&2; exit 1; }

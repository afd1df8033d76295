# make test    installs what is missing (as root, where apt-get is) and passes all tests
# make test-dm the part of it that takes a device-mapper: here where there is one, or else in User-Mode-Linux guests
# make check   the linters, besides
# make bench   the benchmarks
# make soak    each scenario of the book under COUNT drawn schedules, with all that may go wrong beside
# make demo    the life of a volume

GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: test test-dm packages vet check bench soak demo

# The race detector takes a C compiler; packages installs one where it can.
test: packages vet
	$(GO) test $$(command -v gcc >/dev/null && echo -race) ./...
	cd conformance && $(GO) test ./...
	@$(MAKE) --no-print-directory test-dm

# The packages whose tests take a device-mapper, and those whose tests start guests themselves. No program with the race
# detector runs in a guest.
DM = ./internal/dm ./nodefs/lvm2/... ./plugins/lvm/...
GUESTS = ./internal/guest/... ./cmd/umlexec ./nodefs/lvm2/faults

test-dm: packages
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(GO) build -o "$$folder/umlexec" ./cmd/umlexec && \
	if where=$$("$$folder/umlexec" -native -which); then \
		echo "tests of device-mapper run $$where"; $(GO) test -exec "$$folder/umlexec -native" $(DM); \
	else echo "left out are the tests of device-mapper: they would run $$where"; fi && \
	$(GO) test $(GUESTS)

# What real devices need. Without root or apt-get the tests that miss something skip, and say what is missing.
packages:
	@sh tools/packages.sh

vet:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	cd conformance && $(GO) vet ./... && $(GO) mod tidy -diff

check: vet
	@test -z "$$($(TOOL) gofumpt -l .)" || { echo "gofumpt would change:"; $(TOOL) gofumpt -l .; exit 1; }
	$(TOOL) staticcheck ./...
	$(TOOL) deadcode -test ./...

bench:
	$(GO) test -run '^$$' -bench . ./...
	cd conformance && $(GO) test -run '^$$' -bench . ./...

demo:
	$(GO) run ./cmd/volsim demo

COUNT ?= 1000
STRATEGY ?= random

soak:
	@$(GO) build -o $(CURDIR)/soak.test ./cmd/volsim; trap 'rm -f $(CURDIR)/soak.test' EXIT; \
	for s in $$($(CURDIR)/soak.test explore --list --quiet); do \
		echo "$$s"; $(CURDIR)/soak.test explore $$s --strategy $(STRATEGY) --count $(COUNT) --quiet || exit 1; \
	done

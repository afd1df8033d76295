# make test    installs what is missing (as root, where apt-get is) and passes all tests
# make test-dm the part of it that takes a device-mapper: here where there is one, or else in User-Mode-Linux guests
# make check   the linters, besides
# make bench   the benchmarks
# make notebooks        runs the notebooks of all lessons, compares with what is committed, and opens them with Jupyter's tools
# make notebooks-write  makes the notebooks of lessons that changed anew, runs all, and writes down what comes
# make soak    each scenario of the book under COUNT drawn schedules, with all that may go wrong beside
# make demo    the life of a volume

GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: test test-dm packages vet check bench soak demo notebooks notebooks-check notebooks-write

# The race detector takes a C compiler; packages installs one where it can.
RACE = $$(command -v gcc >/dev/null && echo -race)

# In a stepped world one thing happens at a time, and a search goes through thousands of them: there the race detector has little to
# find, and takes six to eight times as long. So the packages that search have two runs: a short one with it, of every live test and
# of some schedules of each search, and all of it without. All other packages are tested with it, in full.
SEARCHES = ./attachdetach ./cluster ./explore ./invariant ./scenario

# The packages that take longest begin first, so that nobody waits for one of them alone at the end.
LONG = ./plugins/lvm ./plugins/loop ./internal/lvm2

# Compilers and tests collect garbage less often: they make much of it, and there is memory.
export GOGC = 400

# vet has looked at all packages by then.
GOTEST = $(GO) test -vet=off

# What shows most in the least time comes first.
test: packages vet
	@echo "$(SEARCHES), in full, without the race detector:"
	$(GOTEST) $(SEARCHES)
	@echo "all but these, with the race detector:"
	$(GOTEST) $(RACE) $(LONG) $$($(GO) list ./... | grep -vxE "$$($(GO) list $(SEARCHES) | paste -sd '|' -)")
	@echo "$(SEARCHES), in short, with the race detector:"
	$(GOTEST) $(RACE) -short $(SEARCHES)
	@echo "the promises of CSI drivers, over their sockets:"
	cd test/sanity && $(GOTEST) -count=1 -v ./...
	@echo "the page of volsim serve, in a browser:"
	cd test/browser && $(GOTEST) -count=1 -v ./...
	@echo "the notebooks of the lessons:"
	@$(MAKE) --no-print-directory notebooks-check
	@echo "the comparisons with other implementations:"
	cd test/conformance && $(GOTEST) ./...
	@$(MAKE) --no-print-directory test-dm

# The packages whose tests take a device-mapper, and those whose tests start guests themselves. No program with the race detector
# in it runs in a guest, and each command of LVM takes a fifth of a second there: so it is in short, without the tests in which
# device-mapper has no part. Two guests run beside one another.
MAPPED = ./internal/lvm2 ./plugins/lvm ./internal/lvm2/faults ./internal/dm
GUESTS = ./internal/guest/... ./internal/lvm2/faults

test-dm: packages
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(GO) build -o "$$folder/umlexec" ./cmd/umlexec && \
	if where=$$("$$folder/umlexec" -native -which); then \
		echo "the tests that take a device-mapper, $$where:"; $(GOTEST) -short -timeout 20m -exec "$$folder/umlexec -native" $(MAPPED); \
	else echo "left out are the tests that take a device-mapper: they would run $$where"; fi && \
	echo "the tests that start guests themselves:" && $(GOTEST) $(GUESTS)

# What real devices need. Without root or apt-get the tests that miss something skip, and say what is missing.
packages:
	@sh tools/packages.sh

vet:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	cd test/conformance && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/sanity && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/browser && $(GO) vet ./... && $(GO) mod tidy -diff

check: vet
	@test -z "$$($(TOOL) gofumpt -l .)" || { echo "gofumpt would change:"; $(TOOL) gofumpt -l .; exit 1; }
	$(TOOL) staticcheck ./...
	$(TOOL) deadcode -test ./...

bench:
	$(GO) test -run '^$$' -bench . ./...
	cd test/conformance && $(GO) test -run '^$$' -bench . ./...

# The lessons on real devices, whose notebooks run as root only.
REAL = examples/04-attach-stage-publish examples/08-on-the-disk
LESSONS = $(patsubst %/main.go,%,$(wildcard examples/*/main.go))
RUN = $(if $(filter 0,$(shell id -u)),$(LESSONS),$(filter-out $(REAL),$(LESSONS)))
notebook = $(1)/$(notdir $(1)).ipynb

# Go alone runs notebooks. One that comes out as it is written down costs as much as linking one program: five seconds of a processor.
notebooks-check:
	$(GO) run ./cmd/nbrun make --check $(LESSONS)
	@[ "$(words $(RUN))" = "$(words $(LESSONS))" ] || echo "not root: left out are the notebooks of $(REAL)"
	@$(GO) run ./cmd/nbrun run --check --limit 5m $(foreach lesson,$(RUN),$(call notebook,$(lesson)))

notebooks-write:
	$(GO) run ./cmd/nbrun make $(LESSONS)
	@[ "$(words $(RUN))" = "$(words $(LESSONS))" ] || echo "not root: left out are the notebooks of $(REAL)"
	@$(GO) run ./cmd/nbrun run --write --limit 5m $(foreach lesson,$(RUN),$(call notebook,$(lesson)))

notebooks: packages notebooks-check
	@sh tools/html.sh $(foreach lesson,$(LESSONS),$(call notebook,$(lesson)))

demo:
	$(GO) run ./cmd/volsim demo

COUNT ?= 1000
STRATEGY ?= random

soak:
	@$(GO) build -o $(CURDIR)/soak.test ./cmd/volsim; trap 'rm -f $(CURDIR)/soak.test' EXIT; \
	for s in $$($(CURDIR)/soak.test explore --list --quiet); do \
		echo "$$s"; $(CURDIR)/soak.test explore $$s --strategy $(STRATEGY) --count $(COUNT) --quiet || exit 1; \
	done

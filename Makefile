# make test             installs missing packages (as root with apt-get) and runs all tests
# make test-versions    vets and tests with later versions of the Kubernetes libraries; VERSIONS selects them, such as VERSIONS=0.37.2
# make test-dm          runs the tests that require device-mapper, on this machine or in User-Mode-Linux guests
# make check            runs the linters too
# make bench            runs the benchmarks
# make notebooks        runs all notebooks, compares their outputs, and converts them with Jupyter's tools
# make notebooks-write  regenerates the notebooks of changed lessons, runs all notebooks, and stores the outputs
# make fuzz             runs each fuzz target for FUZZTIME; FUZZ selects targets, such as FUZZ=Patch
# make soak             runs each built-in scenario under COUNT random schedules with its faults
# make explore-table    compares the strategies of searches
# make demo             shows the life cycle of a volume

GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: test test-here test-beside test-versions test-dm packages vet check bench fuzz soak demo notebooks notebooks-check notebooks-write explore-table

# The race detector requires a C compiler; packages installs one if possible.
RACE = $$(command -v gcc >/dev/null && echo -race)

# A stepped world runs one task at a time, and a search runs thousands of worlds. The race detector finds little there and
# takes six to eight times as long. So the packages with searches run twice: a full run without, and a short run with the race
# detector, which leaves out the tests that have only stepped worlds and makes fewer searches.
SEARCHES = ./attachdetach ./cluster ./explore ./explore/scenario ./internal/known ./invariant ./simtest

# The tests of these packages have stepped worlds and few live ones, or run in one goroutine. The code that they test runs with
# the race detector in live worlds of cluster.
STEPPED = . ./sim/trace/picture ./controllers/daemonset ./controllers/deployment ./controllers/job ./controllers/replicaset \
	./controllers/snapshot ./controllers/statefulset ./pvcontroller ./examples/statefulset-growth \
	./examples/volume-populator ./fake/admission ./fake/internal/openapi ./internal/svgpng ./cmd/volsim/internal/page

# The slowest packages start first, so that none of them runs alone at the end.
LONG = ./plugins/lvm ./plugins/loop ./internal/lvm2

# Less frequent garbage collection speeds up compilers and tests.
export GOGC = 400

# Without the paths of the clone in compiled packages, all clones on a machine share the build cache.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# The target vet has checked all packages before. Many packages wait for devices, guests and clocks, so one more test binary
# runs than there are cores. On a slow machine one that runs beside others needs more than go test's ten minutes.
GOTEST = $(GO) test -vet=off -timeout 30m -p $$(($$(getconf _NPROCESSORS_ONLN) + 1))

# The module test/conformance builds with CSI 1.12, as the Kubernetes module requires.
CSI = -tags csi1.12

# The tests of test-beside wait for guests most of the time, so they run beside the others. Their output follows, and at the
# end all failures again.
test: packages vet
	@logs=$$(mktemp -d) && trap 'rm -rf "$$logs"' EXIT && \
	{ $(MAKE) --no-print-directory test-beside >"$$logs/beside" 2>&1 & } && \
	{ { $(MAKE) --no-print-directory test-here 2>&1; echo $$? >"$$logs/here.status"; } | tee "$$logs/here"; wait $$!; second=$$?; \
	cat "$$logs/beside"; sh tools/failures.sh "$$logs/here" "$$logs/beside"; exit $$(($$(cat "$$logs/here.status") | second)); }

# The fastest and most revealing tests come first.
test-here:
	@echo "$(SEARCHES), in full, and packages of stepped worlds, without the race detector:"
	$(GOTEST) $(SEARCHES) $(STEPPED)
	@echo "all other packages, with the race detector:"
	$(GOTEST) $(RACE) $(LONG) $$($(GO) list ./... | grep -vxE "$$($(GO) list $(SEARCHES) $(STEPPED) | paste -sd '|' -)")
	@echo "$(SEARCHES), in short, with the race detector:"
	$(GOTEST) $(RACE) -short $(SEARCHES)
	@echo "operators that use controller-runtime:"
	cd ctrlruntime && $(GOTEST) $(RACE) ./...
	@echo "a project of kubebuilder on package envtest:"
	cd test/kubebuilder && $(GOTEST) $(RACE) -count=1 ./...
	@echo "an operator with seven bugs, tested three ways:"
	cd test/operator && $(GOTEST) ./...
	@echo "sanity tests of the CSI drivers:"
	cd test/sanity && $(GOTEST) -count=1 -v ./...
	@echo "browser tests of the page of volsim serve:"
	cd test/browser && $(GOTEST) -count=1 -v ./...
	@echo "notebooks of the lessons:"
	@$(MAKE) --no-print-directory notebooks-check
	@echo "comparisons with other implementations:"
	cd test/conformance && $(GOTEST) $(CSI) ./...

test-beside:
	@$(MAKE) --no-print-directory test-dm
	@echo "the newest Kubernetes libraries (the comparisons have those of 1.36):"
	@$(MAKE) --no-print-directory test-versions VERSIONS=0.37.2

test-versions:
	@GO="$(GO)" VERSIONS="$(VERSIONS)" sh tools/versions.sh

# MAPPED are the packages whose tests require device-mapper, GUESTS those whose tests start guests themselves. Programs with
# the race detector do not run in a guest. Each LVM command takes 0.2 s there, so the tests run in short mode, without those
# that do not use device-mapper. Two guests run concurrently, with all other tests: a package that takes four minutes alone may
# take half an hour there.
MAPPED = ./internal/lvm2 ./plugins/lvm ./internal/lvm2/faults ./internal/dm
GUESTS = ./internal/guest/... ./internal/lvm2/faults ./plugins/nfs

test-dm: packages
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(GO) build -o "$$folder/umlexec" ./cmd/umlexec && \
	if where=$$("$$folder/umlexec" -native -which); then \
		echo "tests that require device-mapper, $$where:"; $(GOTEST) -short -timeout 75m -exec "$$folder/umlexec -native" $(MAPPED); \
	else echo "skipped: tests that require device-mapper would run $$where"; fi && \
	echo "tests that start guests themselves:" && $(GOTEST) $(GUESTS)

# Installs the packages for real devices. Without root or apt-get, tests with missing packages skip and name the package.
packages:
	@sh tools/packages.sh

vet:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	cd ctrlruntime && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/kubebuilder && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/operator && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/conformance && $(GO) vet $(CSI) ./... && $(GO) mod tidy -diff
	cd test/sanity && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/browser && $(GO) vet ./... && $(GO) mod tidy -diff

check: vet
	@test -z "$$($(TOOL) gofumpt -l .)" || { echo "gofumpt would change:"; $(TOOL) gofumpt -l .; exit 1; }
	$(TOOL) staticcheck ./...
	$(TOOL) deadcode -test ./...

bench:
	$(GO) test -run '^$$' -bench . ./...
	cd test/conformance && $(GO) test $(CSI) -run '^$$' -bench . ./...

# Lessons on real devices, whose notebooks require root.
REAL = examples/04-attach-stage-publish examples/08-on-the-disk
LESSONS = $(patsubst %/main.go,%,$(wildcard examples/*/main.go))
RUN = $(if $(filter 0,$(shell id -u)),$(LESSONS),$(filter-out $(REAL),$(LESSONS)))
notebook = $(1)/$(notdir $(1)).ipynb

# Running notebooks requires only Go. An unchanged notebook costs as much as linking one program: five seconds of CPU time.
notebooks-check:
	$(GO) run ./cmd/nbrun make --check $(LESSONS)
	@[ "$(words $(RUN))" = "$(words $(LESSONS))" ] || echo "not root: skipping the notebooks of $(REAL)"
	@$(GO) run ./cmd/nbrun run --check --limit 5m $(foreach lesson,$(RUN),$(call notebook,$(lesson)))

notebooks-write:
	$(GO) run ./cmd/nbrun make $(LESSONS)
	@[ "$(words $(RUN))" = "$(words $(LESSONS))" ] || echo "not root: skipping the notebooks of $(REAL)"
	@$(GO) run ./cmd/nbrun run --write --limit 5m $(foreach lesson,$(RUN),$(call notebook,$(lesson)))

notebooks: packages notebooks-check
	@sh tools/html.sh $(foreach lesson,$(LESSONS),$(call notebook,$(lesson)))

demo:
	$(GO) run ./cmd/volsim demo

FUZZTIME ?= 20s
FUZZ ?= .

fuzz:
	@GO="$(GO)" sh tools/fuzz.sh $(FUZZTIME) '$(FUZZ)'

COUNT ?= 1000
STRATEGY ?= random

soak:
	@$(GO) build -o $(CURDIR)/soak.test ./cmd/volsim; trap 'rm -f $(CURDIR)/soak.test' EXIT; \
	for s in $$($(CURDIR)/soak.test explore --list --quiet); do \
		echo "$$s"; $(CURDIR)/soak.test explore $$s --strategy $(STRATEGY) --count $(COUNT) --quiet || exit 1; \
	done

# Each strategy on worlds without a defect, and on the mutants that depend on the order of events.
explore-table:
	cd explore && $(GO) test -run TestTable -count=1 -timeout 60m -table

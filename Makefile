# Every target that starts with a letter and carries a ## comment is listed by
# `make help`. CONTRIBUTING.md says which of them decide about a change: `lint` and
# `test` (tier 1) need Go and a C compiler, `verify` (tier 2) installs what it needs and
# wants root for most of its targets; the others only report.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

FUZZTIME ?= 30s
AREA     ?=
MUTANTS  ?= .
PART     ?= 0/1
SAMPLE   ?=
SEED     ?= 1
OF       ?=
OWN      ?=
FAULT    ?= 0
PKG      ?= ./...
COUNT    ?= 10
WITHIN   ?=
TIMES    ?=
RETURNS  ?= 10000
TARGET   ?=
ALL      ?=
ARGS     ?=
COMPARE  ?=
BASE     ?=
PIECE    ?=
FOR      ?=

gate := go run ./test/gate

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Simulations and compilers make much garbage: collecting it less often saves a fifth of
# the processors' time, and takes memory.
test lint verify sim stress mutants repro: export GOGC ?= 400
# The tests with a Kubernetes control plane need kubelab, which may lie next to this
# repository.
verify e2e-long proof: export TRIVET_E2E_KUBE ?= $(patsubst %/start.sh,%,$(firstword $(wildcard $(CURDIR)/../*/labs/kubelab/start.sh)))
# The tests with Ironic 39 need a tree of Debian that has it, which may lie next to this
# repository.
verify e2e-ironic39: export TRIVET_E2E_IRONIC39 ?= $(patsubst %/root/usr/bin/ironic,%,$(firstword $(wildcard $(CURDIR)/../ironic39/root/usr/bin/ironic)))
# The compiled packages of one clone serve the next.
test lint verify: export GOFLAGS := $(GOFLAGS) -trimpath
# Tests with random inputs draw the same ones each time; 0 draws others.
test: export RAPID_SEED ?= 1

.PHONY: build
build: ## Build bin/trivet and bin/trivet-import, static and reproducible
	CGO_ENABLED=0 go build -trimpath -o bin/ . ./cli/trivet-import

.PHONY: test
test: ## Run all tests that need no root and no other process, some also under the race detector (TIMES=1 lists the slowest)
	$(gate) test $(if $(TIMES),-times 20)

.PHONY: lint
lint: ## Check formatting, go vet, staticcheck and the structure of the house
	$(gate) lint $(if $(BASE),-base $(BASE))

.PHONY: check
check: lint test ## What decides whether a change lands: lint and test

.PHONY: smoke
smoke: ## Run the main job once: three peers, 20 simulated machines, the leader killed twice
	go test -count=1 -v -timeout 30m -run '^TestSmoke$$' ./test/sandbox/site

.PHONY: affected
affected: ## List the targets of verify that the change since the last landed commit touches (BASE=commit)
	@$(gate) affected $(if $(BASE),-base $(BASE))

.PHONY: verify
verify: ## Run these targets, or all with ALL=1, or one with TARGET=e2e-gate; the results are in dist/verify
	$(gate) verify $(if $(BASE),-base $(BASE)) $(if $(ALL),-all) $(TARGET)

# The race detector dies of failover's long bubbles (golang/go issue 78156);
# test/simtest runs the same code under it. test/archtest reads the source.
without_race := ./failover ./test/archtest

.PHONY: stress
stress: ## Run tests COUNT (10) times with -race -shuffle=on next to two busy loops per core (PKG=./..., WITHIN=3m for a limit; GOMAXPROCS=1 for one processor)
	go run ./test/stress -plain '$(without_race)' -count $(COUNT) $(if $(WITHIN),-within $(WITHIN)) $(PKG)

.PHONY: figures
figures: ## Measure the code that ships: lines, functions, types, interfaces, exported names, folders (TREE=dir for another tree)
	go run ./test/archtest/figures $(TREE)

.PHONY: picture
picture: ## Draw the picture of the house in ARCHITECTURE.md again, from the package comments and imports
	go test ./test/archtest -run TestArchitectureHasThePicture -update

.PHONY: demo
demo: ## A minute of trouble: 50 machines introspected while the leader is killed every 10 s
	go run ./test/sandbox -nodes 50 -silent 1 -kill-leader-every 10s -for 40s

.PHONY: sandbox
sandbox: build ## A site to experiment with, until Ctrl-C: three peers, simulated machines (ARGS='-nodes 20', see test/sandbox/main.go)
	go run ./test/sandbox $(ARGS)

.PHONY: quickstart
quickstart: build ## Run each of the README's quick starts as it stands there: three peers on loopback
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	awk -v dir="$$dir" '/<!-- quickstart:end -->/ {on = 0} on && /^```/ {code = !code; next} on && code {print > (dir "/" n ".sh")} /<!-- quickstart:begin -->/ {on = 1; n++} END {if (n != 2) exit 1}' README.md || \
	{ echo "README.md has not two quick starts between its markers" >&2; exit 1; }; \
	for n in 1 2; do \
		[ -s "$$dir/$$n.sh" ] || { echo "quick start $$n of README.md is empty" >&2; exit 1; }; \
		mkdir "$$dir/$$n" && cd "$$dir/$$n" && PATH="$(CURDIR)/bin:$$PATH" \
		bash -euo pipefail -c 'trap "kill \$$(jobs -p) 2>/dev/null || true; wait" EXIT; . ../'$$n.sh || exit 1; \
	done

.PHONY: bench
bench: ## Measure against the goals: a table, and test/bench/results.json (AREA=log for one area, COMPARE=revision for that one in turns with this tree, SHORT=1 to see only that each runs)
	cd test/bench && go run . $(if $(SHORT),-short) $(if $(AREA),-area $(AREA)) $(if $(COMPARE),-compare $(COMPARE))

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@found=0; \
	for dir in $$(grep -rl --include='*_test.go' --exclude-dir=testdata --exclude-dir=bench '^func Fuzz' . | xargs -r dirname | sort -u); do \
		listed=$$(go test -list '^Fuzz' "$$dir"); \
		for target in $$(grep '^Fuzz' <<< "$$listed"); do \
			found=1; echo "$$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$dir"; \
		done; \
	done; \
	[ $$found = 1 ] || { echo "no fuzz target found" >&2; exit 1; }

.PHONY: sim
sim: ## Simulate 2,000 leader losses under load, under the race detector, 3 sites of 10,000 machines for six hours each, 30 schedules of faults that overlap, a day with a dead peer, 1,000 changes of leaders under the eyes of clients that follow events, 200 histories of leases, 240 mixed bad days of kube nodes, 120 deaths of them under whole peers, 10,000 hand-overs by age, and 10,000 minutes of machines that leave, come back and lie (hours)
	TRIVET_SIM_LOSSES=2000 go test -race -count=1 -timeout 10m -run Losses ./test/simtest/...
	TRIVET_SIM_SITES=3 TRIVET_SIM_MACHINES=10000 TRIVET_SIM_SITE_TIME=6h TRIVET_SIM_SITE_PAUSE=4m TRIVET_SIM_SITE_REST=1m go test -count=1 -v -timeout 4h -run '^TestSites$$' ./test/simtest
	TRIVET_SIM_SCHEDULES=30 go test -count=1 -timeout 10m -run OverlappingFaults ./test/simtest
	TRIVET_SIM_ABSENCE=24h go test -count=1 -timeout 15m -run LinesOfAnAbsence ./test/simtest
	TRIVET_SIM_EVENTS=1000 TRIVET_SIM_EVENT_COUNT=100000 go test -count=1 -timeout 10m -run EventsReachEveryClientOnce ./test/simtest
	TRIVET_SIM_LEASES=200 go test -count=1 -timeout 10m -run LeasesAreLinearizable ./test/simtest
	TRIVET_SIM_FAILOVER=240 go test -count=1 -timeout 10m -run 'MixedBadDays|EveryBoundary' ./failover
	TRIVET_SIM_AGES=10000 TRIVET_SIM_SEED=1000 go test -count=1 -timeout 2h -run HandOverByAge ./test/simtest
	TRIVET_SIM_RETURNS=$(RETURNS) go test -count=1 -timeout 4h -run MachinesThatReturn ./test/simtest
	TRIVET_SIM_KUBENODES=120 go test -count=1 -timeout 10m -run 'Failover(Survives|Takes|Leader)|SilentAPIServer|SwitchedOnMeanwhile' ./test/simtest

.PHONY: mutants
mutants: ## Break the product on purpose and demand that the tests notice (MUTANTS=regexp for some, PART=K/N for every Nth; SAMPLE=N SEED=1 OF=fsm,cluster/pki generates mutants and judges N of them, OWN=1 by the own tests of their packages alone)
	go run ./test/mutants $(if $(SAMPLE),-sample $(SAMPLE) -seed $(SEED) $(if $(OF),-of $(OF)) $(if $(OWN),-own),-run '$(MUTANTS)' -part '$(PART)')

.PHONY: repro
repro: ## Show a fault of docs/faults.md (FAULT=N; without it the list; FAULT=M-N several, FAULT=all takes hours): take its mend out and see its test fail (as root for some)
	go run ./test/mutants -fault '$(FAULT)'

# Each piece goes on where the last run of it ended, with the next seed.
.PHONY: proof
proof: as-root ## Attack the promises at length (hours, as root), in pieces that go on where they were, and keep what each run found in docs/proof.json (PIECE=regexp for some, FOR=90m to begin none after that; ARGS=-list says how far they are)
	go run ./test/proof $(if $(PIECE),-run '$(PIECE)') $(if $(FOR),-for $(FOR)) $(ARGS)

.PHONY: proof-page
proof-page: ## Write the figures of docs/proof.md again, from docs/proof.json
	go test ./test/proof -run '^TestPageHasTheRuns$$' -update

.PHONY: faults
faults: ## Write the tables of docs/faults.md again, from test/mutants/faults.txt
	go test ./test/mutants -run '^TestPageOfFaults$$' -update

# The lab's tests that measure for how long something is away. Each waits most of the
# time, so that two run at once: the disks of more would hang on one of ours. Those that
# take all processors run after them.
measured := ^Test(Gate|StoppedBetween|Drill|Leader|PlannedStop|DiskHangs|WithoutQuorum|HostsThemselves|Upgrade)

.PHONY: e2e-long
e2e-long: as-root ## The same with the trials that take hours (as root)
	TRIVET_E2E_LONG=1 go test -tags e2e -count=1 -timeout 6h -parallel 2 -run '$(measured)' ./test/labtest
	TRIVET_E2E_LONG=1 go test -tags e2e -count=1 -timeout 6h -parallel 3 -skip '$(measured)' ./test/labtest
	TRIVET_E2E_LONG=1 go test -tags e2e -count=1 -timeout 6h ./firewall/... ./packaging/... ./test/netns
	TRIVET_SIM_DAMAGES=20000 TRIVET_E2E_KILLS=2000 go test -tags e2e -count=1 -timeout 6h -run 'DamageIsNever|LostWhenKilled' ./raftstore/host
	TRIVET_POWERCUTS=3000 go test -tags e2e -count=1 -timeout 6h ./test/powercut

# Debian's qemu-system-x86, ipxe-qemu, ipxe and ovmf; what else is missing a test
# names. TRIVET_E2E_PXE_BOOTS (10) says how often each is tried, and
# TRIVET_E2E_PXE_REPORT names a file for the figures.
.PHONY: e2e-pxe
e2e-pxe: as-root ## Real PXE ROMs and hosts with kernels of their own, in virtual machines (as root, two hours, needs qemu)
	TRIVET_E2E_PXE=1 go test -tags e2e -count=1 -v -timeout 4h -run '^Test(ROM|OwnKernel)' ./test/labtest/...

.PHONY: e2e-ironic39
e2e-ironic39: ## Run three peers with Ironic 39 and the agent's own code, in DIR/root (TRIVET_E2E_IRONIC39=DIR, root)
	go test -tags e2e -count=1 -v -timeout 30m -run '^TestIronic39' ./test/labtest

.PHONY: tooz
tooz: build ## Run Tooz's own tests and the driver's on three peers that are killed (Debian's python3-tooz, python3-testtools, python3-fixtures, ironic-inspector)
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	go run ./packaging -wheel -out "$$dir" && PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 contrib/tooz-trivet/tests/run.py bin/trivet "$$dir"/*.whl

.PHONY: netbox
netbox: ## Run the tests of the exporter to NetBox (needs Python 3)
	python3 -B -m unittest discover -s contrib/netbox-trivet/tests

# The binary of the last tag is built once and kept in the user's cache directory;
# TRIVET_TEST_PREVIOUS names another to begin with.
.PHONY: e2e-upgrade
e2e-upgrade: as-root ## Upgrade three hosts one at a time from the last release, under load, and try the way back (as root)
	TRIVET_E2E_UPGRADE=1 go test -tags e2e -count=1 -v -timeout 30m -run '^TestUpgrade$$' ./test/labtest

.PHONY: pictures
pictures: ## Renew docs/ui.png, the picture of the page, and docs/top.svg, that of trivet top (Debian's chromium and tmux)
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	TRIVET_UI_PICTURES="$$dir" go test -tags e2e -count=1 -timeout 5m -run '^Test(Picture|TopPicture)$$' ./test/uitest && cp "$$dir/ui.png" "$$dir/top.svg" docs/

.PHONY: package
package: ## Build dist/: .deb and .rpm for amd64 and arm64, the driver of Tooz, bills of materials, checksums (needs xz)
	go run ./packaging -out dist

# The vulnerabilities are those of vuln.go.dev, which has to be within reach for them.
.PHONY: dependencies
dependencies: build ## Print the modules, versions and licences of the programs, and which known vulnerabilities they call
	go run ./packaging -report bin/trivet bin/trivet-import
	for program in trivet trivet-import; do go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -mode binary "bin/$$program" || exit 1; done

.PHONY: image
image: ## Build dist/image/: an OCI archive for amd64 and arm64, from no base and without an engine, and its bills of materials
	go run ./packaging -image -out dist/image

.PHONY: clean
clean: ## Remove what the targets above built
	rm -rf bin dist test/bench/results.json test/bench/growth.svg

# Not a target to call: refuses politely instead of failing halfway.
.PHONY: as-root
as-root:
	@[ "$$(id -u)" = 0 ] || { echo "this target sets up network namespaces and loop devices: run it as root" >&2; exit 2; }

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// In the arguments and variables of a piece, seedMark stands for a run's seed and partMark
// for its part of a list.
const (
	seedMark = "{seed}"
	partMark = "{part}"
)

// partSize is how many numbers of a list one run has.
const partSize = 30

// piece is an attack that is run until it has counted enough.
type piece struct {
	name     string
	env      []string // variables of the run
	tests    []string // arguments of go test
	other    []string // or a command of its own
	counts   string   // the figure that the runs add up
	unit     string   // what it counts, in the plural
	goal     float64
	zero     []string      // figures that each run reports, and that are to be 0
	limit    time.Duration // of one run
	unseeded bool          // chance is the real machine's, or a run draws nothing
	last     int           // of a list that runs take in parts, its last number; 0 for a sample
}

// parts are the parts of a list, "31-60" one of them, or the one of a sample, "".
func (p piece) parts() (parts []string) {
	for first := 1; first <= p.last; first += partSize {
		parts = append(parts, fmt.Sprintf("%d-%d", first, min(first+partSize-1, p.last)))
	}
	if parts == nil {
		return []string{""}
	}
	return parts
}

// args is the command of a run.
func (p piece) args(seed int, part string) []string {
	args := p.other
	if args == nil {
		args = append([]string{"go", "test", "-tags", "e2e", "-count=1", "-v", "-timeout", p.limit.String()}, p.tests...)
	}
	return marked(args, seed, part)
}

// environ are the variables of a run.
func (p piece) environ(seed int, part string) []string { return marked(p.env, seed, part) }

// marked returns the texts with a run's seed and part in the place of their marks.
func marked(texts []string, seed int, part string) []string {
	put := strings.NewReplacer(seedMark, strconv.Itoa(seed), partMark, part)
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = put.Replace(t)
	}
	return out
}

// pieces are all of them, the short ones first.
func pieces() []piece {
	return []piece{
		{
			name: "models", unit: "states of five models, each of them checked",
			env:    []string{"TRIVET_MODEL=large"},
			tests:  []string{"-run", "^TestModels$", "./test/model"},
			counts: "model.states", goal: 1_000_000, limit: time.Hour, unseeded: true,
		},
		{
			name: "security", unit: "looks for planted secrets",
			tests: []string{"-run", "^Test(SecretsShowNowhere|MemoryIsInNoCoreDump|HTTP2FloodsEndOrCostLittle|" +
				"TheAPISpeaksNoHTTP2|HostileFilesAreRefused|EachCapabilityIsNeeded)$", "./test/attacktest", "./packaging"},
			counts: "security.secrets_looked_for", zero: []string{"security.leaks"}, goal: 400, limit: time.Hour,
			unseeded: true,
		},
		{
			name: "ages", unit: "hand-overs of the PXE rule and the address in virtual time",
			env:    []string{"TRIVET_SIM_AGES=2000", "TRIVET_SIM_SEED={seed}0000"},
			tests:  []string{"-run", "^TestHandOverByAge$", "./test/simtest"},
			counts: "ages.hand_overs", goal: 10_000, limit: time.Hour,
		},
		{
			name: "losses", unit: "changes of leaders under load in virtual time",
			env:    []string{"TRIVET_SIM_LOSSES=10000", "TRIVET_SIM_SEED={seed}00001"},
			tests:  []string{"-run", "^TestLosses$", "./test/simtest"},
			counts: "sim.losses.leader_changes", goal: 100_000, limit: time.Hour,
		},
		{
			name: "sites", unit: "hours of virtual time of sites of 10,000 machines",
			env: []string{"TRIVET_SIM_SITES=1", "TRIVET_SIM_MACHINES=10000", "TRIVET_SIM_SITE_TIME=4h",
				"TRIVET_SIM_SITE_PAUSE=4m", "TRIVET_SIM_SITE_REST=1m", "TRIVET_SIM_SEED={seed}000"},
			tests:  []string{"-run", "^TestSites$", "./test/simtest"},
			counts: "sim.site.virtual_h", goal: 72, limit: 4 * time.Hour,
		},
		{
			name: "powercut", unit: "states that a power cut can leave, started again",
			env:    []string{"TRIVET_POWERCUTS=1500", "TRIVET_POWERCUT_SEED={seed}"},
			tests:  []string{"-run", "^TestPowerCut$", "./test/powercut"},
			counts: "powercut.states", zero: []string{"powercut.refused", "powercut.violations"}, goal: 50_000,
			limit: 2 * time.Hour,
		},
		{
			name: "chaos", unit: "minutes of faults on three hosts",
			env:    []string{"TRIVET_CHAOS=10m", "TRIVET_CHAOS_SEED={seed}000"},
			tests:  []string{"-run", "^TestChaos$", "./test/chaos"},
			counts: "chaos.minutes", zero: []string{"chaos.violations"}, goal: 120, limit: time.Hour,
		},
		{
			name: "soak", unit: "minutes of load on three hosts, with faults",
			env:    []string{"TRIVET_SOAK=60m"},
			tests:  []string{"-run", "^TestS(oak|lowSnapshot)$", "./test/chaos"},
			counts: "soak.minutes", goal: 60, limit: 2 * time.Hour, unseeded: true,
		},
		handOvers("nftables", "Nftables"), handOvers("iptables", "Iptables"),
		{
			name: "kube", unit: "kube nodes that lost power, froze, were cut off or looked dead",
			env:    []string{"TRIVET_E2E_LONG=1", "TRIVET_E2E_MIXED={seed}0+10"},
			tests:  []string{"-run", "^TestKubeMixed$", "./test/labtest"},
			counts: "kube.scenarios", goal: 300, limit: 2 * time.Hour,
		},
		{
			name: "mutants", unit: "generated mutants judged",
			other:  []string{"go", "run", "./test/mutants", "-sample", "105", "-seed", seedMark, "-timeout", "30m"},
			counts: "mutants.judged", goal: 400, limit: 3 * time.Hour,
		},
		{
			name: "faults", unit: "faults of the record shown again, each by the test that guards its mend",
			other:  []string{"go", "run", "./test/mutants", "-fault", partMark},
			counts: "mutants.caught", goal: 379, limit: 3 * time.Hour, last: 390,
		},
	}
}

// handOvers are leaders that are killed, stopped, and end as they should, on hosts in
// network namespaces, seen by clients that ask every 50 ms.
func handOvers(driver, test string) piece {
	return piece{
		name: driver, unit: "hand-overs of the PXE rule and the address between real hosts",
		env:    []string{"TRIVET_GATE_TRIALS=20", "TRIVET_GATE_FIGURES=/dev/null"},
		tests:  []string{"-run", "^TestFiguresBy" + test + "$", "./test/labtest"},
		counts: "handover." + driver, zero: []string{"handover." + driver + "_overlaps"}, goal: 500, limit: time.Hour,
		unseeded: true,
	}
}

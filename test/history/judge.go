// Package history judges what clients of a cluster saw: it has the models of what the
// API promises of leases, values and introspections, searches a history for an order in
// which one keeper could have answered so, and has clients that make such histories.
// The clients of the simulation and those of real processes share it; neither time nor
// transport is decided here.
package history

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// History is what several clients saw. Its methods may be called concurrently.
type History struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

// Add notes an operation of a client between two moments in Unix ns; one that returns at
// math.MaxInt64 may take effect at any time after its call, or never.
func (h *History) Add(client int, in, out any, call, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
}

// Ops returns the operations; nobody adds any more.
func (h *History) Ops() []porcupine.Operation { return h.ops }

// Open returns how many operations have no known end.
func Open(ops []porcupine.Operation) (n int) {
	for _, op := range ops {
		if op.Return == math.MaxInt64 {
			n++
		}
	}
	return n
}

// Verdict is what became of the parts of a history: of each lease, value or node.
type Verdict struct {
	Parts, Undecided int
	Steps            int64                   // of the dearest search
	Bad              [][]porcupine.Operation // parts that no order explains
}

// Judge searches each part of a history for an order that the model could have given.
func Judge(model porcupine.Model, ops []porcupine.Operation) (v Verdict) {
	for _, part := range model.Partition(ops) {
		result, steps := Linearized(model, part)
		v.Parts++
		v.Steps = max(v.Steps, steps)
		switch result {
		case porcupine.Illegal:
			v.Bad = append(v.Bad, part)
		case porcupine.Unknown:
			v.Undecided++
		}
	}
	return v
}

// moment spells a time of a history.
func moment(ns int64) string {
	if ns == math.MaxInt64 {
		return "     ever    "
	}
	return time.Unix(0, ns).UTC().Format("15:04:05.000000")
}

// Picture writes a page that shows a bad history into a directory, and next to it the
// same as text, and returns its path.
func Picture(model porcupine.Model, ops []porcupine.Operation, dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a directory for histories: %w", err)
	}
	path := filepath.Join(dir, name+".html")
	var text strings.Builder
	for _, op := range slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int {
		return cmp.Compare(a.Call, b.Call)
	}) {
		fmt.Fprintf(&text, "%s to %s, client %d: %s\n", moment(op.Call), moment(op.Return), op.ClientId,
			model.DescribeOperation(op.Input, op.Output))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(text.String()), 0o644); err != nil {
		return "", fmt.Errorf("write a history: %w", err)
	}
	_, info := porcupine.CheckOperationsVerbose(model, ops, pictureHangs)
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return "", fmt.Errorf("draw a history: %w", err)
	}
	return path, nil
}

const (
	// MostSteps bounds the search for an order of one history, by work and not by time,
	// so that the verdict does not depend on the machine. Most good histories take less
	// than 30,000, of 30 with a wrong answer the costliest took 75,000. Of 320 under faults
	// that overlap five took more than a million, and three of these came to no end; all of
	// it takes 200 MB.
	MostSteps = 5_000_000
	// searchHangs is for how long a search may go on whatever it does.
	searchHangs = 10 * time.Minute
	// pictureHangs is the same for the search that a picture is made of.
	pictureHangs = time.Minute
)

// Linearized says whether a history is one that the model could have given, and after
// how many steps of the search: it is Unknown after MostSteps.
func Linearized(model porcupine.Model, ops []porcupine.Operation) (porcupine.CheckResult, int64) {
	var steps atomic.Int64
	bounded := model
	bounded.Step = func(state, input, output any) (bool, any) {
		if steps.Add(1) > MostSteps {
			return false, state // no order is found any more, so the search ends
		}
		return model.Step(state, input, output)
	}
	result := porcupine.CheckOperationsTimeout(bounded, ops, searchHangs)
	if result == porcupine.Illegal && steps.Load() > MostSteps {
		result = porcupine.Unknown
	}
	return result, steps.Load()
}

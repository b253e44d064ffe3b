package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trivet-ha/trivet/test/plot"
)

// compared is one figure of this tree and of another revision: what each turn measured.
type compared struct {
	Name  string    `json:"name"`
	Unit  string    `json:"unit"`
	Here  []float64 `json:"here"`
	There []float64 `json:"there"`
}

// tree is one of the two that are compared: its own bench, which measures its own
// trivet.
type tree struct {
	name   string
	folder string // of its bench
	bench  string // the program
	trivet string
	areas  []string
}

// compare measures each area of this tree and of another revision in turns, so that both
// meet the same hour of the same machine, and prints both medians with their ratio. An
// area that only one of them has is left out.
func compare(ctx context.Context, o options, work string, stdout, stderr io.Writer) (err error) {
	root := filepath.Join(work, "revision")
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", root,
		o.revision).CombinedOutput(); err != nil {
		return fmt.Errorf("check out %s: %w\n%s", o.revision, err, out)
	}
	defer func() {
		remove := exec.Command("git", "worktree", "remove", "--force", root) // also after an interrupt
		if out, failed := remove.CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove the working tree of %s: %w\n%s", o.revision, failed, out))
		}
	}()
	here, err := buildTree(ctx, "../..", filepath.Join(work, "here"), "this tree")
	if err != nil {
		return err
	}
	there, err := buildTree(ctx, root, filepath.Join(work, "there"), o.revision)
	if err != nil {
		return err
	}
	var all []compared
	var failed []error
	for _, area := range here.areas {
		if o.area != "" && area != o.area || !slices.Contains(there.areas, area) {
			continue
		}
		figures, err := inTurns(ctx, o, area, here, there, stderr)
		all, failed = append(all, figures...), append(failed, err)
	}
	if len(all) == 0 {
		failed = append(failed, fmt.Errorf("area %q gave no figure in both trees", o.area))
	}
	printCompared(stdout, o.revision, all)
	return errors.Join(append(failed, saveCompared(o.out, all))...)
}

// buildTree builds the bench and the trivet of a tree. Before version 0.2 the bench lay
// at the top.
func buildTree(ctx context.Context, root, out, name string) (t tree, err error) {
	t = tree{name: name, folder: filepath.Join(root, "test", "bench"), bench: filepath.Join(out, "bench"),
		trivet: filepath.Join(out, "trivet")}
	if _, err := os.Stat(t.folder); err != nil {
		t.folder = filepath.Join(root, "bench")
	}
	for _, b := range []struct{ dir, program string }{{t.folder, t.bench}, {root, t.trivet}} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.program, ".")
		build.Dir, build.Env = b.dir, append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			return t, fmt.Errorf("build %s of %s: %w\n%s", filepath.Base(b.program), name, err, text)
		}
	}
	usage, _ := exec.CommandContext(ctx, t.bench, "-h").CombinedOutput() // its exit code says that it printed help
	_, list, _ := strings.Cut(string(usage), "measure one area: ")
	list, _, _ = strings.Cut(list, " (default")
	t.areas = strings.Split(list, ", ")
	return t, nil
}

// inTurns measures one area of both trees, one after the other, o.turns times. The order
// changes with each turn: the second is not always the one that finds a warm disk.
func inTurns(ctx context.Context, o options, area string, here, there tree, stderr io.Writer) ([]compared, error) {
	var figures []compared
	for turn := range o.turns {
		for i := range 2 {
			side := here
			if i != turn%2 {
				side = there
			}
			fmt.Fprintf(stderr, "bench: %s of %s, turn %d of %d\n", area, side.name, turn+1, o.turns)
			results, err := side.measure(ctx, o, area, stderr)
			if err != nil {
				return figures, fmt.Errorf("area %s of %s: %w", area, side.name, err)
			}
			for _, r := range results {
				figures = noted(figures, r, side.name == here.name)
			}
		}
	}
	return slices.DeleteFunc(figures, func(c compared) bool { return len(c.Here) == 0 || len(c.There) == 0 }), nil
}

// measure lets the tree's own bench measure an area. A goal that it misses is no error.
func (t tree) measure(ctx context.Context, o options, area string, stderr io.Writer) (results []Result, err error) {
	file := t.bench + "-" + area + ".json"
	run := exec.CommandContext(ctx, t.bench, "-area", area, "-out", file, "-trivet", t.trivet, "-dir", o.dir, "-trials",
		fmt.Sprint(o.trials), "-nodes", fmt.Sprint(o.nodes))
	run.Dir, run.Stderr = t.folder, stderr // benchmarks of packages are run from its folder
	if err := run.Run(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read its results: %w", err)
	}
	var figures []struct {
		Name, Unit string
		Value      *float64
	}
	if err := json.Unmarshal(text, &figures); err != nil {
		return nil, fmt.Errorf("read its results: %w", err)
	}
	for _, f := range figures {
		results = append(results, Result{Name: f.Name, Unit: f.Unit, Value: f.Value})
	}
	return results, nil
}

// noted adds a result to the figure of its name; one that has no value says nothing.
func noted(figures []compared, r Result, here bool) []compared {
	if r.Value == nil {
		return figures
	}
	i := slices.IndexFunc(figures, func(c compared) bool { return c.Name == r.Name && c.Unit == r.Unit })
	if i < 0 {
		figures = append(figures, compared{Name: r.Name, Unit: r.Unit})
		i = len(figures) - 1
	}
	if here {
		figures[i].Here = append(figures[i].Here, *r.Value)
	} else {
		figures[i].There = append(figures[i].There, *r.Value)
	}
	return figures
}

func printCompared(w io.Writer, revision string, all []compared) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "NAME\tTHIS TREE\t%s\tRATIO\tRUNS\n", revision)
	for _, c := range all {
		here, there := median(c.Here), median(c.There)
		ratio := "-"
		if there != 0 {
			ratio = fmt.Sprintf("%.2f", here/there)
		}
		fmt.Fprintf(table, "%s\t%s %s\t%s %s\t%s\t%.3g | %.3g\n", c.Name, plot.Digits(here), c.Unit, plot.Digits(there),
			c.Unit, ratio, c.Here, c.There)
	}
	table.Flush()
}

func saveCompared(path string, all []compared) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the comparison: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}

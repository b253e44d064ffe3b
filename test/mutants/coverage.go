package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/cover"
)

// coverage is what each test of a package executes. A fault can be noticed by the tests alone
// that execute it, so that no other needs to judge it: where the tests of a package take a
// minute, those that execute one function take seconds.
type coverage []coveredTest

// coveredTest is one test: how long it took, and the blocks that it executed by file, whose
// name is relative to the root of the module.
type coveredTest struct {
	name   string
	took   time.Duration
	blocks map[string][]cover.ProfileBlock
}

// record runs each test of a stage's package by itself and returns what it executes of the
// packages in and below the directories.
func (r *runner) record(ctx context.Context, of stage, dirs []string) (coverage, error) {
	work, err := os.MkdirTemp("", "trivet-coverage-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the coverage of %s: %w", of.pkg, err)
	}
	defer os.RemoveAll(work)
	program := filepath.Join(work, "tests")
	if out, err := r.run(ctx, buildBudget, r.root, "go", "test", "-c", "-tags=e2e", "-vet=off", "-trimpath",
		"-covermode=set", "-coverpkg="+patterns(dirs), "-o", program, of.pkg); err != nil {
		return nil, fmt.Errorf("build the tests of %s with coverage: %w\n%s", of.pkg, err, tail(out, detailLines))
	}
	list := exec.CommandContext(ctx, program, "-test.list", "^Test")
	list.Dir, list.Env = filepath.Join(r.root, of.pkg), r.env
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", of.pkg, err)
	}
	module, err := command(ctx, r.root, "go", "list", "-m")
	if err != nil {
		return nil, err
	}
	all := make(coverage, 0, 64)
	for name := range strings.FieldsSeq(string(names)) {
		all = append(all, coveredTest{name: name})
	}
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(atOnce)
	for i := range all {
		running.Go(func() error {
			profile := filepath.Join(work, strconv.Itoa(i))
			m := Mutant{Run: "^" + regexp.QuoteMeta(all[i].name) + "$", Args: of.args}
			start := time.Now()
			out, err := r.run(ctx, r.timeout, list.Dir, program,
				append(m.args("-test.", r.timeout), "-test.coverprofile="+profile)...)
			if err != nil {
				return fmt.Errorf("without a mutant, %s of %s: %w\n%s", all[i].name, of.pkg, err, tail(out, detailLines))
			}
			all[i].took = time.Since(start)
			all[i].blocks, err = executed(profile, strings.TrimSpace(string(module)))
			return err
		})
	}
	err = running.Wait()
	slices.SortStableFunc(all, func(a, b coveredTest) int { return cmp.Compare(a.took, b.took) })
	return all, err
}

// patterns names the packages in and below directories, as go test takes them.
func patterns(dirs []string) string {
	all := make([]string, len(dirs))
	for i, dir := range dirs {
		all[i] = "./" + path.Join(dir, "...")
	}
	return strings.Join(all, ",")
}

// executed reads a profile and returns the blocks that were executed, by file.
func executed(profile, module string) (map[string][]cover.ProfileBlock, error) {
	files, err := cover.ParseProfiles(profile)
	if err != nil {
		return nil, fmt.Errorf("read a profile of coverage: %w", err)
	}
	blocks := make(map[string][]cover.ProfileBlock)
	for _, f := range files {
		never := func(b cover.ProfileBlock) bool { return b.Count == 0 }
		if ran := slices.DeleteFunc(f.Blocks, never); len(ran) > 0 {
			blocks[strings.TrimPrefix(f.FileName, module+"/")] = ran
		}
	}
	return blocks, nil
}

// enough is how long the tests take together at most that judge a fault, unless one takes
// longer: of many that execute it the quick ones notice it, as a rule.
const enough = time.Minute

// noTest is the pattern of a narrowed stage none of whose tests execute the functions.
const noTest = "^()$"

// narrowed returns the stage with those of its tests alone that execute one of the functions, or
// with all where none is named: the quick ones until it is enough. It also returns how long they
// take together.
func (c coverage) narrowed(of stage, functions []function) (narrow stage, took time.Duration, err error) {
	wanted, err := regexp.Compile(of.run)
	if err != nil {
		return stage{}, 0, fmt.Errorf("choose among the tests of %s: %w", of.pkg, err)
	}
	var names []string
	for _, t := range c {
		executes := len(functions) == 0 || slices.ContainsFunc(functions, t.executes)
		if executes && wanted.MatchString(t.name) && took+t.took <= max(enough, t.took) {
			names = append(names, t.name)
			took += t.took
		}
	}
	of.run = "^(" + strings.Join(names, "|") + ")$"
	return of, took, nil
}

func (t coveredTest) executes(f function) bool {
	return slices.ContainsFunc(t.blocks[f.file], func(b cover.ProfileBlock) bool {
		return b.StartLine <= f.last && f.first <= b.EndLine
	})
}

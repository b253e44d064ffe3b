package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// gateMACs is how long the lists of the goals are.
	gateMACs = 10_000
	// gateRounds is how often a list is built or changed; medians are of so many.
	gateRounds = 9
	// keepalivedTrials bounds how often another program is tried for comparison.
	keepalivedTrials = 10
	// trialLimit bounds one trial in the lab, startLab what comes before the first.
	trialLimit = time.Minute
	startLab   = 5 * time.Minute
)

func gateArea() Area {
	return Area{
		Name: "gate",
		About: fmt.Sprintf(
			"as root: lists of %d MACs in kernels of their own; three processes on hosts of their own with a DHCP server each, asked every 50 ms",
			gateMACs),
		Measure: measureGate,
	}
}

// row is a result that is still to be measured.
type row struct {
	name, unit string
	goal       Goal
}

func measureGate(ctx context.Context, b *Bench) error {
	g := &gateSite{bench: b}
	var failed []error
	for _, part := range []func(context.Context) error{
		g.nftables, g.iptables, g.starts, g.batch,
		func(ctx context.Context) error { return g.doors(ctx, "nftables") },
		func(ctx context.Context) error { return g.doors(ctx, "iptables") },
		g.addresses,
	} {
		failed = append(failed, part(ctx))
		if ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
	return errors.Join(failed...)
}

// gateSite runs what the product's own tests of the gate measure.
type gateSite struct {
	bench *Bench
	door  map[string]figures // by driver
}

// skip records why rows have no value.
func (g *gateSite) skip(why error, rows ...row) {
	for _, r := range rows {
		g.bench.Report.Skip(r.name, r.unit, r.goal, why.Error())
	}
}

// errCannot says that this machine cannot measure something, and why.
type errCannot string

// Error implements error.
func (e errCannot) Error() string { return string(e) }

// reason is what a test wrote last about itself.
var reason = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: (.*)$`)

// goTest runs tests or benchmarks of a package of the product and returns what
// they printed, and how busy the machine was with other things.
func (g *gateSite) goTest(ctx context.Context, trials int, pkg string, env []string, args ...string) (out string,
	busy string, err error) {
	if os.Geteuid() != 0 {
		return "", "", errCannot("it needs root")
	}
	binary, err := g.bench.Binary(ctx)
	if err == nil {
		binary, err = filepath.Abs(binary)
	}
	if err != nil {
		return "", "", err
	}
	limit := startLab + time.Duration(trials)*trialLimit
	test := exec.CommandContext(ctx, "go",
		append([]string{"test", "-tags", "e2e", "-count", "1", "-timeout", limit.String(), "-v", pkg}, args...)...)
	test.Dir = "../.." // the module of the product; bench runs in its own
	// The test is a child of go's; what it starts dies with it.
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	test.Cancel = func() error { return syscall.Kill(-test.Process.Pid, syscall.SIGKILL) }
	test.Env = append(append(os.Environ(), "TRIVET_TEST_BINARY="+binary), env...)
	before, began := othersUsed(), time.Now()
	text, err := test.CombinedOutput()
	share := (othersUsed() - before).Seconds() / (time.Since(began).Seconds() * float64(runtime.NumCPU()))
	said := reason.FindAllStringSubmatch(string(text), -1)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("go test %s: %w\n%s", pkg, err, text)
	case strings.Contains(string(text), "--- SKIP") && len(said) > 0:
		return "", "", errCannot(said[len(said)-1][1])
	}
	return string(text), fmt.Sprintf("others took %.0f%% of the machine", max(share, 0)*100), nil
}

// othersUsed is the processor time that neither this process nor what it started
// and waited for has used; what cannot be looked at counts nothing.
func othersUsed() time.Duration {
	machine, err := cpuOfMachine()
	if err != nil {
		return 0
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var used unix.Rusage
		if unix.Getrusage(who, &used) == nil {
			machine -= time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return machine
}

// measured is a line of go test's with a result, and figure is one figure in it.
var (
	measured = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
	figure   = regexp.MustCompile(`([\d.]+) (\S+)`)
)

// benchmarks returns the results of a package's benchmarks, several of each, by
// name and unit.
func (g *gateSite) benchmarks(ctx context.Context, pkg, pattern, times string) (all map[string][]float64, busy string,
	err error) {
	out, busy, err := g.goTest(ctx, 0, pkg, nil, "-run", "^$", "-bench", pattern, "-benchtime", times, "-count",
		strconv.Itoa(gateRounds))
	if err != nil {
		return nil, "", err
	}
	all = make(map[string][]float64)
	for _, line := range measured.FindAllStringSubmatch(out, -1) {
		for _, f := range figure.FindAllStringSubmatch(line[2], -1) {
			value, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return nil, "", fmt.Errorf("go test %s printed %q: %w", pkg, line[0], err)
			}
			key := line[1] + " " + f[2]
			all[key] = append(all[key], value)
		}
	}
	return all, busy, nil
}

// middle is the median of some figures in nanoseconds, in milliseconds.
func middle(all map[string][]float64, key string) (ms float64, err error) {
	if len(all[key]) < gateRounds {
		return 0, fmt.Errorf("go test has %d results of %s, not %d", len(all[key]), key, gateRounds)
	}
	return median(all[key]) / float64(time.Millisecond), nil
}

// nftables builds and changes long lists over netlink.
func (g *gateSite) nftables(ctx context.Context) error {
	build := row{"gate.nftables_build_ms", "ms", AtMost(100)}
	change := row{"gate.nftables_change_cpu_ms", "ms", AtMost(1)}
	const pkg = "./firewall/nftables"
	g.bench.Say("gate: lists in nf_tables")
	built, busy, err := g.benchmarks(ctx, pkg, fmt.Sprintf("^BenchmarkReplace$/^%d_MACs$", gateMACs), "5x")
	if err != nil {
		return g.cannot(err, build, change)
	}
	name := fmt.Sprintf("Replace/%d_MACs ", gateMACs)
	err = g.add(build, built, name+"ns/op", name+"cpu-ns/op", "of CPU", busy)
	changed, busy, failed := g.benchmarks(ctx, pkg, fmt.Sprintf("^BenchmarkChange$/^%d_MACs$", gateMACs), "200x")
	if failed != nil {
		return errors.Join(err, g.cannot(failed, change))
	}
	return errors.Join(err, g.add(change, changed, strings.Replace(name, "Replace", "Change", 1)+"cpu-ns/op",
		strings.Replace(name, "Replace", "Change", 1)+"ns/op", "until it is done", busy))
}

// iptables does the same with the commands of iptables, with either back end,
// and takes the slower.
func (g *gateSite) iptables(ctx context.Context) error {
	build := row{"gate.iptables_build_ms", "ms", AtMost(1500)}
	change := row{"gate.iptables_change_ms", "ms", AtMost(250)}
	g.bench.Say("gate: lists in iptables")
	all, busy, err := g.benchmarks(ctx, "./firewall/iptables",
		fmt.Sprintf("^Benchmark(Replace|Change)$/./^%d_MACs$", gateMACs), "3x")
	if err != nil {
		return g.cannot(err, build, change)
	}
	slower := func(r row, verb string) error {
		key := func(backend string) string { return fmt.Sprintf("%s/%s/%d_MACs ns/op", verb, backend, gateMACs) }
		slow, fast := key("nf_tables"), key("legacy")
		if len(all[slow]) > 0 && len(all[fast]) > 0 && median(all[fast]) > median(all[slow]) {
			slow, fast = fast, slow
		}
		return g.add(r, all, slow, fast, "with the other back end, which is not "+strings.Split(slow, "/")[1], busy)
	}
	return errors.Join(slower(build, "Replace"), slower(change, "Change"))
}

// add records the median of a benchmark's results, beside another.
func (g *gateSite) add(r row, all map[string][]float64, key, beside, what, busy string) error {
	value, err := middle(all, key)
	other, lacks := middle(all, beside)
	if err = errors.Join(err, lacks); err != nil {
		return g.cannot(err, r)
	}
	g.bench.Report.Add(r.name, value, r.unit, r.goal,
		fmt.Sprintf("median of %d; %.3g ms %s; %s", len(all[key]), other, what, busy))
	return nil
}

// cannot records rows without a value. What this machine cannot do is no failure
// of the measurement.
func (g *gateSite) cannot(err error, rows ...row) error {
	if err == nil {
		return nil
	}
	g.skip(firstLine(err), rows...)
	if errors.As(err, new(errCannot)) {
		return nil
	}
	return err
}

func firstLine(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

// figures are what a test of the lab measured: durations in seconds, and counts.
type figures map[string][]float64

func (f figures) sample(name string) Sample {
	var s Sample
	for _, seconds := range f[name] {
		s = append(s, time.Duration(seconds*float64(time.Second)))
	}
	return s
}

// sum adds up counts.
func (f figures) sum(name string) (n int) {
	for _, one := range f[name] {
		n += int(one)
	}
	return n
}

// lab runs a test of the lab that measures.
func (g *gateSite) lab(ctx context.Context, test string, trials int) (f figures, busy string, err error) {
	dir, err := g.bench.Folder("gate")
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, "figures.json")
	g.bench.Say("gate: %s, %d trials", test, trials)
	_, busy, err = g.goTest(ctx, 3*trials, "./test/labtest",
		[]string{"TRIVET_GATE_FIGURES=" + path, "TRIVET_GATE_TRIALS=" + strconv.Itoa(trials)}, "-run", "^"+test+"$")
	if err != nil {
		return nil, "", err
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read what %s measured: %w", test, err)
	}
	return f, busy, nil
}

// starts takes the time from an API call until the leader's kernel lets the
// machine through.
func (g *gateSite) starts(ctx context.Context) error {
	r := row{"gate.start_p99_ms", "ms", AtMost(50)}
	f, busy, err := g.lab(ctx, "TestFiguresOfStarts", g.bench.Trials)
	if err != nil {
		return g.cannot(err, r)
	}
	follower, leader := f.sample("follower"), f.sample("leader")
	p99 := append(leader, follower...).Quantile(0.99)
	g.bench.Report.Add(r.name, p99.Seconds()*1000, r.unit, r.goal, fmt.Sprintf(
		"%d machines known; through a follower: %v; through the leader: %v; the call itself: %v, %v; %s",
		gateMACs, follower, leader, f.sample("answer.follower"), f.sample("answer.leader"), busy))
	return nil
}

// batch takes how long a batch of machines is introspected, beside what they take
// themselves.
func (g *gateSite) batch(ctx context.Context) error {
	r := row{"gate.batch_200_ratio", "x", AtMost(1.03)}
	f, busy, err := g.lab(ctx, "TestFiguresOfABatch", g.bench.Trials)
	if err != nil {
		return g.cannot(err, r)
	}
	boots, whole := f.sample("boots").P50(), f.sample("finished").P50()
	g.bench.Report.Add(r.name, whole.Seconds()/boots.Seconds(), r.unit, r.goal, fmt.Sprintf(
		"%d machines known; all were started after %v, each booted for %v, and all were finished %v after the first POST; %s",
		gateMACs, short(f.sample("started").P50()), boots, short(whole), busy))
	return nil
}

// doors takes how long nobody gets an offer when the leader is lost.
func (g *gateSite) doors(ctx context.Context, driver string) error {
	kinds := []struct {
		name        string
		median, max float64
	}{{"kill", 1.2, 1.6}, {"stop", 1.2, 1.6}, {"planned", 0.2, 0.2}}
	var rows []row
	for _, kind := range kinds {
		rows = append(rows, row{fmt.Sprintf("gate.%s_%s_p50", driver, kind.name), "s", AtMost(kind.median)},
			row{fmt.Sprintf("gate.%s_%s_max", driver, kind.name), "s", AtMost(kind.max)})
	}
	f, busy, err := g.lab(ctx, "TestFiguresBy"+strings.ToUpper(driver[:1])+driver[1:], g.bench.Trials)
	if err != nil {
		return g.cannot(err, rows...)
	}
	if g.door == nil {
		g.door = make(map[string]figures)
	}
	g.door[driver] = f
	for i, kind := range kinds {
		s := f.sample(kind.name + ".door")
		half, most := rows[2*i], rows[2*i+1]
		g.bench.Report.Add(half.name, s.P50().Seconds(), half.unit, half.goal,
			fmt.Sprintf("%v; two hosts offered at once: %d times; handed over once more: %d times; %s", s,
				f.sum("door.overlaps"), f.sum("door.again"), busy))
		g.bench.Report.Add(most.name, s.Max().Seconds(), most.unit, most.goal, "the longest of these")
	}
	return nil
}

// addresses takes how long nobody has the floating IP when the leader is lost,
// and how often two hosts have it, beside keepalived.
func (g *gateSite) addresses(ctx context.Context) error {
	six, busy, err := g.lab(ctx, "TestFiguresOverIPv6", g.bench.Trials)
	var failed []error
	for _, kind := range []struct {
		name          string
		limit, limit6 float64
	}{{"kill", 1.9, 2.9}, {"planned", 0.5, 0.5}} {
		four := row{"gate.address_" + kind.name + "_max", "s", AtMost(kind.limit)}
		if f := g.door["nftables"]; f == nil {
			g.skip(errors.New("gate.nftables_"+kind.name+"_max was not measured"), four)
		} else {
			s := f.sample(kind.name + ".address")
			g.bench.Report.Add(four.name, s.Max().Seconds(), four.unit, four.goal,
				fmt.Sprintf("%v; the old host answered for %v; measured with gate.nftables_%s_max",
					s, f.sample(kind.name+".address.lasted"), kind.name))
		}
		ipv6 := row{"gate.address6_" + kind.name + "_max", "s", AtMost(kind.limit6)}
		if err != nil {
			failed = append(failed, g.cannot(err, ipv6))
			continue
		}
		s := six.sample(kind.name + ".address")
		g.bench.Report.Add(ipv6.name, s.Max().Seconds(), ipv6.unit, ipv6.goal,
			fmt.Sprintf("%v; the old host answered for %v; %s", s, six.sample(kind.name+".address.lasted"), busy))
	}
	if err == nil {
		g.door["ipv6"] = six
	}
	return errors.Join(append(failed, g.holders(ctx))...)
}

// holders counts how often two hosts answered for the address at once.
func (g *gateSite) holders(ctx context.Context) error {
	r := row{"gate.address_two_hosts", "", AtMost(0)}
	if len(g.door) == 0 {
		g.skip(errors.New("no hand-over was measured"), r)
		return nil
	}
	trials, both := 0, 0
	for _, f := range g.door {
		trials += len(f["address.overlaps"])
		both += f.sum("address.overlaps")
	}
	beside := "keepalived in the same run: "
	k, _, err := g.lab(ctx, "TestFiguresOfKeepalived", min(g.bench.Trials, keepalivedTrials))
	if err != nil {
		beside += "not measured, " + firstLine(err).Error()
	} else {
		beside += fmt.Sprintf(
			"SIGKILL: another host has it after %v, and both had it for %v of the 5 s that were looked at; SIGSTOP: after %v, and both for %v",
			k.sample("kill.taken"), k.sample("kill.both"), k.sample("stop.taken"), k.sample("stop.both"))
	}
	g.bench.Report.Add(r.name, float64(both), r.unit, r.goal,
		fmt.Sprintf("answers of a second host in %d hand-overs, all kinds and drivers; %s", trials, beside))
	if errors.As(err, new(errCannot)) {
		return nil
	}
	return err
}

func recorderArea() Area {
	return Area{
		Name: "recorder",
		About: "as root: three processes on hosts of their own, 200 machines that boot at once, and a flood of 20,000 " +
			"DISCOVERs a second, with the boot recorder and without it in turns",
		Measure: measureRecorder,
	}
}

// measureRecorder takes what the boot recorder costs the leader.
func measureRecorder(ctx context.Context, b *Bench) error {
	g := &gateSite{bench: b}
	rows := map[string]row{
		"boots":         {"recorder.boots_200_cpu_percent", "%", AtMost(1)},
		"flood":         {"recorder.flood_20000_cpu_percent", "%", AtMost(15)},
		"flood.memory":  {"recorder.flood_20000_memory_mb", "MB", AtMost(16)},
		"flood.entries": {"recorder.flood_20000_entries", "", AtMost(10)},
	}
	order := []string{"boots", "flood", "flood.memory", "flood.entries"}
	f, busy, err := g.lab(ctx, "TestFiguresOfRecorder", min(b.Trials, 3))
	if err != nil {
		var all []row
		for _, what := range order {
			all = append(all, rows[what])
		}
		return g.cannot(err, all...)
	}
	for _, what := range order {
		with, without := f[what+".on"], f[what+".off"]
		if len(with) == 0 || len(without) == 0 {
			return errors.New("TestFiguresOfRecorder measured no " + what)
		}
		more, r := median(with)-median(without), rows[what]
		if r.unit == "%" {
			more *= 100
		}
		b.Report.Add(r.name, more, r.unit, r.goal, fmt.Sprintf(
			"medians of %d: %.3g with the recorder, %.3g without; while nothing boots %.3g and %.3g of a core; %s",
			len(with), median(with), median(without), median(f["quiet.on"]), median(f["quiet.off"]), busy))
	}
	return nil
}

package iptables

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// failure is a command that failed, told so that one knows what to do.
type failure struct {
	command string
	line    string // of what it was to commit, at which it failed; "" if not known
	known   bool   // the cause is one of ours to name, and not the line
	why     string
	err     error
}

// newFailure explains what a command said when it failed; input is what it was
// to commit.
func newFailure(command, input, said string, err error) *failure {
	f := &failure{command: command, line: refused(input, said), err: err}
	if why := cause(said); why != "" {
		f.known, f.why = true, why
		return f
	}
	f.why = strings.Join(strings.Fields(said), " ")
	if f.line != "" {
		f.why = fmt.Sprintf("%s (the line is %q)", f.why, f.line)
	}
	var exit *exec.ExitError
	if f.why == "" || !errors.As(err, &exit) || exit.ExitCode() < 0 { // killed, or never started
		f.why = strings.TrimSpace(err.Error() + " " + f.why)
		if holder := lockHolder(); holder != "" {
			f.why += "; the xtables lock is held by " + holder
		}
	}
	if lacks := lackedMatches(input); f.line == commit && lacks != "" {
		f.known, f.why = true, f.why+": the kernel lacks a match; load the module "+lacks
	}
	return f
}

// Error implements error.
func (f *failure) Error() string { return f.command + ": " + f.why }

// Unwrap returns how the command ended.
func (f *failure) Unwrap() error { return f.err }

// refusedLine is where iptables-restore names a line of its input, whichever
// version of it and whichever back end.
var refusedLine = regexp.MustCompile(`\bline:? (\d+)\b`)

// refused is the line of the input at which the commit failed, "" if it is not
// known.
func refused(input, said string) string {
	found := refusedLine.FindStringSubmatch(said)
	if found == nil {
		return ""
	}
	number, err := strconv.Atoi(found[1])
	lines := strings.Split(input, "\n")
	if err != nil || number < 1 || number > len(lines) {
		return ""
	}
	return lines[number-1]
}

// missed is the rule that a commit looked for and did not find, "" if it failed
// for another reason.
func missed(err error) string {
	var f *failure
	if !errors.As(err, &f) || f.known {
		return ""
	}
	for _, looks := range []string{"-C ", "-D ", "-R "} {
		if strings.HasPrefix(f.line, looks) {
			return f.line
		}
	}
	return ""
}

// cause returns what lies behind the message of a command, and the remedy; "" if
// the message is not one of the known ones.
func cause(said string) string {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(said, part) })
	}
	switch {
	case has("Permission denied", "Operation not permitted", "you must be root"):
		return "not permitted; run as root or with CAP_NET_ADMIN"
	case has("holding the xtables lock"):
		holder := lockHolder()
		if holder == "" {
			holder = "another program, which has released it since"
		}
		return "the xtables lock was held by " + holder
	case has("Couldn't load match", "Couldn't load target"):
		return firstLine(said) + ": an extension of iptables is not installed; install the whole package iptables"
	case has("Failed to initialize nft"):
		return "the kernel has no nf_tables; load the module nf_tables"
	case has("can't initialize", "unable to initialize table", "Table does not exist"):
		if !permitted() {
			return "not permitted; run as root or with CAP_NET_ADMIN"
		}
		return firstLine(said) + ": the kernel lacks the table; load the module iptable_filter, for IPv6 ip6table_filter"
	case has("RULE_APPEND failed (No such file", "RULE_APPEND failed (Operation not supported"):
		return firstLine(said) + ": the kernel lacks a match; load the modules nft_compat, xt_mac and xt_multiport"
	}
	return ""
}

// firstLine is the first line of a message that says something.
func firstLine(said string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return strings.TrimSpace(line)
}

// lackedMatches names the modules of those matches in a commit that the kernel
// does not know, "" if none is known to be missing: a commit that the legacy
// back end refuses as a whole is refused without a reason.
func lackedMatches(input string) string {
	registered, err := os.ReadFile("/proc/thread-self/net/ip_tables_matches")
	if err != nil {
		return ""
	}
	var lacks []string
	for _, match := range []string{"mac", "multiport"} {
		if strings.Contains(input, "-m "+match+" ") && !strings.Contains("\n"+string(registered), "\n"+match+"\n") {
			lacks = append(lacks, "xt_"+match)
		}
	}
	return strings.Join(lacks, " and ")
}

// netAdmin is the number of CAP_NET_ADMIN.
const netAdmin = 12

// permitted reports whether this thread may change rules; true if that is not
// known.
func permitted() bool {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return true
	}
	_, rest, found := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return !found || err != nil || effective&(1<<netAdmin) != 0
}

// lockHolder names the process that holds the lock of the legacy back end, "" if
// none is found.
func lockHolder() string {
	path := os.Getenv("XTABLES_LOCKFILE") // as iptables has it
	if path == "" {
		path = "/run/xtables.lock"
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return ""
	}
	pid := holder(string(locks), file.Ino)
	if pid == "" {
		return ""
	}
	name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	if err != nil {
		return "process " + pid
	}
	return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), pid)
}

// holder finds in the words of /proc/locks who holds the lock of a file: in
// "1: FLOCK  ADVISORY  WRITE 27024 fe:00:9773057 0 EOF" process 27024. Those who
// wait have an arrow after the number.
func holder(locks string, inode uint64) (pid string) {
	for line := range strings.Lines(locks) {
		words := strings.Fields(line)
		if len(words) < 6 || words[1] != "FLOCK" {
			continue
		}
		if at := strings.LastIndexByte(words[5], ':'); at >= 0 && words[5][at+1:] == strconv.FormatUint(inode, 10) {
			return words[4]
		}
	}
	return ""
}

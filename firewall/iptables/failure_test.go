package iptables

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestReasons has what iptables 1.8.9 said on Debian 12.
func TestReasons(t *testing.T) {
	failed := &exec.ExitError{}
	for _, c := range []struct{ said, input, want string }{
		{"Fatal: can't open lock file /run/xtables.lock: Permission denied\n", "", "CAP_NET_ADMIN"},
		{"iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n",
			"", "CAP_NET_ADMIN"},
		{"Another app is currently holding the xtables lock. Stopped waiting after 1s.\n", "",
			"the xtables lock was held by"},
		{"iptables-restore v1.8.9 (legacy): Couldn't load match `recent':No such file or directory\n\nError occurred at line: 2\n",
			"", "install the whole package iptables"},
		{"iptables v1.8.9 (legacy): can't initialize iptables table `filter': Table does not exist (do you need to insmod?)\n",
			"", "iptable_filter"},
		{"iptables-nft: Failed to initialize nft: Protocol not supported\n", "", "load the module nf_tables"},
		{"iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (No such file or directory): rule in chain TRIVET-DENY\n",
			"", "nft_compat"},
		{"iptables-restore: line 2 failed\n", "*filter\n-C INPUT -j X\nCOMMIT\n", `the line is "-C INPUT -j X"`},
		{"something new\n", "", "something new"},
		{"", "", "exit status"},
	} {
		err := newFailure("iptables-restore", c.input, c.said, failed)
		if !strings.HasPrefix(err.Error(), "iptables-restore: ") ||
			!strings.Contains(err.Error(), c.want) && c.want != "exit status" {
			t.Errorf("%q: %v", c.said, err)
		}
		if !errors.Is(err, failed) {
			t.Errorf("%q: the end of the command is not in the chain", c.said)
		}
	}
}

func TestMissed(t *testing.T) {
	input := "*filter\n-C INPUT -j X\n-A Y -j DROP\n-D Y -j Z\nCOMMIT\n"
	for said, want := range map[string]string{
		"iptables-restore: line 2 failed\n": "-C INPUT -j X",
		"iptables-nft-restore: line 4 failed: Bad rule (does a matching rule exist in that chain?).": "-D Y -j Z",
		"iptables-restore: line 3 failed\n":  "",
		"iptables-restore: line 5 failed\n":  "",
		"iptables-restore: line 99 failed\n": "",
		"line 2: Permission denied":          "",
		"":                                   "",
	} {
		if got := missed(newFailure("iptables-restore", input, said, &exec.ExitError{})); got != want {
			t.Errorf("%q: %q", said, got)
		}
	}
	if got := missed(errors.New("another")); got != "" {
		t.Errorf("another error: %q", got)
	}
}

func TestHolder(t *testing.T) {
	locks := `1: FLOCK  ADVISORY  WRITE 27024 fe:00:9773057 0 EOF
1: -> FLOCK  ADVISORY  WRITE 27030 fe:00:9773057 0 EOF
2: POSIX  ADVISORY  WRITE 5 fe:00:977 0 EOF
3: FLOCK  ADVISORY  WRITE 6 fe:00:978 0 EOF
4: FLOCK
`
	for inode, want := range map[uint64]string{9773057: "27024", 977: "", 978: "6", 7: ""} {
		if got := holder(locks, inode); got != want {
			t.Errorf("inode %d: %q", inode, got)
		}
	}
}

func TestNotInstalled(t *testing.T) {
	if _, err := find("iptables-of-nobody"); err == nil || !strings.Contains(err.Error(), "install the package iptables") {
		t.Error(err)
	}
}

package serviceuser

import (
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Name is who runs the peer where a package installed it.
const Name = "trivet"

// Account is a user of this host, by numbers.
type Account struct{ UID, GID int }

// Named looks the user Name up; ok is false where there is none.
func Named() (who Account, ok bool) {
	u, err := user.Lookup(Name)
	if err != nil {
		return Account{}, false // not installed from a package
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	return Account{uid, gid}, errUID == nil && errGID == nil
}

// Of returns who runs the peer with this data directory: its owner; the user Name where
// that is root, or the directory is not there yet. ok is false where neither is there.
func Of(dataDir string) (who Account, ok bool) {
	if info, err := os.Stat(dataDir); err == nil {
		if s, known := info.Sys().(*syscall.Stat_t); known && s.Uid != 0 {
			return Account{int(s.Uid), int(s.Gid)}, true
		}
	}
	return Named()
}

// Judges reports whether this process can find out what the account may read: it is root,
// or runs as the account.
func (a Account) Judges() bool { return os.Geteuid() == 0 || os.Geteuid() == a.UID }

// Do calls act with the rights that the account has to files, with further groups besides
// its own. The kernel judges, so that lists of access and foreign file systems count. act
// must do its work on the goroutine it is called on. Without Judges nothing is called.
func (a Account) Do(further []string, act func()) error {
	if os.Geteuid() != 0 {
		if a.Judges() {
			act()
		}
		return nil
	}
	var err error
	var thread sync.WaitGroup
	thread.Go(func() {
		// Never unlocked: the thread ends with its goroutine, and its rights with it.
		runtime.LockOSThread()
		if err = a.assume(further); err == nil {
			act()
		}
	})
	thread.Wait()
	return err
}

// assume gives this thread, and no other, the account's rights to files. With the
// user of file systems the kernel takes root's capabilities over files away.
func (a Account) assume(further []string) error {
	if err := unix.Setgroups(a.groups(further)); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := unix.Setfsgid(a.GID); err != nil {
		return os.NewSyscallError("setfsgid", err)
	}
	return os.NewSyscallError("setfsuid", unix.Setfsuid(a.UID))
}

// groups are those of the account, and further ones by name or number.
func (a Account) groups(further []string) []int {
	out := []int{a.GID}
	if u, err := user.LookupId(strconv.Itoa(a.UID)); err == nil {
		ids, _ := u.GroupIds() // what cannot be listed gives no right
		further = append(ids, further...)
	}
	for _, name := range further {
		if g, err := user.LookupGroup(name); err == nil {
			name = g.Gid
		}
		if id, err := strconv.Atoi(strings.TrimSpace(name)); err == nil {
			out = append(out, id)
		}
	}
	return out
}

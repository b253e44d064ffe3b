package powercut

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Calls are the system calls that are recorded: all that can change a file or its name, or
// wait for the disk, and those that say where in a file the next write goes.
const Calls = "open,openat,openat2,creat,lseek,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,msync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat," +
	"symlink,symlinkat,mknod,mknodat,copy_file_range,sendfile,splice,mmap"

// most is how many bytes of one write strace prints.
const most = 16 << 20

// Strace returns the command that records a program, to be put before it. The program keeps the
// process ID of the command.
func Strace(to string) []string {
	return []string{"strace", "-D", "-f", "-q", "--seccomp-bpf", "-ttt", "-y", "-xx", "-a", "1", "-s",
		strconv.Itoa(most), "-e", "trace=" + Calls, "-o", to}
}

// call is one system call.
type call struct {
	trace  string // the recording of the process
	name   string
	args   []string
	ret    int64
	opened string // path of what it opened
	failed bool
	text   string // until it is parsed
	seq    int    // of a sync: the newest change when it began
}

// moment is where a call begins or ends.
type moment struct {
	at int64 // microseconds since 1970
	*call
	end bool
}

// parse reads what strace printed of a process.
func parse(trace string, from io.Reader) (out []moment, err error) {
	open := make(map[string]*call) // by thread
	in := bufio.NewReaderSize(from, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return out, nil // a line without an end is of a process that was killed
		}
		if err != nil {
			return nil, err
		}
		if out, err = parseLine(out, trace, open, strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", trace, n, err)
		}
	}
}

func parseLine(out []moment, trace string, open map[string]*call, line string) ([]moment, error) {
	thread, rest, _ := strings.Cut(line, " ")
	stamp, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	seconds, micros, _ := strings.Cut(stamp, ".")
	at, err := strconv.ParseInt(seconds+micros, 10, 64)
	if err != nil || len(micros) != 6 {
		return nil, fmt.Errorf("read the time of %.80q", line)
	}
	if strings.HasPrefix(rest, "+++") || strings.HasPrefix(rest, "---") {
		return out, nil // it ended, or had a signal
	}
	if tail, resumed := strings.CutPrefix(rest, "<... "); resumed {
		c := open[thread]
		_, tail, ok := strings.Cut(tail, " resumed>")
		if c == nil || !ok {
			return nil, fmt.Errorf("a call ends that did not begin: %.80q", line)
		}
		delete(open, thread)
		c.text += tail
		return append(out, moment{at, c, true}), c.parse()
	}
	name, _, ok := strings.Cut(rest, "(")
	if !ok {
		return nil, fmt.Errorf("%.80q is no call", line)
	}
	c := &call{trace: trace, name: name, text: rest[len(name)+1:]}
	if begun, unfinished := strings.CutSuffix(c.text, " <unfinished ...>"); unfinished {
		c.text = begun
		open[thread] = c
		c.args = arguments(begun)
		return append(out, moment{at, c, false}), nil
	}
	return append(out, moment{at, c, false}, moment{at, c, true}), c.parse()
}

// arguments splits them. What is quoted is in hexadecimal, so that no comma is in it.
func arguments(text string) []string { return strings.Split(strings.TrimSuffix(text, ","), ", ") }

// parse reads the arguments and the result of a call that has ended.
func (c *call) parse() (err error) {
	i := strings.LastIndex(c.text, " = ")
	if i < 0 {
		return fmt.Errorf("%s has no result", c.name)
	}
	args, ok := strings.CutSuffix(strings.TrimRight(c.text[:i], " "), ")")
	if !ok {
		return fmt.Errorf("%s has no end of its arguments", c.name)
	}
	result := c.text[i+len(" = "):]
	c.text, c.args = "", arguments(args)
	number, _, _ := strings.Cut(result, " ")
	number, path, opened := strings.Cut(number, "<")
	if opened {
		if c.opened, err = unhex(strings.TrimSuffix(path, "(deleted)"), '>'); err != nil {
			return err
		}
	}
	// "?": it is begun again after a signal, or the process was killed in it
	if c.failed = number == "?" || strings.HasPrefix(number, "-"); c.failed || c.name == "mmap" {
		return nil
	}
	c.ret, err = strconv.ParseInt(number, 0, 64)
	return err
}

// unhex decodes what strace quotes, which ends with a byte.
func unhex(text string, end byte) (string, error) {
	if text == "" || text[len(text)-1] != end {
		return "", fmt.Errorf("%.40q was cut short", text)
	}
	text = text[:len(text)-1]
	out := make([]byte, 0, len(text)/4)
	for ; text != ""; text = text[4:] {
		if len(text) < 4 || text[0] != '\\' || text[1] != 'x' {
			return "", fmt.Errorf("%.40q is not in hexadecimal", text)
		}
		b, err := strconv.ParseUint(text[2:4], 16, 8)
		if err != nil {
			return "", err
		}
		out = append(out, byte(b))
	}
	return string(out), nil
}

// quoted returns an argument that is quoted.
func (c *call) quoted(n int) (string, error) {
	if n >= len(c.args) || !strings.HasPrefix(c.args[n], `"`) {
		return "", fmt.Errorf("%s: argument %d is no text", c.name, n)
	}
	return unhex(c.args[n][1:], '"')
}

// number returns an argument that is a number.
func (c *call) number(n int) (int64, error) {
	if n >= len(c.args) {
		return 0, fmt.Errorf("%s has no argument %d", c.name, n)
	}
	return strconv.ParseInt(c.args[n], 0, 64)
}

// descriptor returns number and path of an argument that is an open file. There is no path
// of one that was removed.
func (c *call) descriptor(n int) (fd, path string, err error) {
	if n >= len(c.args) {
		return "", "", fmt.Errorf("%s has no argument %d", c.name, n)
	}
	fd, path, ok := strings.Cut(c.args[n], "<")
	if !ok || strings.HasSuffix(path, "(deleted)") {
		return fd, "", nil
	}
	path, err = unhex(path, '>')
	return fd, path, err
}

// merged returns the moments of several recordings in their order.
func merged(of ...[]moment) []moment {
	all := slices.Concat(of...)
	slices.SortStableFunc(all, func(a, b moment) int { return int(a.at - b.at) })
	return all
}

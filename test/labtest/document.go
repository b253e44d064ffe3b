package labtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is a page whose shell blocks a test runs. CONTRIBUTING.md tells writers
// how to mark what; this file is what holds them to it.
type document struct {
	name  string // as README.md or docs/operate.md
	steps []step
}

// step is a block of a page: what a reader would paste into a root shell.
type step struct {
	line   int      // of the page, from 1
	hosts  []string // on which it runs, one after the other
	exit   int      // how it has to end
	script string
	why    string // it is not run; "" if it is
	hidden bool   // no reader sees it: what befell the hosts meanwhile
}

// firstHost is where a block runs that says nothing of it.
const firstHost = "h1"

// Marks are comments, which nobody sees on a page that is rendered.
var (
	runMark       = regexp.MustCompile(`^ *<!-- run: (.+) -->$`)
	meanwhileMark = regexp.MustCompile(`^( *)<!-- meanwhile: (.+)$`)
	shellFence    = regexp.MustCompile("^( *)```sh *$")
	hostName      = regexp.MustCompile(`^h[1-5]$`)
)

// parse reads a page. An error names the line and what is wrong with its mark.
func parse(name, text string) (*document, error) {
	d := &document{name: name}
	lines := strings.Split(text, "\n")
	mark, marked := newStep(), 0
	for i := 0; i < len(lines); i++ {
		fail := func(format string, args ...any) (*document, error) {
			return nil, fmt.Errorf("%s:%d: %s", name, i+1, fmt.Sprintf(format, args...))
		}
		if found := runMark.FindStringSubmatch(lines[i]); found != nil {
			mark, marked = newStep(), i+1
			if err := mark.read(found[1]); err != nil {
				return fail("%v", err)
			}
			continue
		}
		if found := meanwhileMark.FindStringSubmatch(lines[i]); found != nil {
			s := newStep()
			s.line, s.hidden = i+1, true
			if err := s.read(found[2]); err != nil || s.why != "" {
				return fail("write '<!-- meanwhile: HOST…' and the lines to run: %v", err)
			}
			n, whole := 0, false
			if s.script, n, whole = body(lines[i+1:], found[1], "-->"); !whole {
				return fail("this comment has no line '-->'")
			}
			d.steps = append(d.steps, s)
			i += n
			continue
		}
		found := shellFence.FindStringSubmatch(lines[i])
		if found == nil {
			if marked > 0 && strings.TrimSpace(lines[i]) != "" && !strings.HasPrefix(strings.TrimSpace(lines[i]), "<!--") {
				return nil, fmt.Errorf("%s:%d: no block of sh follows this mark", name, marked)
			}
			continue
		}
		mark.line = i + 1
		n, whole := 0, false
		if mark.script, n, whole = body(lines[i+1:], found[1], "```"); !whole {
			return fail("this block does not end")
		}
		d.steps = append(d.steps, mark)
		mark, marked = newStep(), 0
		i += n
	}
	return d, nil
}

// body returns the lines before the one that ends them, without the indent that
// the first of them had, and how many there are with that one.
func body(lines []string, indent, end string) (text string, n int, whole bool) {
	at := slices.Index(lines, indent+end)
	if at < 0 {
		return "", 0, false
	}
	for _, line := range lines[:at] {
		text += strings.TrimPrefix(line, indent) + "\n"
	}
	return text, at + 1, true
}

func newStep() step { return step{hosts: []string{firstHost}} }

// read understands a mark: 'no REASON', or hosts and how the block ends.
func (s *step) read(mark string) error {
	if reason, no := strings.CutPrefix(mark+" ", "no "); no {
		if s.why = strings.TrimSpace(reason); len(strings.Fields(s.why)) < 3 {
			return fmt.Errorf("write '<!-- run: no REASON -->', with a reason of some words")
		}
		return nil
	}
	words, hosts := strings.Fields(mark), []string(nil)
	for len(words) > 0 && hostName.MatchString(words[0]) {
		hosts, words = append(hosts, words[0]), words[1:]
	}
	if hosts != nil {
		s.hosts = hosts
	}
	if len(words) == 2 && words[0] == "expect" {
		exit, err := strconv.ParseUint(words[1], 10, 8)
		s.exit, words = int(exit), words[2:]
		if err != nil {
			return fmt.Errorf("expect: %w", err)
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("write '<!-- run: [HOST…] [expect EXIT] -->' or '<!-- run: no REASON -->', not %q",
			strings.Join(words, " "))
	}
	return nil
}

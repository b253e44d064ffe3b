//go:build e2e

package labtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Golden is a recorded conversation with the original ironic-inspector, one
// JSON object a line, under testdata/golden: what was set up in Ironic, what
// the original was asked and answered, and what Ironic showed afterwards.
type Golden struct {
	Name    string
	Profile GoldenProfile
	lines   [][]byte
}

// goldenLine is one step. Which fields count depends on its kind.
type goldenLine struct {
	Seq      int
	Kind     string
	Note     string
	Request  goldenRequest
	Response goldenResponse

	Volatile        []string          // pointers: only the type must match
	Loose           []string          // pointers: need not match
	Regex           map[string]string // pointer: expression
	VolatileHeaders []string          `json:"volatile_headers"`
	SetHeaders      []string          `json:"set_headers"`
	UpstreamDefect  string            `json:"upstream_defect"` // the recorded answer is a bug: any will do
	goldenWait
}

// goldenRequest is sent to the inspector or to Ironic.
type goldenRequest struct {
	Method, Path string
	Headers      map[string]string
	Body         json.RawMessage
	BodyRaw      *string `json:"body_raw"`
}

// goldenResponse is what the original answered.
type goldenResponse struct {
	Status  int
	Headers map[string]string
	Body    any
}

// goldenWait is what the other kinds of line wait for and compare.
type goldenWait struct {
	Until   []string       // inspector-wait: states
	Path    string         // ironic-*
	Field   string         // ironic-wait
	Equals  string         // ironic-wait
	Fields  map[string]any // ironic-node
	Ports   []any          // ironic-ports
	Seconds float64        // sleep
	Faults  []goldenFault  // ironic-fault: those in force from now on
}

// goldenFault is what meets calls to Ironic.
type goldenFault struct {
	Method, Path string
	Status       int
	Body         json.RawMessage
	Count        *int    // how many calls, 1 if it is not told
	Delay        float64 // seconds
}

// ReadGolden reads a recording.
func ReadGolden(name string) (Golden, error) {
	g := Golden{Name: name}
	file, err := os.Open(filepath.Join("testdata", "golden", name+".jsonl"))
	if err != nil {
		return g, err
	}
	defer file.Close()
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20) // the longest line
	for scan.Scan() {
		g.lines = append(g.lines, bytes.Clone(scan.Bytes()))
	}
	if err := scan.Err(); err != nil {
		return g, err
	}
	var head struct{ Profile GoldenProfile }
	if err := decodeExact(g.lines[0], &head); err != nil { // numbers stay as they were written
		return g, fmt.Errorf("%s: first line: %w", name, err)
	}
	g.Profile, g.lines = head.Profile, g.lines[1:]
	return g, nil
}

// settleLimit is what Ironic may take to show what it was told: power is
// switched after the answer.
const settleLimit = 10 * time.Second

// replay is one conversation under way. Every request to the inspector goes to
// the next peer, so that each of them must know what another was told.
type replay struct {
	peers  []*Peer
	ironic *openstack.Ironic
	tap    *wiretap.Tap
	turn   int
	known  map[string]string        // what the original chose → what was chosen here
	taken  map[string]httpapi.Reply // callback → its answer, where that was 200
	diffs  []string
}

// Replay plays a conversation against the peers and returns how it differs from
// the recording, and how many answers were compared.
func (g Golden) Replay(s *SiteLab, ironic *openstack.Ironic) (diffs []string, compared int) {
	r := &replay{peers: s.Peers, ironic: ironic, tap: s.Tap, known: make(map[string]string),
		taken: make(map[string]httpapi.Reply)}
	defer s.Tap.Heal()
	for _, raw := range g.lines {
		line, err := r.decode(raw)
		if err != nil {
			return append(r.diffs, fmt.Sprintf("%s: %v", g.Name, err)), compared
		}
		before := len(r.diffs)
		if r.play(line) {
			compared++
		}
		for k := before; k < len(r.diffs); k++ {
			r.diffs[k] = fmt.Sprintf("%s seq %d %s %s %s: %s", g.Name, line.Seq, line.Kind, line.Request.Method,
				line.Request.Path+line.Path, r.diffs[k])
		}
	}
	return r.diffs, compared
}

// decode puts in what this run's server chose for what the recorded one chose.
func (r *replay) decode(raw []byte) (line goldenLine, err error) {
	text := string(raw)
	for from, to := range r.known {
		text = strings.ReplaceAll(text, from, to)
	}
	return line, decodeExact([]byte(text), &line)
}

// differ notes a difference.
func (r *replay) differ(format string, args ...any) {
	r.diffs = append(r.diffs, fmt.Sprintf(format, args...))
}

// play does one line and reports whether it compares anything.
func (r *replay) play(line goldenLine) bool {
	switch line.Kind {
	case "sleep":
		testwait.Rest(context.Background(), time.Duration(line.Seconds*float64(time.Second)))
	case "ironic-calls-observed", "note": // told for the reader
	case "ironic-fault":
		r.trouble(line.Faults)
	case "ironic-setup":
		if err := r.ironic.Insist(line.Request.Method, line.Request.Path, line.Request.Body); err != nil {
			r.differ("set-up of Ironic: %v", err)
		}
	case "ironic-wait":
		r.until(30*time.Second, func() []string { return r.ironicField(line) })
	case "inspector":
		r.answer(line)
		return true
	case "inspector-wait":
		r.wait(line)
		return true
	case "ironic-node":
		r.until(settleLimit, func() []string { return r.ironicNode(line) })
		return true
	case "ironic-ports":
		r.until(settleLimit, func() []string { return r.ironicPorts(line) })
		return true
	default:
		r.differ("a kind of line that this lab does not know")
	}
	return false
}

// until tries until there is no difference, and notes the last ones.
func (r *replay) until(limit time.Duration, compare func() []string) {
	var diffs []string
	// A difference may be a departure, which stays.
	err := testwait.Try(context.Background(), limit, "no difference", func() error {
		if diffs = compare(); len(diffs) > 0 {
			return errors.New(diffs[0])
		}
		return nil
	})
	if err != nil {
		r.diffs = append(r.diffs, diffs...)
	}
}

// send asks the next peer what the line asks.
func (r *replay) send(line goldenLine) (*Peer, httpapi.Reply, error) {
	p := r.peers[r.turn%len(r.peers)]
	r.turn++
	body := []byte(line.Request.Body)
	if line.Request.BodyRaw != nil {
		body = []byte(*line.Request.BodyRaw)
	}
	reply, err := httpapi.Ask(p.wire, p.API, line.Request.Method, line.Request.Path, line.Request.Headers, body)
	return p, reply, err
}

// answer asks once and compares.
func (r *replay) answer(line goldenLine) {
	p, reply, err := r.send(line)
	if err != nil {
		r.differ("asking %s: %v", p.Name, err)
		return
	}
	switch {
	case line.UpstreamDefect != "":
		r.diffs = append(r.diffs, mended(line, reply)...)
		return
	case r.repeats(line, reply):
		return
	}
	r.diffs = append(r.diffs, r.compare(line, p, reply)...)
}

// repeats reports whether a callback got the answer that the same bytes got
// before. To the original, whose answer to them was another, they are a stranger's
// once the node has finished; here that is a promise: a ramdisk whose answer was
// lost repeats its callback, and a refusal would be final to it.
func (r *replay) repeats(line goldenLine, reply httpapi.Reply) bool {
	if line.Request.Method != http.MethodPost || line.Request.Path != "/v1/continue" {
		return false
	}
	body := string(line.Request.Body)
	first, again := r.taken[body]
	if reply.Status == http.StatusOK && !again {
		r.taken[body] = reply
	}
	return again && line.Response.Status != http.StatusOK && reply.Status == first.Status &&
		bytes.Equal(reply.Body, first.Body)
}

// trouble replaces the faults between the peers and Ironic.
func (r *replay) trouble(faults []goldenFault) {
	r.tap.Heal()
	for _, f := range faults {
		times := 1
		if f.Count != nil {
			times = *f.Count
		}
		if times == 0 {
			continue // to a tap it would mean always
		}
		answer := string(f.Body)
		if answer == "" {
			answer = `{"error_message": "{\"faultstring\": \"injected\", \"faultcode\": \"Server\", \"debuginfo\": null}"}`
		}
		r.tap.Inject(wiretap.Fault{
			Method: f.Method, Path: f.Path, Times: times, Status: f.Status, Answer: answer,
			Delay: time.Duration(f.Delay * float64(time.Second)),
		})
	}
}

// wait polls for a state and compares the answer that shows it.
func (r *replay) wait(line goldenLine) {
	line.Request.Method = http.MethodGet
	r.until(90*time.Second, func() []string {
		p, reply, err := r.send(line)
		if err != nil {
			return []string{fmt.Sprintf("asking %s: %v", p.Name, err)}
		}
		var got openstack.Report
		if err := json.Unmarshal(reply.Body, &got); err != nil {
			return []string{err.Error()}
		}
		if line.UpstreamDefect != "" && got.Finished && got.State == "error" {
			return nil // where the original is stuck
		}
		if !slices.Contains(line.Until, got.State) {
			return []string{fmt.Sprintf("%s says %q (%s), want one of %v", p.Name, got.State, got.Reason(), line.Until)}
		}
		line.Response.Headers = nil // recorded of another answer
		return r.compare(line, p, reply)
	})
}

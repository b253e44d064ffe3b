package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// Bounds of the table of machines.
const (
	pageSize    = 50
	maxQuery    = 100              // bytes of what is searched for
	maxShown    = 300              // bytes of an error in the table
	maxRowMACs  = 8                // shown of a machine
	namesAfter  = 10 * time.Second // names are read again
	namesWithin = 2 * time.Second
	tablesFor   = time.Second // a table is shown to all who want the same
	tablesMost  = 16
)

// directory has the names of nodes as Ironic gave them last. While Ironic does not
// answer the table goes on with those.
type directory struct {
	names Names
	now   func() time.Time

	mu      sync.Mutex // guards the rest
	list    []ironic.NodeName
	next    time.Time // when to ask again
	problem string    // why the newest question had no answer
}

// readNodes returns all nodes, and why the list may be old. One caller at a time asks
// Ironic; the others take what there is.
func (d *directory) readNodes(ctx context.Context) (list []ironic.NodeName, problem string) {
	d.mu.Lock()
	now := d.now()
	if now.Before(d.next) {
		defer d.mu.Unlock()
		return d.list, d.problem
	}
	d.next = now.Add(namesAfter)
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	fresh, err := d.names.All(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.problem = ""; err != nil {
		d.problem = err.Error()
	} else {
		d.list = fresh
	}
	return d.list, d.problem
}

// machine is one line of the table.
type machine struct {
	UUID     string   `json:"uuid"`
	Name     string   `json:"name,omitempty"`
	State    string   `json:"state"` // never: Ironic has the node, and it was not introspected
	Started  string   `json:"started_at,omitempty"`
	Finished string   `json:"finished_at,omitempty"`
	Error    string   `json:"error,omitempty"`
	Why      *why     `json:"why,omitempty"` // of an error
	MACs     []string `json:"macs,omitempty"`
	BMC      []string `json:"bmc,omitempty"`
	// Unexpected says that the machine is not as ordered.
	Unexpected bool `json:"unexpected,omitempty"`

	started, finished int64
	document          blobs.Hash // of the ramdisk; zero: none is stored
}

// why explains the error that an introspection ended in.
type why struct {
	Finding string `json:"finding,omitempty"` // of the boot, where the machine did not come up
	Remedy  string `json:"remedy"`
}

const neverIntrospected = "never"

// machineList is the answer.
type machineList struct {
	Total    int            `json:"total"`
	Matching int            `json:"matching"`
	States   map[string]int `json:"states"` // of all, not of those that match
	// Unexpected is how many machines are not as ordered, of all.
	Unexpected int       `json:"unexpected,omitempty"`
	Page       int       `json:"page"`
	Size       int       `json:"size"`
	Rows       []machine `json:"rows"`
	Problem    string    `json:"names_problem,omitempty"`
	Left       int       `json:"unsearched,omitempty"` // machines whose BMC address is not known yet
	StaleMS    int64     `json:"stale_for_ms"`
	Peer       string    `json:"peer"`
}

// wanted is what the table shall show.
type wanted struct {
	text   string // lower case; "": everything
	states []string
	differ bool // only machines that are not as ordered
	order  string
	desc   bool
	page   int
}

func wantedOf(q url.Values) (w wanted, err error) {
	w.text = strings.ToLower(strings.TrimSpace(q.Get("q")))
	if len(w.text) > maxQuery {
		return w, invalid("q: at most " + strconv.Itoa(maxQuery) + " bytes")
	}
	if s := q.Get("state"); s != "" {
		w.states = strings.Split(s, ",")
	}
	w.differ = q.Get("unexpected") == "1"
	w.order = cmp.Or(q.Get("sort"), "started")
	if !slices.Contains([]string{"started", "finished", "state", "name", "uuid", "error"}, w.order) {
		return w, invalid("sort: it is started, finished, state, name, uuid or error")
	}
	w.desc = q.Get("desc") == "1"
	if s := q.Get("page"); s != "" {
		if w.page, err = strconv.Atoi(s); err != nil || w.page < 0 || w.page > introspection.MaxNodes {
			return w, invalid("page: it is a number from 0")
		}
	}
	return w, nil
}

func invalid(message string) error {
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: message}
}

// machines answers from this peer's state: some milliseconds for 10,000.
func (p *Page) machines(w http.ResponseWriter, r *http.Request) error {
	want, err := wantedOf(r.URL.Query())
	if err != nil {
		return err
	}
	out, err := p.tables.Get(fmt.Sprint(want), func() (machineList, error) {
		return p.table(context.WithoutCancel(r.Context()), want), nil // others may wait for it, too
	})
	if err != nil {
		return err
	}
	return p.reply(w, r, http.StatusOK, out)
}

func (p *Page) table(ctx context.Context, want wanted) machineList {
	names, problem := p.nodes.readNodes(ctx)
	v := p.o.View()
	byBMC, left := p.book.search(v, want.text)
	out := tableOf(v, names, byBMC, want)
	out.Left = left
	p.book.addresses(v, out.Rows)
	p.explain(out.Rows)
	out.Problem, out.StaleMS, out.Peer = problem, p.o.StaleFor().Milliseconds(), p.o.Peer
	return out
}

// explain adds to the rows that ended in an error what to do about it.
func (p *Page) explain(rows []machine) {
	for i, m := range rows {
		if m.Error == "" {
			continue
		}
		rows[i].Why = &why{Remedy: api.Remedy(cmp.Or(m.Name, m.UUID), m.Error)}
		if !strings.HasPrefix(m.Error, api.TimedOut) {
			continue // it was not for its boot
		}
		if boot := p.o.Boot(m.UUID); boot != nil && len(boot.Findings) > 0 {
			rows[i].Why = &why{boot.Findings[0].Text, boot.Findings[0].Remedy}
		}
	}
}

// tableOf makes the page of the table that is wanted. byBMC are the nodes that were
// found by what their documents say.
func tableOf(v fsm.View, names []ironic.NodeName, byBMC map[string]bool, want wanted) machineList {
	out := machineList{States: make(map[string]int), Size: pageSize, Rows: []machine{}}
	byNode := make(map[string]string, len(names))
	for _, n := range names {
		byNode[n.UUID] = n.Name
	}
	like := macsLike(v, want.text)
	maps.Copy(like, byBMC)
	var rows []machine
	add := func(m machine, all []string) {
		out.Total++
		verdict, _ := v.Verdict(m.UUID)
		m.Unexpected = len(verdict.Differences) > 0
		if m.Unexpected {
			out.Unexpected++
		}
		out.States[m.State]++
		if want.takes(m, all, like) {
			rows = append(rows, m)
		}
	}
	for rec := range v.Records() { // the newest first
		add(machine{
			UUID: rec.Node, Name: byNode[rec.Node], State: rec.State.String(), Error: bounds.Excerpt(rec.Error, maxShown),
			BMC: rec.Attributes.BMC, MACs: rec.Attributes.MACs, document: rec.Unprocessed,
			Started: moment(rec.StartedMillis), Finished: moment(rec.FinishedMillis),
			started: rec.StartedMillis, finished: rec.FinishedMillis,
		}, rec.Attributes.MACs)
		delete(byNode, rec.Node)
	}
	for _, n := range names {
		if _, left := byNode[n.UUID]; left {
			add(machine{UUID: n.UUID, Name: n.Name, State: neverIntrospected}, nil)
		}
	}
	want.sort(rows)
	out.Matching = len(rows)
	out.Page = min(want.page, max(0, (len(rows)-1)/pageSize))
	first := out.Page * pageSize
	out.Rows = append(out.Rows, rows[first:min(first+pageSize, len(rows))]...)
	addMACs(v, out.Rows)
	return out
}

func moment(unixMillis int64) string {
	if unixMillis == 0 {
		return ""
	}
	return time.UnixMilli(unixMillis).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// macsLike finds the nodes with a port in Ironic whose MAC contains text.
func macsLike(v fsm.View, text string) map[string]bool {
	found := make(map[string]bool)
	if text == "" || strings.Trim(text, "0123456789abcdef:-") != "" {
		return found // it is no part of a MAC
	}
	part := strings.ReplaceAll(text, "-", ":")
	for port := range v.Ports() {
		if strings.Contains(port.MAC, part) {
			found[port.Node] = true
		}
	}
	return found
}

func (w wanted) takes(m machine, macs []string, like map[string]bool) bool {
	if len(w.states) > 0 && !slices.Contains(w.states, m.State) || w.differ && !m.Unexpected {
		return false
	}
	contains := func(s string) bool { return strings.Contains(s, w.text) }
	return w.text == "" || contains(m.UUID) || like[m.UUID] || contains(strings.ToLower(m.Name)) ||
		slices.ContainsFunc(macs, contains) || slices.ContainsFunc(m.BMC, contains)
}

// sort orders rows; equal ones stay as they came, the newest first.
func (w wanted) sort(rows []machine) {
	slices.SortStableFunc(rows, func(a, b machine) int {
		if w.desc {
			a, b = b, a
		}
		switch w.order {
		case "finished":
			return cmp.Compare(a.finished, b.finished)
		case "state":
			return cmp.Compare(a.State, b.State)
		case "name":
			return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		case "uuid":
			return cmp.Compare(a.UUID, b.UUID)
		case "error":
			return cmp.Compare(a.Error, b.Error)
		}
		return cmp.Compare(a.started, b.started)
	})
}

// addMACs adds those of Ironic's ports, and those that were heard booting, to the rows of a
// page: a record has its own only while the introspection is under way.
func addMACs(v fsm.View, rows []machine) {
	at := make(map[string]int, len(rows))
	for i, m := range rows {
		at[m.UUID] = i
		rows[i].MACs = slices.Clone(m.MACs[:min(len(m.MACs), maxRowMACs)])
	}
	for port := range v.Ports() {
		if i, shown := at[port.Node]; shown {
			rows[i].add(port.MAC)
		}
	}
	for i, m := range rows {
		track, _ := v.BootTrack(m.UUID)
		for _, step := range track.Steps {
			rows[i].add(step.MAC)
		}
	}
}

// add adds a MAC that is not there yet.
func (m *machine) add(mac string) {
	if mac != "" && len(m.MACs) < maxRowMACs && !slices.Contains(m.MACs, mac) {
		m.MACs = append(m.MACs, mac)
	}
}

package identify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

const (
	// askLimit is how long Ironic may take to settle a doubt: without a word of it
	// what is known decides.
	askLimit = 3 * time.Second
	// maxAsked bounds the nodes that Ironic is asked for, since any client can send a
	// document with the MACs of many.
	maxAsked = 4
)

// Search finds the node that a machine is. Its functions say what Ironic has of nodes; no
// answer is older than its question.
type Search struct {
	// Node says what Ironic has of a node but for its MACs; there is false if it has
	// no such node.
	Node  func(ctx context.Context, node string) (k Known, there bool, err error)
	Ports func(ctx context.Context) (Ports, error)
	BMCs  func(ctx context.Context) (BMCs, error)
}

// Timed returns the search for one request, and what that computes besides its waits for
// Ironic from now on.
func (s Search) Timed() (timed Search, computed func() time.Duration) {
	began, waited := time.Now(), time.Duration(0)
	wait := func(since time.Time) { waited += time.Since(since) }
	timed.Node = func(ctx context.Context, node string) (Known, bool, error) {
		defer wait(time.Now())
		return s.Node(ctx, node)
	}
	timed.Ports = func(ctx context.Context) (Ports, error) {
		defer wait(time.Now())
		return s.Ports(ctx)
	}
	timed.BMCs = func(ctx context.Context) (BMCs, error) {
		defer wait(time.Now())
		return s.BMCs(ctx)
	}
	return timed, func() time.Duration { return time.Since(began) - waited }
}

// Started answers with the node under introspection that a ramdisk runs on, or with the
// one whose callback it repeats. A node scores one point if any of its MACs matches and
// one if any of its BMC addresses does; the highest score wins. MACs that cannot be a
// port's count for nothing, nor does a node that the evidence excludes.
func (s Search) Started(ctx context.Context, v fsm.View, m Machine) Answer {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	score := make(map[string]int)
	count(score, v.NodesByMAC, PortMACs(m.MACs))
	count(score, v.NodesByBMC, m.BMC)
	rivals := m.rivals(v.NodesByPort)
	var found []Known
	for _, node := range slices.Sorted(maps.Keys(score)) {
		rec, _ := v.Record(node)
		found = append(found, Known{Node: node, Attributes: rec.Attributes, rival: rivals(node)})
	}
	best := 0
	found = m.fitting(found)
	for _, k := range found {
		best = max(best, score[k.Node])
	}
	found = slices.DeleteFunc(found, func(k Known) bool { return score[k.Node] < best })
	if len(found) > 1 && len(found) <= maxAsked {
		found = s.present(ctx, found)
	}
	if len(found) == 1 {
		found[0].owner = s.owner(ctx, m, found[0])
	}
	found = s.ask(ctx, &m, found)
	nodes := nodesOf(found)
	if len(found) == 1 && found[0].owner != "" { // as if that node waited as well
		nodes = append(nodes, found[0].owner)
	}
	a := among(nodes, textSeveral, m)
	if first, ok := s.first(ctx, v, m, a); ok {
		return Answer{Machine: m, Verdict: Repeated, Node: first.Node, Request: first.Delivered.Request}
	}
	return a
}

// first returns the record whose callback a document repeats. a is the answer of the
// introspections that are under way.
//
// That decides first: a machine that was enrolled again under another UUID may send the
// same bytes as before, and they belong to the introspection that waits for them. Only
// where no active node matches is the document compared with those of ended
// introspections; of these the newest delivery counts. Where several active nodes match,
// only one that has this very document already can be meant.
func (s Search) first(ctx context.Context, v fsm.View, m Machine, a Answer) (first introspection.Record, ok bool) {
	for _, node := range v.NodesByDelivery(m.Document) {
		rec, _ := v.Record(node)
		candidate := a.Verdict == None || a.Verdict == This && node == a.Node || a.Verdict == Several && rec.State.Active()
		if candidate && rec.Delivered.Request > first.Delivered.Request {
			first, ok = rec, true
		}
	}
	if !ok || first.State.Active() {
		return first, ok
	}
	// It has to come from that node still: where the node was deleted and the machine enrolled again,
	// the answer of the former node would hide what became of the present one. The record has no
	// attributes any more, so Ironic's are the evidence; an Ironic that does not say changes nothing.
	if owner := m.PortOwner(v); owner != "" && owner != first.Node {
		return first, false
	}
	k, there, err := s.Node(ctx, first.Node)
	if err != nil {
		return first, true
	}
	k.Node, k.rival = first.Node, m.rivals(v.NodesByPort)(first.Node)
	k.owner = s.owner(ctx, m, k)
	return first, there && len(m.fitting([]Known{k})) == 1
}

// fitting leaves out nodes that the evidence excludes, and notes them.
func (m *Machine) fitting(found []Known) []Known {
	w := m.weighed()
	not := slices.Clip(m.Not)
	found = slices.DeleteFunc(found, func(k Known) bool {
		against, why := weigh(w, k)
		if against >= enough && !w.not.has(k.Node) {
			not = append(not, Exclusion{k.Node, why, k.MACs})
			w.not[k.Node] = struct{}{}
		}
		return against >= enough
	})
	m.Not = not
	return found
}

// ask has Ironic settle doubts: nodes that one more thing would exclude.
func (s Search) ask(ctx context.Context, m *Machine, found []Known) []Known {
	if m.Serial != "" && len(found) <= maxAsked {
		w := m.weighed()
		for n, k := range found {
			if against, _ := weigh(w, k); against == enough-1 {
				if known, _, err := s.Node(ctx, k.Node); err == nil { // else the doubt stays
					found[n].Serial = known.Serial
				}
			}
		}
	}
	return m.fitting(found)
}

// present leaves out nodes that Ironic says it does not have: a machine that was enrolled again
// under another UUID has all in common with the former node.
func (s Search) present(ctx context.Context, found []Known) []Known {
	return slices.DeleteFunc(found, func(k Known) bool {
		_, there, err := s.Node(ctx, k.Node)
		return err == nil && !there
	})
}

// owner returns a node that has the BMC of a machine in Ironic where k has not, or, where they
// have no MAC in common, besides k; "" if there is none.
func (s Search) owner(ctx context.Context, m Machine, k Known) string {
	same := sameBMC(m.BMC, k.BMC)
	if len(routed(m.BMC)) == 0 || same && m.weighed().sharesOwn(k.MACs) {
		return ""
	}
	bmcs, err := s.BMCs(ctx)
	owners := bmcs.owners(routed(m.BMC), k.Node)
	if same { // behind a bridge or not, it is the address of both
		owners = without(bmcs.owners(routed(m.BMC), ""), []string{k.Node})
	}
	if err == nil && len(owners) > 0 {
		return owners[0]
	}
	return "" // also of an Ironic that does not say
}

// rivals reports of a node whether another one has more ports with what tells the machine.
func (m Machine) rivals(nodes func(mac string) []string) func(node string) bool {
	ports, most := make(map[string]int), 0
	for _, mac := range m.telling() {
		for _, node := range nodes(mac) {
			ports[node]++
			most = max(most, ports[node])
		}
	}
	return func(node string) bool { return most > ports[node] }
}

// count gives every node that any of the values finds one point.
func count(score map[string]int, find func(string) []string, values []string) {
	var found []string
	for _, value := range values {
		found = append(found, find(value)...)
	}
	for _, node := range unique(found) {
		score[node]++
	}
}

func nodesOf(found []Known) (nodes []string) {
	for _, k := range found {
		nodes = append(nodes, k.Node)
	}
	return nodes
}

// Sought is what Ironic's own inspection finds of a machine that sends it a document.
type Sought struct {
	Node  string // the one that the machine's ports name, "" if there is none, or several do
	Port  bool   // Ironic has a port with one of its MACs
	BMC   bool   // Ironic has a node with the address of its BMC
	Waits bool   // one of these waits for a document
}

// Sought says what Ironic has of a machine now. Ironic looks for ports with any of its MACs, and for
// the address of its BMC among the nodes that wait for a document; where it finds neither it may
// enrol the machine. Lists are read, which takes as long as they are: the caller bounds it by ctx.
func (s Search) Sought(ctx context.Context, m Machine) (found Sought, err error) {
	ports, err := s.Ports(ctx)
	if err != nil {
		return found, err
	}
	found.Node, found.Port = owner(m.telling(), ports.nodes), m.HasPort(ports.nodes)
	if found.Port || len(m.BMC) == 0 {
		return found, nil
	}
	bmcs, err := s.BMCs(ctx)
	if err != nil {
		return found, err
	}
	nodes := bmcs.owners(m.BMC, "")
	for i, node := range nodes {
		if i == maxAtBMC {
			return found, fmt.Errorf("%d nodes of Ironic have the address of the machine's BMC; %d were read, and "+
				"wait for no document", len(nodes), maxAtBMC)
		}
		known, there, err := s.Node(ctx, node)
		if err != nil {
			return found, err
		}
		found.BMC = found.BMC || there
		if found.Waits = there && known.Provision == ironic.InspectWait; found.Waits {
			return found, nil
		}
	}
	if !found.BMC {
		err = bmcs.unresolved()
	}
	return found, err
}

// maxAtBMC bounds the nodes that are read because they have the address of a machine's BMC, as those of
// a chassis have. Their number is Ironic's, and not the caller's.
const maxAtBMC = 16

// HasPort reports whether any node has a port with one of the machine's MACs. nodes finds those of a MAC in
// Ironic's lists, or in a View as of the newest pull.
func (m Machine) HasPort(nodes func(mac string) []string) bool {
	for _, mac := range m.MACs {
		if len(nodes(mac)) > 0 {
			return true
		}
	}
	return false
}

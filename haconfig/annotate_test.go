package haconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// history is a log with its state.
type history struct {
	t     *testing.T
	state *fsm.State
}

// commit applies one entry.
func (h *history) commit(header fsm.Header, c fsm.Command) fsm.Result {
	h.t.Helper()
	data, err := fsm.Encode(header, c)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.state.Apply(fsm.Entry{Index: h.state.View().Index() + 1, Term: 1, Data: data})
}

// lead returns the authority of a new leadership.
func (h *history) lead() *power {
	h.t.Helper()
	res := h.commit(fsm.Header{}, fsm.Lead{Peer: "a", Boot: "b"})
	if err := res.Err(); err != nil {
		h.t.Fatal(err)
	}
	return &power{h: h, token: res.Token}
}

// power is the authority of one leadership.
type power struct {
	h      *history
	token  fencing.Token
	tenure     // over: of every proposal and proof
	choice int // proposals
}

// Token implements leader.Authority.
func (p *power) Token() fencing.Token { return p.token }

// Propose implements leader.Authority.
func (p *power) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	if p.over != nil {
		return fsm.Result{}, p.over
	}
	p.choice++
	return p.h.commit(fsm.Header{Token: p.token}, c), nil
}

// spaces are the namespaces of a cluster.
type spaces struct {
	all     map[string]*Namespace
	volumes map[string][]string
	listed  int // volumes
	places  []Place
	placed  int // reads of places
	puts    []string
	refuse  error // of the next writes
}

// Namespaces implements Namespaces.
func (s *spaces) Namespaces(context.Context) (all []Namespace, there map[string]bool, err error) {
	there = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		n := *s.all[name]
		n.Labels, n.Annotations = maps.Clone(n.Labels), maps.Clone(n.Annotations)
		all, there[n.UID] = append(all, n), true
	}
	return all, there, nil
}

// VolumeZones implements Topology.
func (s *spaces) VolumeZones(context.Context) (map[string][]string, error) {
	s.listed++
	return s.volumes, nil
}

// Places implements Topology.
func (s *spaces) Places(context.Context) ([]Place, error) {
	s.placed++
	return append([]Place{}, s.places...), nil
}

// PutNamespace implements Namespaces.
func (s *spaces) PutNamespace(_ context.Context, n Namespace, w Written) error {
	if s.refuse != nil {
		return s.refuse
	}
	s.puts = append(s.puts, n.Name)
	set := func(of *map[string]string, to map[string]*string) {
		if *of == nil {
			*of = map[string]string{}
		}
		for key, value := range to {
			if delete(*of, key); value != nil {
				(*of)[key] = *value
			}
		}
	}
	set(&s.all[n.Name].Labels, w.Labels)
	set(&s.all[n.Name].Annotations, w.Annotations)
	return nil
}

// has is what a namespace has of ours, in words.
func (s *spaces) has(name string) string {
	n := s.all[name]
	out := []string{"consider=" + n.Labels[conventions.Names.Consider()]}
	for _, key := range []string{"failure-tolerance-type", "zones", "zone-pinning"} {
		if value, there := n.Annotations[DefaultPrefix+key]; there {
			out = append(out, key+"="+value)
		}
	}
	return strings.Join(out, " ")
}

// annotating is a site whose leader annotates.
type annotating struct {
	*spaces
	log *history
	o   AnnotatorOptions
}

func annotatingOf(t *testing.T, rules ...Rule) *annotating {
	t.Helper()
	founded, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN X"), CAKey: []byte("-----BEGIN X"),
		GossipKey: make([]byte, 32),
		Member:    membership.Member{ID: "a", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	a := &annotating{spaces: &spaces{all: map[string]*Namespace{"kube-system": {Name: "kube-system", UID: "uid-0"}}},
		log: &history{t: t, state: founded}}
	a.o = AnnotatorOptions{Cluster: "here", Census: NewCensus("here"), Namespaces: a.spaces, Topology: a.spaces,
		View: func() fsm.View { return a.log.state.View() }, Names: conventions.Names, Rules: rules,
		Never: []string{"kube-system"}, Logger: slog.New(slog.DiscardHandler)}
	return a
}

func (a *annotating) add(name string, pairs ...string) {
	n := &Namespace{Name: name, UID: "uid-" + name, Annotations: map[string]string{}, Labels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		n.Annotations[DefaultPrefix+pairs[i]] = pairs[i+1]
	}
	a.all[name] = n
}

// round is one of a leadership.
func (a *annotating) round(p *power) error {
	return Annotate(a.o)(p).Do(a.log.t.Context(), proven(p))
}

func (a *annotating) want(when, name, want string) {
	a.log.t.Helper()
	if got := a.has(name); got != want {
		a.log.t.Errorf("%s: namespace %s has %s, want %s", when, name, got, want)
	}
}

func pointer[T any](value T) *T { return &value }

// TestNamespacesAsTheTableSays has each row of the reference's table.
func TestNamespacesAsTheTableSays(t *testing.T) {
	zones := []string{"c", "b", "a"}
	a := annotatingOf(t,
		Rule{Name: "garden", Consider: true, Zones: zones},
		Rule{Name: "istio-*", Consider: true, Zones: zones, Pinning: pointer(true)},
		Rule{Name: "shoot-none", Consider: true, Tolerance: pointer(""), Zones: zones[:1]},
		Rule{Name: "shoot-node", Consider: true, Tolerance: pointer("node"), Zones: zones[1:2]},
		Rule{Labels: map[string]string{"survives": "zone"}, Consider: true, Tolerance: pointer("zone"), Zones: zones},
		Rule{Name: "off", Zones: nil},
	)
	for _, name := range []string{"garden", "istio-in", "shoot-none", "shoot-node", "labelled", "off", "nobodys"} {
		a.add(name)
	}
	a.all["labelled"].Labels["survives"] = "zone"
	lead := a.log.lead()
	if err := a.round(lead); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"garden": "consider=true zones=c,b,a", "istio-in": "consider=true zones=c,b,a zone-pinning=true",
		"shoot-none": "consider=true failure-tolerance-type= zones=c",
		"shoot-node": "consider=true failure-tolerance-type=node zones=b",
		"labelled":   "consider=true failure-tolerance-type=zone zones=a,b,c", "off": "consider=false",
		"nobodys": "consider=", "kube-system": "consider=",
	} {
		a.want("at first", name, want)
	}
	if n := len(a.puts); n != 6 || lead.choice != 3 {
		t.Errorf("%d writes, %d choices", n, lead.choice)
	}
	if err := a.round(lead); err != nil || len(a.puts) != 6 || lead.choice != 3 {
		t.Errorf("a second round writes: %v %v", a.puts, err)
	}
}

// TestZonesAreKept has another leader, another list, another tolerance, volumes and people.
func TestZonesAreKept(t *testing.T) {
	list := []string{"a", "b", "c", "d", "e"}
	a := annotatingOf(t, Rule{Name: "shop", Consider: true, Tolerance: pointer("node"), Zones: list})
	a.add("shop")
	a.volumes = map[string][]string{"shop": {"e"}, "another": {"d"}}
	lead := a.log.lead()
	a.refuse = errors.New("the API server is away")
	if err := a.round(lead); err == nil {
		t.Error("a write that failed is not told")
	}
	a.want("nothing is written", "shop", "consider=")
	c, _ := a.log.state.View().ZoneChoice("uid-shop")
	if len(c.Zones) != 1 || c.Zones[0] != "e" {
		t.Errorf("where its volumes are: %+v", c)
	}
	a.refuse, a.volumes = nil, nil
	a.o.Rules[0].Zones = []string{"x", "y", "z"} // the configuration is another by now
	lead = a.log.lead()
	if err := a.round(lead); err != nil {
		t.Error(err)
	}
	a.want("chosen-anew: by the next leader", "shop", "consider=true failure-tolerance-type=node zones=e")
	delete(a.all["shop"].Annotations, DefaultPrefix+"zones")
	_ = a.round(lead)
	a.want("taken out", "shop", "consider=true failure-tolerance-type=node zones=e")

	a.o.Rules[0].Tolerance = pointer("zone")
	if err := a.round(lead); err != nil {
		t.Error(err)
	}
	c, _ = a.log.state.View().ZoneChoice("uid-shop")
	if len(c.Zones) != 3 || !slices.Contains(c.Zones, "e") {
		t.Errorf("another tolerance: %+v", c)
	}
	a.want("another tolerance", "shop", "consider=true failure-tolerance-type=zone zones="+strings.Join(c.Zones, ","))

	puts := len(a.puts)
	a.all["shop"].Annotations[DefaultPrefix+"zones"] = "p,q,o"
	_ = a.round(lead)
	a.want("a person's word", "shop", "consider=true failure-tolerance-type=zone zones=p,q,o")
	if c, _ := a.log.state.View().ZoneChoice("uid-shop"); !slices.Equal(c.Zones, []string{"o", "p", "q"}) {
		t.Errorf("a person's word: %+v", c)
	}
	a.all["shop"].Annotations[DefaultPrefix+"zones"] = "e," + "x,y" // as was written before
	_ = a.round(lead)
	a.want("and back", "shop", "consider=true failure-tolerance-type=zone zones=e,x,y")
	if len(a.puts) != puts+1 { // what was ours is not any more
		t.Errorf("%d writes over a person's word", len(a.puts)-puts)
	}
	a.all["shop"].Annotations[DefaultPrefix+"zones"] = "e"
	if err := a.round(lead); err == nil || !strings.Contains(err.Error(), "needs 3") {
		t.Errorf("too few by hand: %v", err)
	}
	a.want("too few by hand", "shop", "consider=true failure-tolerance-type=zone zones=e")
	if len(a.log.state.View().ZoneChoices()) != 1 {
		t.Error("more was chosen")
	}
	delete(a.all, "shop")
	if err := a.round(lead); err != nil || len(a.log.state.View().ZoneChoices()) != 0 {
		t.Errorf("it is gone, and its zones are not: %v", err)
	}
}

// TestNothingIsHalfDone leaves alone what cannot be as its rule says.
func TestNothingIsHalfDone(t *testing.T) {
	a := annotatingOf(t, Rule{Name: "few", Consider: true, Tolerance: pointer("zone"), Zones: []string{"a", "b"}},
		Rule{Name: "foreign", Consider: true, Tolerance: pointer("node"), Zones: []string{"a"}},
		Rule{Name: "later", Consider: true}, Rule{Name: "well", Consider: true})
	a.add("few")
	a.add("foreign", "failure-tolerance-type", "zone")
	a.add("later")
	a.add("well")
	a.all["later"].Annotations[appliedKey] = `{"token":"18446744073709551615","values":{}}`
	err := a.round(a.log.lead())
	for _, want := range []string{"namespace few: tolerance of zone needs 3 zones, and there are 2 (a, b)",
		"namespace foreign: another client wrote", "namespace later: a later leader"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fewer-than-three: %v, want %s", err, want)
		}
	}
	a.want("too few zones", "few", "consider=")
	a.want("foreign-overwritten", "foreign", "consider= failure-tolerance-type=zone")
	a.want("of a later leader", "later", "consider=")
	a.want("the others", "well", "consider=true")
	if all := a.log.state.View().ZoneChoices(); len(all) != 0 {
		t.Errorf("chosen for what is left alone: %+v", all)
	}
	lead := a.log.lead()
	lead.over = errors.New("another leads")
	a.add("few")
	a.o.Rules[0].Zones = append(a.o.Rules[0].Zones, "c")
	puts := len(a.puts)
	if err := a.round(lead); err == nil || len(a.puts) != puts {
		t.Errorf("written without leadership: %v", err)
	}
	a.all = nil
	if err := a.round(a.log.lead()); err == nil {
		t.Error("a cluster without namespaces is taken for one")
	}
}

// TestRuleIsTakenBack has a rule that says less than before.
func TestRuleIsTakenBack(t *testing.T) {
	a := annotatingOf(t, Rule{Name: "n", Consider: true, Zones: []string{"a", "b"}, Pinning: pointer(true)})
	a.add("n", "replica-criteria", "zones")
	lead := a.log.lead()
	_ = a.round(lead)
	a.o.Rules[0] = Rule{Name: "n", Consider: false}
	if err := a.round(lead); err != nil {
		t.Error(err)
	}
	a.want("less", "n", "consider=false")
	if a.all["n"].Annotations[DefaultPrefix+"replica-criteria"] != "zones" {
		t.Error("what is not known is gone")
	}
	a.all["n"].Annotations[appliedKey] = "{"
	if err := a.round(lead); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a mark that is none: %v", err)
	}
}

// TestZonesAreSpread has many namespaces choose of three.
func TestZonesAreSpread(t *testing.T) {
	count := map[string]int{}
	for n := range 300 {
		got, err := choose(fmt.Sprintf("uid-%d", n), zones.ToleratesHost, nil, nil, []string{"a", "b", "c"})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		count[got[0]]++
	}
	for name, n := range count {
		if n < 60 || n > 140 {
			t.Errorf("zone %s was chosen %d times of 300", name, n)
		}
	}
}

// beside returns an annotator of another cluster with the same log.
func (a *annotating) beside(cluster string, rules ...Rule) *annotating {
	out := &annotating{spaces: &spaces{
		all: map[string]*Namespace{"kube-system": {Name: "kube-system", UID: "uid-0-" + cluster}}}, log: a.log, o: a.o}
	out.o.Cluster, out.o.Namespaces, out.o.Topology, out.o.Rules = cluster, out.spaces, out.spaces, rules
	return out
}

// TestClustersKeepTheirZones has two clusters with a namespace of one name. What is
// chosen for one is forgotten neither because the other does not have it, nor while one
// of the two is away.
func TestClustersKeepTheirZones(t *testing.T) {
	rule := Rule{Name: "shop", Consider: true, Tolerance: pointer("node"), Zones: []string{"s1", "s2"}}
	seed := annotatingOf(t, rule)
	seed.o.Cluster, seed.o.Census = "seed", NewCensus("seed", "shoot")
	rule.Zones = []string{"t1", "t2"}
	shoot := seed.beside("shoot", rule)
	seed.add("shop")
	shoot.add("shop")
	shoot.all["shop"].UID = "uid-of-the-other"
	both := func(p *power) {
		t.Helper()
		if err := errors.Join(seed.round(p), shoot.round(p)); err != nil {
			t.Fatal(err)
		}
	}
	chosen := func() (all []string) {
		for _, c := range seed.log.state.View().ZoneChoices() {
			all = append(all, c.UID+"="+strings.Join(c.Zones, ","))
		}
		return all
	}
	lead := seed.log.lead()
	both(lead)
	both(lead)
	first := chosen()
	if len(first) != 2 || !strings.Contains(seed.has("shop"), "zones=s") ||
		!strings.Contains(shoot.has("shop"), "zones=t") {
		t.Fatalf("zones-of-the-other-cluster: %q: %s, %s", first, seed.has("shop"), shoot.has("shop"))
	}
	delete(shoot.all, "shop")
	lead = seed.log.lead() // the shoot is away: it is not listed under this one
	if err := seed.round(lead); err != nil || !slices.Equal(chosen(), first) {
		t.Errorf("forgotten-while-away: %q, %v", chosen(), err)
	}
	both(lead)
	if err := seed.round(lead); err != nil || len(chosen()) != 1 {
		t.Errorf("it is gone, and its zones are not: %q, %v", chosen(), err)
	}
	delete(seed.all, "shop")
	both(lead)
	both(lead)
	if len(chosen()) != 0 {
		t.Errorf("%q", chosen())
	}
}

// inZones are kube nodes of a pool, one in each zone.
func inZones(pool string, system bool, zones ...string) (all []Place) {
	for _, zone := range zones {
		all = append(all, Place{zone, pool, system})
	}
	return all
}

// TestSystemZones counts zones by worker pool.
func TestSystemZones(t *testing.T) {
	for name, row := range map[string]struct {
		places []Place
		want   string
	}{
		"none":     {nil, ""},
		"no label": {inZones("", false, "", ""), ""},
		"no pools": {inZones("", false, "b", "a", "b", ""), "a,b"},
		"the pool with the most": {slices.Concat(inZones("p", true, "a", "b"), inZones("q", true, "c", "d", "e")),
			"c,d,e"},
		"two pools are not added":      {slices.Concat(inZones("p", true, "a"), inZones("q", true, "b")), "a"},
		"of system components alone":   {slices.Concat(inZones("p", false, "a", "b", "c"), inZones("q", true, "b")), "b"},
		"no label says for what it is": {slices.Concat(inZones("p", false, "a"), inZones("q", false, "b", "c")), "b,c"},
		"as many: the first by a name": {slices.Concat(inZones("q", true, "c", "d"), inZones("p", true, "a", "b")), "a,b"},
	} {
		if got := strings.Join(systemZones(row.places), ","); got != row.want {
			t.Errorf("zones-of-a-pool: %s: %q, want %q", name, got, row.want)
		}
	}
}

// TestZonesFromNodes has kube nodes come and go, and a person write another list.
func TestZonesFromNodes(t *testing.T) {
	a := annotatingOf(t, Rule{Name: "sys", Consider: true, FromNodes: true},
		Rule{Name: "in", Consider: true, FromNodes: true, Pinning: pointer(true)},
		Rule{Name: "shop", Consider: true, FromNodes: true, Tolerance: pointer("zone")}, Rule{Name: "none", Consider: true})
	for _, name := range []string{"sys", "in", "shop", "none"} {
		a.add(name)
	}
	step := func(when string, fails bool, sys, in string) {
		t.Helper()
		if err := a.round(a.log.lead()); (err != nil) != fails {
			t.Errorf("%s: %v", when, err)
		}
		a.want("zones-of-nodes: "+when, "sys", strings.TrimSpace("consider=true "+sys))
		a.want("zones-of-nodes: "+when, "in", "consider=true "+in)
		a.want(when, "none", "consider=true")
	}
	step("no Node says where it is", true, "", "zone-pinning=true")
	a.places = inZones("", false, "a")
	step("one", true, "zones=a", "zones=a zone-pinning=true")
	a.places = inZones("", false, "b", "c", "d")
	step("more", false, "zones=b,c,d", "zones=a,b,c,d zone-pinning=true")
	shop := a.has("shop")
	if shop != "consider=true failure-tolerance-type=zone zones=b,c,d" {
		t.Errorf("chosen of the Nodes: %s", shop)
	}
	a.places = inZones("", false, "x", "y")
	step("zones are lost", false, "zones=b,c,d", "zones=a,b,c,d zone-pinning=true")
	a.places = nil
	delete(a.all["sys"].Annotations, DefaultPrefix+"zones")
	step("it was taken out", false, "zones=b,c,d", "zones=a,b,c,d zone-pinning=true")
	a.all["sys"].Annotations[DefaultPrefix+"zones"], a.all["in"].Annotations[DefaultPrefix+"zones"] = "q", ""
	a.places = inZones("", false, "a", "b", "c", "d", "e")
	step("a person's word", false, "zones=q", "zones= zone-pinning=true")
	if a.has("shop") != shop {
		t.Errorf("it was chosen again: %s, was %s", a.has("shop"), shop)
	}
	lead, before := a.log.lead(), a.placed
	chore := Annotate(a.o)(lead)
	delete(a.all["sys"].Annotations, DefaultPrefix+"zones")
	for range 2 * placesFor {
		if err := chore.Do(t.Context(), proven(lead)); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.placed - before; n < 2 || n > 3 {
		t.Errorf("Nodes were read %d times in %d rounds", n, 2*placesFor)
	}
}

package haconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/zones"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

const (
	// annotateEvery is how soon a new namespace is as its rule says.
	annotateEvery = 5 * time.Second
	// placesFor is how many rounds the zones of kube nodes are used: they hardly
	// change, and there may be thousands of Nodes to read.
	placesFor = 12
)

// chooseLimit bounds one proposal.
const chooseLimit = 5 * time.Second

// Namespaces are those of a cluster.
type Namespaces interface {
	// Namespaces lists all that are not being deleted, and which UIDs there are at
	// all.
	Namespaces(ctx context.Context) (all []Namespace, there map[string]bool, err error)
	// PutNamespace writes labels and annotations, if it is still as it was read.
	PutNamespace(ctx context.Context, n Namespace, w Written) error
}

// AnnotatorOptions are the parts of the chore that annotates namespaces. All are
// required, but for Never.
type AnnotatorOptions struct {
	Cluster    string // its name
	Census     *Census
	Namespaces Namespaces
	Topology   Topology
	View       func() fsm.View
	Names      Names
	Rules      []Rule   // the first that fits a namespace counts
	Never      []string // names of namespaces that no rule is for
	Logger     *slog.Logger
}

// Annotate returns the chore that has namespaces as their rules say. Zones are
// chosen once: the log has them before the namespace does, and the next leader
// writes what it finds there. Values that another client wrote are never replaced.
// A list of zones that another client wrote counts as the leader's choice: it is
// extended if it is too short for a new tolerance, and else used as it is.
func Annotate(o AnnotatorOptions) func(leader.Authority) Chore {
	return func(a leader.Authority) Chore {
		return Chore{"annotations of namespaces", annotateEvery, (&annotator{AnnotatorOptions: o, authority: a}).round}
	}
}

// annotator annotates during one leadership.
type annotator struct {
	AnnotatorOptions
	authority leader.Authority
	places    []Place // of the kube nodes; nil: they are to be read
	used      int     // rounds since they were
}

// round looks at all namespaces once. One that cannot be as its rule says keeps none
// of the others from it.
func (a *annotator) round(ctx context.Context, write Write) error {
	if a.used++; a.used >= placesFor {
		a.places = nil
	}
	all, there, err := a.Namespaces.Namespaces(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("the API server knows of no namespace at all, which cannot be")
	}
	a.Census.keepUIDs(a.Cluster, a.authority.Token(), there)
	volumes := &volumeZones{of: a.Topology}
	var failed []error
	for _, n := range all {
		at := slices.IndexFunc(a.Rules, func(r Rule) bool { return r.fits(n) })
		if at < 0 || slices.Contains(a.Never, n.Name) {
			continue
		}
		if err := a.annotateNamespace(ctx, n, a.Rules[at], volumes, write); err != nil {
			failed = append(failed, fmt.Errorf("namespace %s: %w", n.Name, err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	failed = append(failed, a.sweep(ctx)...)
	return errors.Join(failed[:min(len(failed), 5)]...) // a line in the log shall not have thousands
}

// sweep forgets the zones of namespaces that are in no cluster any more. The choices
// are read before the census is asked: a namespace for which one was made since was
// noted before that.
func (a *annotator) sweep(ctx context.Context) (failed []error) {
	if a.Cluster != a.Census.clusters[0] { // one of them does it, so that no two forget the same choice
		return nil
	}
	for _, c := range a.View().ZoneChoices() {
		if !a.Census.isGone(a.authority.Token(), c.UID) {
			continue
		}
		if _, err := a.commit(ctx, zones.Choose{UID: c.UID, Namespace: c.Namespace, Replaces: c.Chosen}); err != nil {
			failed = append(failed, fmt.Errorf("namespace %s, which is gone: %w", c.Namespace, err))
		}
	}
	return failed
}

// annotateNamespace has one namespace as its rule says, or says why it is not. The zones come
// last, so that nothing is chosen for a namespace that is left alone.
func (a *annotator) annotateNamespace(ctx context.Context, n Namespace, r Rule, volumes *volumeZones,
	write Write) error {
	wishes := r.wishes(a.Names)
	if _, _, err := plan(n, wishes, a.authority.Token()); err != nil {
		return err
	}
	zones, err := a.zones(ctx, n, r, volumes)
	if err != nil {
		return err
	}
	w, differs, err := plan(n, append(wishes, zones), a.authority.Token())
	if err != nil || !differs {
		return err
	}
	if err := write(ctx, func(ctx context.Context) error { return a.Namespaces.PutNamespace(ctx, n, w) }); err != nil {
		return err
	}
	a.Logger.Info("namespace annotated", "namespace", n.Name, "keys", slices.Sorted(maps.Keys(w.Annotations)))
	return nil
}

// zones are what the namespace's list of zones shall be.
func (a *annotator) zones(ctx context.Context, n Namespace, r Rule, volumes *volumeZones) (wish, error) {
	w := wish{key: a.Names.Zones()}
	if r.Tolerance == nil && r.FromNodes {
		return a.fromNodes(ctx, n, r)
	}
	if r.Tolerance == nil {
		if len(r.Zones) > 0 {
			list := strings.Join(r.Zones, ",")
			w.value = &list
		}
		return w, nil
	}
	has := distinct(strings.Split(n.Annotations[w.key], ","))
	chosen, err := a.chosen(ctx, n, r, has, volumes)
	if err != nil {
		return w, err
	}
	list := strings.Join(chosen, ",")
	if slices.Equal(has, chosen) {
		list = n.Annotations[w.key] // in whichever order
	}
	w.value, w.any = &list, true
	return w, nil
}

// fromNodes is a list of zones that neither the rule nor a person wrote. What was
// written once is kept: a kube node that is gone takes no zone away, and a list gives
// way to a longer one alone. One that pins pods is only added to.
func (a *annotator) fromNodes(ctx context.Context, n Namespace, r Rule) (wish, error) {
	w := wish{key: a.Names.Zones()}
	mark, err := appliedTo(n)
	if err != nil {
		return w, err
	}
	has, there := n.Annotations[w.key]
	if there && !mark.is(w.key, has) {
		w.value = &has // a person's word
		return w, nil
	}
	places, err := a.placesNow(ctx)
	if err != nil {
		return w, err
	}
	kept, found := distinct(strings.Split(mark.Values[w.key], ",")), systemZones(places)
	if len(found) > len(kept) {
		if r.Pinning != nil && *r.Pinning {
			found = distinct(append(found, kept...))
		}
		kept = found
	}
	if len(kept) == 0 {
		return w, nil // no Node says where it is
	}
	list := strings.Join(kept, ",")
	if slices.Equal(distinct(strings.Split(has, ",")), kept) {
		list = has // in whichever order
	}
	w.value = &list
	return w, nil
}

// placesNow are where the kube nodes are.
func (a *annotator) placesNow(ctx context.Context) (_ []Place, err error) {
	if a.places == nil {
		if a.places, err = a.Topology.Places(ctx); err != nil {
			return nil, err
		}
		a.used = 0
	}
	return a.places, nil
}

// candidates are the zones from which those of a namespace are chosen.
func (a *annotator) candidates(ctx context.Context, r Rule) ([]string, error) {
	if !r.FromNodes {
		return r.Zones, nil
	}
	places, err := a.placesNow(ctx)
	return zonesOf(places), err
}

// chosen are the zones that the log has for a namespace, after it has been told of
// what it does not know.
func (a *annotator) chosen(ctx context.Context, n Namespace, r Rule, has []string, volumes *volumeZones) ([]string,
	error) {
	t := r.tolerance()
	before, known := a.View().ZoneChoice(n.UID)
	c := zones.Choose{UID: n.UID, Namespace: n.Name, Tolerance: t, Replaces: before.Chosen}
	switch mark, err := appliedTo(n); {
	case err != nil:
		return nil, err
	case !known || before.Tolerance != t:
		if len(has) == 0 {
			has = before.Zones
		}
		where, err := volumes.in(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		list, err := a.candidates(ctx, r)
		if err != nil {
			return nil, err
		}
		if c.Zones, err = choose(n.UID, t, has, where, list); err != nil {
			return nil, err
		}
	case len(has) == 0, slices.Equal(has, before.Zones), mark.is(a.Names.Zones(), n.Annotations[a.Names.Zones()]):
		return before.Zones, nil
	case len(has) < t.Zones():
		return nil,
			fmt.Errorf("another client wrote the zones %s, and tolerance of %v needs %d: add some, or remove the annotation",
				strings.Join(has, ", "), t, t.Zones())
	default: // another client chose other zones
		c.Zones = has
	}
	return a.commit(ctx, c)
}

// commit puts a choice into the log and returns it.
func (a *annotator) commit(ctx context.Context, c zones.Choose) ([]string, error) {
	if err := a.View().Admits(c); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, chooseLimit)
	defer cancel()
	res, err := a.authority.Propose(ctx, c)
	if err == nil {
		err = res.Err()
	}
	return c.Zones, err
}

// volumeZones are where volumes are, read once in a round, if at all.
type volumeZones struct {
	of   Topology
	read map[string][]string
}

func (v *volumeZones) in(ctx context.Context, namespace string) (zones []string, err error) {
	if v.read == nil {
		if v.read, err = v.of.VolumeZones(ctx); err != nil {
			return nil, err
		}
	}
	return v.read[namespace], nil
}

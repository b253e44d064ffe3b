package fence

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// Options of a List.
type Options struct {
	// Clusters are the names of the Kubernetes clusters. With more than one, each
	// machine in the file says to which it belongs. None: names are not checked.
	Clusters []string
	// Ironic is nil where there is none; then the file may not ask for it.
	Ironic Ironic
	// InUse says for what a node's machine is used that would break without power, "" for nothing; by
	// its UUID in Ironic. An error holds nothing. nil: never.
	InUse func(ctx context.Context, uuid string) (why string, err error)
	// Limits are those of devices that write none themselves.
	Limits Limits
	// Lookup resolves the host names of devices, to find two names of one machine.
	// nil is the host's resolver.
	Lookup func(ctx context.Context, host string) (addresses []string, err error)
	Logger *slog.Logger
}

// List is what the file says. It may be used concurrently.
type List struct {
	devices []*device
	clients []*http.Client
}

var _ failover.Fences = (*List)(nil)

// Open reads the file and everything that it names, and asks no device anything. The
// host names in it are resolved within lookupLimit; one that is not is compared as
// it is written.
// What is wrong with the file is a config.Problems, with all there is to say. The
// caller closes the list.
func Open(file string, o Options) (*List, error) {
	text, _, err := bounds.ReadFile(file, config.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("failover.fence_file: %w", err)
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupHost
	}
	specs, problems := parse(file, text, o)
	l := &List{}
	for _, s := range specs {
		d, wrong := s.open(l, o)
		l.devices = append(l.devices, d)
		for _, w := range wrong {
			problems = append(problems,
				config.Problem{Where: config.Origin{Kind: config.FromFile, Name: file, Line: w.line}, Key: s.key(w.option),
					What: w.what, Do: w.do})
		}
	}
	if len(problems) > 0 {
		l.Close()
		return nil, problems
	}
	return l, nil
}

// Files returns the files that the devices of a file name. It is empty where the file
// cannot be read.
func Files(file string) []config.File {
	text, _, err := bounds.ReadFile(file, config.MaxFile)
	if err != nil {
		return nil
	}
	var all []config.File
	specs, _ := parse(file, text, Options{})
	for _, s := range specs {
		for option, path := range s.files {
			at := config.Origin{Kind: config.FromFile, Name: file, Line: s.lineOf(option)}
			all = append(all, config.File{Key: s.key(option), Where: at, Path: path, Leads: true})
		}
	}
	slices.SortStableFunc(all, func(a, b config.File) int { return cmp.Compare(a.Where.Line, b.Where.Line) })
	return all
}

// For implements failover.Fences.
func (l *List) For(m failover.Machine) []failover.Device {
	var found []failover.Device
	groups := make(map[string]*group)
	for _, d := range l.devices {
		switch _, ok := d.reaches(m); {
		case !ok:
		case d.group == "":
			found = append(found, d)
		case groups[d.group] != nil:
			groups[d.group].members = append(groups[d.group].members, d)
		default:
			g := &group{name: d.group, members: []*device{d}}
			groups[d.group], found = g, append(found, g)
		}
	}
	return found
}

// Close ends the connections that carry no call.
func (l *List) Close() {
	for _, c := range l.clients {
		c.CloseIdleConnections()
	}
}

// mishap is what is wrong with this host rather than with the file's text.
type mishap struct {
	line             int
	option, what, do string
}

// mishap says what is wrong with the host as to one option.
func (s *spec) mishap(option, what, do string) mishap {
	return mishap{s.lineOf(option), option, what, do}
}

// password is that of the device; empty for one without.
func (s *spec) password() servicecreds.Password {
	return servicecreds.Password{File: s.passwordFile, Option: s.key("password_file"), Reads: new(bounds.Calls)}
}

// open makes the device. What is wrong is told together with the rest.
func (s *spec) open(l *List, o Options) (d *device, wrong []mishap) {
	d = &device{
		name: s.name, kind: s.kind.name, group: s.group, limits: s.limits, nodes: make(map[string]address),
		everyone: !s.written("nodes"), clusters: len(o.Clusters), log: o.Logger,
	}
	for _, n := range s.nodes {
		d.nodes[n.name] = n.address
	}
	if _, err := s.password().Read(); err != nil {
		wrong = append(wrong, s.mishap("password_file", err.Error(), "write the password into it, readable for trivet alone"))
	}
	method, more := s.kind.open(s, l, o)
	d.method = method
	return d, append(wrong, more...)
}

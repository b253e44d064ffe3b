package work

import (
	"context"
	"errors"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Discovery makes a node of an unknown machine (docs/contract.md#discovery). It must not make
// two of one machine, whichever peers die and however often the ramdisk repeats itself, and
// Ironic offers no lock for that. So the node's UUID is made of the machine's MACs: each peer
// that discovers the machine computes the same one. A record with that UUID and these MACs is
// committed first, so that later data of the machine belongs to the record; a worker then
// creates the node under the record's claim. One that does it again, because the last was
// lost, gets Ironic's refusal that the UUID is taken.

// keyDiscovered tells the hooks and rules of a discovered machine.
const keyDiscovered = "auto_discovered"

// enrolled is the node that is made of a discovered machine.
func enrolled(node string, m identify.Machine, conf config.Discovery) ironic.NewNode {
	n := ironic.NewNode{UUID: node, Driver: conf.EnrollNodeDriver, DriverInfo: make(map[string]any),
		Fields: make(map[string]string)}
	if address := m.Address(conf.EnabledBMCAddressVersion); address != "" {
		n.DriverInfo[identify.FirstBMCField] = address
	}
	for _, field := range conf.EnrollNodeFields {
		name, value, _ := strings.Cut(field, ":")
		n.Fields[name] = value
	}
	return n
}

// enroll creates the node of a discovered machine in Ironic, unless it is there
// because a worker before this one was lost. A *Problem says why it must not be.
func (j *job) enroll(ctx context.Context, v fsm.View, rec introspection.Record, data *document.Document) error {
	m := identify.Of(data)
	found, err := j.pool.search.InIronic(ctx, m)
	if err != nil {
		return j.enrollError(err)
	}
	if rival := found.Elder(v, rec); rival != "" {
		return document.Failed("Node %s is being made of a machine with the same MACs or BMC address", rival)
	}
	if err := found.Rival(rec.Node, rec.Attributes.MACs); err != nil {
		return j.enrollError(err)
	}
	_, err = j.pool.o.Ironic.CreateNode(ctx, enrolled(rec.Node, m, j.by.Config.Discovery))
	if errors.Is(err, ironic.ErrNodeExists) {
		j.log.Info("node of discovered machine exists already")
		return nil
	}
	if err == nil {
		j.log.Info("node created for discovered machine")
	}
	if errors.Is(err, ironic.ErrNoDriver) {
		return document.Failed("%v; set inspection.discovery.enroll_node_driver, or enable the driver in Ironic", err)
	}
	return j.enrollError(err)
}

// enrollError makes a failure of what Ironic refuses, and leaves what is no
// verdict, an Ironic that is away above all, as it is.
func (j *job) enrollError(err error) error {
	if said, ok := errors.AsType[*ironic.Error](err); ok && !ironic.Unjudged(err) &&
		!errors.Is(err, ironic.ErrNotAllowed) && !errors.Is(err, context.Canceled) {
		return document.Failed("%v", said)
	}
	return err
}

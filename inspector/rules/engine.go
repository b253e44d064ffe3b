package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// decideLimit is how long the conditions of all rules may take together. Those
// of 100 rules take a few milliseconds.
const decideLimit = 10 * time.Second

// Engine runs the rules of the replicated state. It is an inspector.Rules; its
// methods may be called concurrently.
type Engine struct {
	limit time.Duration // decideLimit, but in tests

	mu       sync.Mutex
	version  ruleset.Version // of compiled
	compiled []rule          // shared, never changed
}

// NewEngine returns an engine.
func NewEngine() *Engine { return &Engine{limit: decideLimit} }

// run is one application of the rules. It belongs to one goroutine.
type run struct {
	task  *inspector.Task
	data  *document.Value              // the document, nil until its first use
	whole *document.Value              // the node, nil until its first use, or when it is old
	found map[string][]*document.Value // by paths in the data: rules ask for the same fields
}

// Bounds of what a run remembers of its searches.
const (
	maxRemembered      = 1000 // paths
	maxRememberedFound = 1000 // values that one of them found
)

// find searches for a field.
func (r *run) find(ctx context.Context, f field) ([]*document.Value, error) {
	if f.ofNode {
		node, err := r.node(ctx)
		if err != nil {
			return nil, err
		}
		return find(ctx, f.path, node)
	}
	if values, known := r.found[f.text]; known {
		return values, nil
	}
	values, err := find(ctx, f.path, r.document())
	if err == nil && len(r.found) < maxRemembered && len(values) <= maxRememberedFound {
		r.found[f.text] = values
	}
	return values, err
}

// Apply implements inspector.Rules. In a first phase it decides which rules
// apply, in a second it does what they say: no rule sees what another one wrote.
func (e *Engine) Apply(ctx context.Context, v fsm.View, t *inspector.Task) error {
	rules := e.rules(v, t.Log)
	r := &run{task: t, found: make(map[string][]*document.Value)}
	chosen, err := e.choose(ctx, r, rules)
	if err != nil {
		return err
	}
	r.whole = nil
	for _, rule := range chosen {
		t.Log.Debug("rule applies", "rule", rule.name)
		for _, a := range rule.actions {
			if err := a.do(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// rules returns the rules of a view, compiled once for each version. One that
// another version stored and this one refuses is among them: it fails where it is
// due.
func (e *Engine) rules(v fsm.View, log *slog.Logger) []rule {
	e.mu.Lock()
	defer e.mu.Unlock()
	if version := v.RulesVersion(); version != e.version {
		var compiled []rule
		for stored := range v.Rules() {
			r, err := load(stored.Body)
			if err != nil {
				r.unusable = document.Failed(
					"Rule %s cannot be used by this version of Trivet: %v. Create a rule without that, and delete this one",
					stored.UUID, err)
				log.Warn("rule cannot be used by this version; introspections of the nodes in its scope fail", "rule", stored.UUID,
					"err", err)
			}
			if r.name == "" {
				r.name = stored.UUID
			}
			compiled = append(compiled, r)
		}
		e.version, e.compiled = version, compiled
	}
	return e.compiled
}

// choose returns the rules that apply.
func (e *Engine) choose(ctx context.Context, r *run, rules []rule) (chosen []*rule, err error) {
	began, left := time.Now(), e.limit
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := time.AfterFunc(left, cancel)
	defer clock.Stop()
	for i := range rules {
		rule := &rules[i]
		if rule.scope != "" && rule.scope != r.task.Node().Properties["inspection_scope"] {
			continue
		}
		if rule.unusable != nil {
			return nil, rule.unusable
		}
		if rule.ofNode && r.whole == nil {
			clock.Stop() // how long Ironic takes is not the rules' fault
			left -= time.Since(began)
			if _, err := r.node(ctx); err != nil {
				return nil, err
			}
			began = time.Now()
			clock.Reset(left)
		}
		holds, err := rule.holds(limited, r)
		if time.Since(began) >= left && ctx.Err() == nil {
			return nil, document.Failed("The conditions of the rules take longer than %v, at the latest with rule %s", e.limit,
				rule.name)
		}
		if err != nil {
			return nil, err
		}
		if holds {
			chosen = append(chosen, rule)
		}
	}
	return chosen, nil
}

// holds decides about the conditions.
func (rule *rule) holds(ctx context.Context, r *run) (bool, error) {
	for _, c := range rule.conditions {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if holds, err := c.holds(ctx, r); err != nil || !holds {
			return false, err
		}
	}
	return true, nil
}

// document is the data that was processed.
func (r *run) document() *document.Value {
	if r.data == nil {
		r.data = document.Bounded(r.task.Data.JSON())
	}
	return r.data
}

// node is all of the node, asked for once as long as nothing changes it.
func (r *run) node(ctx context.Context) (*document.Value, error) {
	if r.whole != nil {
		return r.whole, nil
	}
	whole, err := r.task.Ironic.NodeWhole(ctx, r.task.Node().UUID)
	if err != nil {
		return nil, err
	}
	r.whole, err = spelled(whole)
	return r.whole, err
}

// renamed is what openstacksdk calls a node's attributes that it does not call
// as Ironic does.
var renamed = map[string]string{
	"uuid": "id", "allocation_uuid": "allocation_id", "chassis_uuid": "chassis_id", "instance_uuid": "instance_id",
	"portgroups": "port_groups", "automated_clean": "is_automated_clean_enabled", "console_enabled": "is_console_enabled",
	"maintenance": "is_maintenance", "protected": "is_protected", "retired": "is_retired", "secure_boot": "is_secure_boot",
}

// kept is what openstacksdk calls as Ironic does, newer versions included. What
// stands in neither list it does not show.
var kept = [...]string{
	"owner", "boot_mode", "clean_step", "conductor", "conductor_group", "created_at", "deploy_step", "description",
	"driver",
	"driver_info", "driver_internal_info", "extra", "fault", "instance_info", "instance_name", "last_error", "lessee",
	"links",
	"maintenance_reason", "name", "parent_node", "ports", "power_state", "properties", "protected_reason",
	"provision_state",
	"retired_reason", "raid_config", "reservation", "resource_class", "runbook", "service_step", "shard", "states",
	"target_provision_state", "target_power_state", "target_raid_config", "traits", "updated_at",
	"bios_interface", "boot_interface", "console_interface", "deploy_interface", "firmware_interface", "inspect_interface",
	"management_interface", "network_interface", "power_interface", "raid_interface", "rescue_interface",
	"storage_interface",
	"vendor_interface",
}

// newer is what openstacksdk 0.101 does not know. Of the rest, what Ironic does not
// tell is null; of these it is not there.
var newer = map[string]bool{
	"description": true, "instance_name": true, "lessee": true, "parent_node": true, "runbook": true, "service_step": true,
	"shard": true, "firmware_interface": true,
}

// spelled makes the node as rules see it of what Ironic tells.
func spelled(whole map[string]any) (*document.Value, error) {
	node := make(map[string]any, len(kept)+len(renamed))
	for ironic, sdk := range renamed {
		node[sdk] = whole[ironic] // nil: null
	}
	for _, name := range kept {
		if told, there := whole[name]; there || !newer[name] {
			node[name] = told
		}
	}
	node["location"] = nil
	raw, err := json.Marshal(node) // in the order of names, so that it is the same on all peers
	if err != nil {
		return nil, fmt.Errorf("the node in Ironic: %w", err)
	}
	return document.Bounded(raw), nil
}

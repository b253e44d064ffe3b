package haconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// Namespace is one of a cluster, as it was read.
type Namespace struct {
	Name, UID, Version  string
	Labels, Annotations map[string]string
}

// Rule says what namespaces have.
type Rule struct {
	Name   string            // a '*' at its end stands for anything; "": any name
	Labels map[string]string // that they have
	// Consider is the label that has their components looked after.
	Consider bool
	// Tolerance is what their components survive; nil: nothing is said of it, and the
	// zones are written as they are. Else they are what is chosen from.
	Tolerance *string
	Zones     []string
	FromNodes bool  // the zones are those of the kube nodes, and Zones is empty
	Pinning   *bool // nil: nothing is said of it
}

// fits reports whether a rule is for a namespace.
func (r Rule) fits(n Namespace) bool {
	return matchesName(r.Name, n.Name) && hasLabels(n.Labels, r.Labels)
}

// tolerance is the rule's, in the words of the log.
func (r Rule) tolerance() zones.Tolerance {
	switch *r.Tolerance {
	case "":
		return zones.ToleratesNothing
	case zone:
		return zones.ToleratesZone
	}
	return zones.ToleratesHost
}

// Written are labels and annotations as they shall be; nil: gone.
type Written struct {
	Labels, Annotations map[string]*string
}

// applied is what was written of a namespace, and under which token. It is an
// annotation of the namespace itself, written with the rest: a value that is still
// the same as there is ours, any other is another client's.
type applied struct {
	Token  fencing.Token     `json:"token"`
	Values map[string]string `json:"values"` // by the key of the label or annotation
}

// appliedKey is its name.
const appliedKey = "trivet.dev/haconfig"

func appliedTo(n Namespace) (a applied, err error) {
	text, there := n.Annotations[appliedKey]
	if !there {
		return applied{Values: map[string]string{}}, nil
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Values == nil {
		return a, fmt.Errorf("its annotation %s is not ours (%w): remove it", appliedKey, err)
	}
	return a, nil
}

// is reports whether a key has what was written.
func (a applied) is(key, value string) bool {
	was, ours := a.Values[key]
	return ours && was == value
}

// wish is one key as a rule wants it.
type wish struct {
	key   string
	label bool
	value *string // nil: none of ours
	any   bool    // another client's value was taken into account, and may be replaced
}

// wishes are all keys of a namespace, but for the zones.
func (r Rule) wishes(n Names) []wish {
	text := func(on bool) *string {
		s := strconv.FormatBool(on)
		return &s
	}
	all := []wish{{key: n.Consider(), label: true, value: text(r.Consider)}, {key: n.Tolerance(), value: r.Tolerance},
		{key: n.Pinning()}}
	if r.Pinning != nil {
		all[2].value = text(*r.Pinning)
	}
	return all
}

// plan returns what is to be written so that a namespace is as wished, and whether
// anything is. A different value that another client wrote is an error, and nothing
// is written then: a namespace is as its rule says, or left alone.
func plan(n Namespace, wishes []wish, token fencing.Token) (w Written, differs bool, err error) {
	before, err := appliedTo(n)
	if err != nil {
		return w, false, err
	}
	if before.Token > token {
		return w, false, fmt.Errorf("a later leader has written it, with token %v", before.Token)
	}
	w = Written{Labels: map[string]*string{}, Annotations: map[string]*string{}}
	after := applied{Token: token, Values: maps.Clone(before.Values)}
	for _, wish := range wishes {
		of, to := n.Annotations, w.Annotations
		if wish.label {
			of, to = n.Labels, w.Labels
		}
		has, there := of[wish.key]
		ours := there && before.is(wish.key, has)
		switch {
		case wish.value == nil && ours:
			to[wish.key], differs = nil, true
			delete(after.Values, wish.key)
		case wish.value == nil || there && has == *wish.value: // nothing is ours to do
			if _, was := after.Values[wish.key]; was && !ours {
				delete(after.Values, wish.key) // another client has changed it since
				differs = true
			}
		case there && !ours && !wish.any:
			return Written{}, false, fmt.Errorf(
				"another client wrote %s=%q, and its rule says %q: remove it there, or change haconfig.namespaces", wish.key, has,
				*wish.value)
		default:
			to[wish.key], differs = wish.value, true
			after.Values[wish.key] = *wish.value
		}
	}
	text, err := json.Marshal(after)
	if err != nil {
		return Written{}, false, err
	}
	mark := string(text)
	w.Annotations[appliedKey] = &mark
	return w, differs, nil
}

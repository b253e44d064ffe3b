package ironic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// ErrOutcomeUnknown says that Ironic may have done what a call asked for, or not, and that the
// call must not be sent again, by this peer or by another one.
var ErrOutcomeUnknown = errors.New("the outcome of the call is unknown")

// PatchNode implements inspector.NodeClient.
func (c *Client) PatchNode(ctx context.Context, node string, patch []Patch) (Node, error) {
	return c.now.Load().patchNode(ctx, node, "", patch)
}

// PatchDriver implements inspector.NodeClient.
func (c *Client) PatchDriver(ctx context.Context, node string, patch []Patch) (Node, error) {
	return c.now.Load().patchNode(ctx, node, "?reset_interfaces=True", patch)
}

// patchNode patches a node. A patch is sent again when its answer is lost, which must not show:
// one that changes a list by position is not, since the repeat would append the same twice,
// and one that removes is done when the repeat finds nothing to remove and all as it shall be.
func (l *line) patchNode(ctx context.Context, node, rest string, patch []Patch) (Node, error) {
	k, err := nodeCall(http.MethodPatch, node, rest)
	if err != nil {
		return Node{}, err
	}
	k.body, k.once = patch, slices.ContainsFunc(patch, Patch.positional)
	n, err := l.oneNode(ctx, k)
	if slices.ContainsFunc(patch, Patch.choosesDriver) {
		err = l.driverJudged(ctx, err)
	}
	failed, _ := errors.AsType[*Error](err) // nil: it succeeded
	switch {
	case failed == nil:
	case k.once && Unknown(failed):
		return n, &Error{Call: failed.Call, Status: failed.Status, Err: errors.Join(ErrOutcomeUnknown, failed.Err),
			Message: cut(failed.Message + "; Ironic may have carried it out, and a patch by places in a list is not " +
				"sent again: look whether the node has the value, then inspect it again")}
	case failed.Status == http.StatusBadRequest && !k.once && slices.ContainsFunc(patch, Patch.removes):
		if patched, done := l.patched(ctx, node, patch); done {
			return patched, nil
		}
	}
	return n, err
}

// positional reports whether the operation adds to a list, or removes from one, by position: a
// second time it would add another element, or remove the next one.
func (p Patch) positional() bool {
	last := p.Path[strings.LastIndexByte(p.Path, '/')+1:]
	return p.Op != "replace" && last != "" && strings.Trim(last, "-0123456789") == ""
}

// choosesDriver reports whether the operation decides which conductors may serve the node.
func (p Patch) choosesDriver() bool {
	field := strings.Trim(p.Path, "/")
	return field == "driver" || field == "conductor_group"
}

func (p Patch) removes() bool { return p.Op == "remove" }

// patched reads a node, and reports whether all is there that a patch sets, and nothing that it removes.
func (l *line) patched(ctx context.Context, node string, patch []Patch) (n Node, done bool) {
	_, raw, err := l.ask(ctx, node, "")
	if err != nil {
		return Node{}, false
	}
	var whole map[string]any
	if n, err = decodeNode(raw); err != nil || json.Unmarshal(raw, &whole) != nil {
		return Node{}, false
	}
	return n, !slices.ContainsFunc(patch, func(p Patch) bool { return !p.done(whole) })
}

// done reports whether a node is as the operation leaves it. What is in a list, or in nothing,
// is not told.
func (p Patch) done(node map[string]any) bool {
	steps := strings.Split(strings.TrimPrefix(p.Path, "/"), "/")
	for i, step := range steps {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		value, there := node[step]
		if i == len(steps)-1 {
			return there != p.removes() && (!there || sameJSON(value, p.Value))
		}
		if node, there = value.(map[string]any); !there {
			return false
		}
	}
	return false
}

// sameJSON reports whether a value that was read is one that was written.
func sameJSON(read, written any) bool {
	raw, err := json.Marshal(written)
	if err != nil {
		return false
	}
	var again any
	return json.Unmarshal(raw, &again) == nil && reflect.DeepEqual(read, again)
}

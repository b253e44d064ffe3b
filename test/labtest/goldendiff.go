//go:build e2e

package labtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
)

// decodeExact decodes JSON and keeps numbers as they were written.
func decodeExact(text []byte, out any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(out)
}

// compare holds an answer against the recorded one, and learns the UUIDs that
// this server chose.
func (r *replay) compare(line goldenLine, p *Peer, reply httpapi.Reply) (diffs []string) {
	want := line.Response
	if reply.Status != want.Status {
		diffs = append(diffs, fmt.Sprintf("status %d of %s, want %d: %s", reply.Status, p.Name, want.Status, reply.Body))
	}
	diffs = append(diffs, compareHeaders(line, reply)...)
	if want.Body == nil {
		return diffs
	}
	var got any
	if err := decodeExact(reply.Body, &got); err != nil {
		return append(diffs, fmt.Sprintf("the body is no JSON: %v: %q", err, reply.Body))
	}
	expected := rebase(want.Body, "http://"+p.API)
	skip := slices.Concat(line.Volatile, line.Loose, slices.Collect(maps.Keys(line.Regex)))
	diffs = append(diffs, difference("", expected, got, skip)...)
	for at, expression := range line.Regex {
		if value := pointed(got, at); value != nil && !regexp.MustCompile(expression).MatchString(fmt.Sprint(value)) {
			diffs = append(diffs, fmt.Sprintf("%s is %v, which does not match %s", at, value, expression))
		}
	}
	for _, at := range line.Volatile {
		was, is := pointed(expected, at), pointed(got, at)
		if fmt.Sprintf("%T", was) != fmt.Sprintf("%T", is) {
			diffs = append(diffs, fmt.Sprintf("%s is a %T, want a %T", at, is, was))
			continue
		}
		if text, ok := was.(string); ok && uuid.Validate(text) == nil {
			r.known[text] = is.(string)
		}
	}
	return diffs
}

// mended looks whether an answer is what the original should have given where
// it has a bug: the note names one status or two, or says "same", and the body
// is always JSON with a message.
func mended(line goldenLine, reply httpapi.Reply) (diffs []string) {
	allowed := regexp.MustCompile(`\b[2-5][0-9][0-9]\b`).FindAllString(line.UpstreamDefect, -1)
	if len(allowed) == 0 {
		allowed = []string{strconv.Itoa(line.Response.Status)}
	}
	if !slices.Contains(allowed, strconv.Itoa(reply.Status)) {
		diffs = append(diffs, fmt.Sprintf("status %d, want %s: %s", reply.Status, line.UpstreamDefect, reply.Body))
	}
	var body struct{ Error struct{ Message string } }
	if err := json.Unmarshal(reply.Body, &body); reply.Status >= 400 && (err != nil || body.Error.Message == "") {
		diffs = append(diffs, fmt.Sprintf("the body is no JSON with a message: %q", reply.Body))
	}
	return diffs
}

// compareHeaders compares those that were recorded. The length goes with the
// body; the type's parameters are a matter of taste.
func compareHeaders(line goldenLine, reply httpapi.Reply) (diffs []string) {
	for _, name := range slices.Sorted(maps.Keys(line.Response.Headers)) {
		want, got := line.Response.Headers[name], reply.Header.Get(name)
		switch {
		case name == "content-length", slices.Contains(line.VolatileHeaders, name):
			continue
		case name == "content-type" && line.Response.Body != nil:
			want, _, _ = strings.Cut(want, ";")
			got, _, _ = strings.Cut(got, ";")
		case slices.Contains(line.SetHeaders, name):
			want, got = sortedList(want, ", "), sortedList(got, ", ")
		}
		if want != got {
			diffs = append(diffs, fmt.Sprintf("header %s is %q, want %q", name, got, want))
		}
	}
	return diffs
}

func sortedList(text, separator string) string {
	words := strings.Split(text, separator)
	slices.Sort(words)
	return strings.Join(words, separator)
}

// rebase puts the address that was asked where the recording has {base}.
func rebase(value any, base string) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, "{base}", base)
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = rebase(item, base)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, item := range value {
			out[key] = rebase(item, base)
		}
		return out
	default:
		return value
	}
}

// pointed returns what a JSON pointer points at, nil if nothing.
func pointed(value any, pointer string) any {
	for _, key := range strings.Split(pointer, "/")[1:] {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			value = in[i]
		default:
			return nil
		}
	}
	return value
}

// difference lists where got is not want, as JSON pointers with both values.
// What lies at or under a pointer of skip is not looked at.
func difference(at string, want, got any, skip []string) (diffs []string) {
	for _, s := range skip {
		if at == s || strings.HasPrefix(at, s+"/") {
			return nil
		}
	}
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return differentKeys(at, want, got, skip)
		}
	case []any:
		if got, ok := got.([]any); ok && len(got) == len(want) {
			for i := range want {
				diffs = append(diffs, difference(at+"/"+strconv.Itoa(i), want[i], got[i], skip)...)
			}
			return diffs
		}
	default:
		if want == got { // neither is a map or a slice, or their types differ
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
}

func differentKeys(at string, want, got map[string]any, skip []string) (diffs []string) {
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		under := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		expected, wanted := want[key]
		value, there := got[key]
		switch {
		case wanted && there:
			diffs = append(diffs, difference(under, expected, value, skip)...)
		case wanted && !slices.Contains(skip, under):
			diffs = append(diffs, under+" is missing")
		case there && !wanted:
			diffs = append(diffs, fmt.Sprintf("%s is %v, which the original does not send", under, value))
		}
	}
	return diffs
}

// ironicField compares one field of an answer of Ironic.
func (r *replay) ironicField(line goldenLine) []string {
	var got map[string]any
	if err := r.ironic.Call("GET", line.Path, nil, &got); err != nil {
		return []string{err.Error()}
	}
	if got[line.Field] != line.Equals {
		return []string{fmt.Sprintf("%s is %v, want %s", line.Field, got[line.Field], line.Equals)}
	}
	return nil
}

// ironicNode compares what Ironic shows of a node; the order of capabilities
// and traits means nothing.
func (r *replay) ironicNode(line goldenLine) []string {
	var raw json.RawMessage
	if err := r.ironic.Call("GET", line.Path, nil, &raw); err != nil {
		return []string{err.Error()}
	}
	var all map[string]any
	if err := decodeExact(raw, &all); err != nil {
		return []string{err.Error()}
	}
	want, got := make(map[string]any), make(map[string]any)
	for field, value := range line.Fields {
		want[field], got[field] = unordered(field, value), unordered(field, all[field])
	}
	return difference("", want, got, []string{"/name"})
}

// unordered puts the lists of a node into one order.
func unordered(field string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		if capabilities, ok := value["capabilities"].(string); ok && field == "properties" {
			value = maps.Clone(value)
			value["capabilities"] = sortedList(capabilities, ",")
		}
		return value
	case []any:
		if field == "traits" {
			value = slices.Clone(value)
			slices.SortFunc(value, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		return value
	default:
		return value
	}
}

// ironicPorts compares a node's ports in what an inspector sets.
func (r *replay) ironicPorts(line goldenLine) []string {
	var raw json.RawMessage
	if err := r.ironic.Call("GET", line.Path, nil, &raw); err != nil {
		return []string{err.Error()}
	}
	var all struct{ Ports []map[string]any }
	if err := decodeExact(raw, &all); err != nil {
		return []string{err.Error()}
	}
	slices.SortFunc(all.Ports, func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprint(a["address"]), fmt.Sprint(b["address"]))
	})
	var got []any
	for _, port := range all.Ports {
		shown := make(map[string]any)
		for _, field := range []string{"address", "pxe_enabled", "local_link_connection", "physical_network", "extra"} {
			shown[field] = port[field]
		}
		got = append(got, shown)
	}
	return difference("", line.Ports, got, nil)
}

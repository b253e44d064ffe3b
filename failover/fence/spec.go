package fence

import (
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds of the file.
const (
	maxDevices = 32
	maxNodes   = 5000 // of one device: as many kube nodes as there may be
	maxOptions = 64   // of an agent
	maxWord    = 1024 // bytes of a value
	maxRetries = 20

	minInterval, maxInterval = 100 * time.Millisecond, time.Minute
	minTimeout, maxTimeout   = time.Second, 5 * time.Minute
)

// spec is a device as the file has it.
type spec struct {
	name   string
	kind   kind
	group  string // of devices that feed the same machines; "" for none
	place  string // in messages: its name, or its number
	line   int
	lines  map[string]int // of the keys that are written
	limits Limits
	nodes  []node
	files  map[string]string // by key: paths that are written
	settings
}

// settings are those that some types have.
type settings struct {
	username, passwordFile, caFile string
	insecure, anyUUID              bool
	program                        string
	options                        []option
}

// node is one entry of a device's list.
type node struct {
	name string // kube node, or cluster/kube node
	line int
	address
}

func (s *spec) written(key string) bool { return s.lines[key] != 0 }

// lineOf is that of a key, or of the device where it is missing.
func (s *spec) lineOf(key string) int {
	if line := s.lines[key]; line != 0 {
		return line
	}
	return s.line
}

// key names an option of the device in messages.
func (s *spec) key(option string) string {
	path := "devices[" + s.place + "]"
	if option != "" {
		path += "." + option
	}
	return path
}

// word reads one value as text, of any type that YAML gives it: 0x20 and yes are
// words of fence-agents here.
func word(into *string, v *yaml.Node) (what, do string) {
	switch {
	case v.Kind == yaml.AliasNode:
		return "is an alias", "write the value out"
	case v.Kind != yaml.ScalarNode:
		return "wants one value", "write it on the same line"
	case v.Tag == "!!null" || v.Value == "":
		return "has no value", "write one, or remove the line"
	case len(v.Value) > maxWord:
		return "is longer than " + strconv.Itoa(maxWord) + " bytes", "write less"
	}
	if f := unsendable(v.Value); f != "" {
		return f, "write it without"
	}
	*into = v.Value
	return "", ""
}

func name(into *string, v *yaml.Node) (what, do string) {
	if what, do = word(into, v); what == "" && !isName(*into) {
		return strconv.Quote(*into) + " is no name", "use small letters, digits, dots and hyphens, at most 63"
	}
	return what, do
}

func isName(text string) bool {
	return text != "" && len(text) <= 63 && !slices.ContainsFunc([]byte(text), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_'
	})
}

func truth(into *bool, v *yaml.Node) (what, do string) {
	if v.Kind != yaml.ScalarNode || v.Tag != "!!bool" {
		return "is not a truth value", "write true or false, without quotes"
	}
	*into = v.Value[0] == 't' || v.Value[0] == 'T'
	return "", ""
}

func count(into *int, v *yaml.Node) (what, do string) {
	n, err := strconv.Atoi(v.Value)
	if v.Kind != yaml.ScalarNode || err != nil || n < 0 || n > maxRetries {
		return "is not a number from 0 to " + strconv.Itoa(maxRetries), "write one"
	}
	*into = n
	return "", ""
}

func within(least, most time.Duration) func(into *time.Duration, v *yaml.Node) (what, do string) {
	return func(into *time.Duration, v *yaml.Node) (what, do string) {
		d, err := time.ParseDuration(v.Value)
		switch {
		case v.Kind != yaml.ScalarNode || err != nil:
			return "is not a duration", "write one such as 500ms, 10s or 1m30s"
		case d < least || d > most:
			return d.String() + " is out of bounds", "allowed is " + least.String() + " to " + most.String()
		}
		*into = d
		return "", ""
	}
}

package fence

import (
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// The types of devices.
const (
	kindIronic  = "ironic"
	kindRedfish = "redfish"
	kindAgent   = "agent"
)

func kinds() []string { return []string{kindIronic, kindRedfish, kindAgent} }

// Bounds of the file.
const (
	maxDevices = 32
	maxNodes   = 5000 // of one device: as many kube nodes as there may be
	maxOptions = 64   // of an agent
	maxWord    = 1024 // bytes of a value
	maxRetries = 20
)

// spec is a device as the file has it.
type spec struct {
	name, kind string
	group      string // of devices that feed the same machines; "" for none
	place      string // in messages: its name, or its number
	line       int
	lines      map[string]int // of the keys that are written
	limits     Limits
	nodes      []node

	username, passwordFile string
	caFile                 string
	insecure, anyUUID      bool

	program string
	options []option
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

// field is one key of a device. what is what is wrong with a value, "" for nothing.
type field struct {
	name string
	kind string // of the devices that have it; "" for all
	read func(r *reader, s *spec, value *yaml.Node) (what, do string)
}

// fields are the keys of a device.
func fields() []field {
	return []field{
		{"name", "", func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return name(&s.name, v) }},
		{"type", "", func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return "", "" }}, // read before
		{"group", "", func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return name(&s.group, v) }},
		{"nodes", "", (*reader).nodes},
		{"retries", "", func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return count(&s.limits.Retries, v) }},
		{"retry_interval", "", func(_ *reader, s *spec, v *yaml.Node) (what, do string) {
			return duration(&s.limits.Interval, 100*time.Millisecond, time.Minute, v)
		}},
		{"timeout", "", func(_ *reader, s *spec, v *yaml.Node) (what, do string) {
			return duration(&s.limits.Timeout, time.Second, 5*time.Minute, v)
		}},
		{"username", kindRedfish, func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return word(&s.username, v) }},
		{"ca_file", kindRedfish, func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return file(&s.caFile, v) }},
		{"insecure_skip_verify", kindRedfish, func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return truth(&s.insecure, v) }},
		{"check_uuid", kindRedfish, func(_ *reader, s *spec, v *yaml.Node) (what, do string) {
			check := true
			what, do = truth(&check, v)
			s.anyUUID = !check
			return what, do
		}},
		{"password_file", kindRedfish + " " + kindAgent, func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return file(&s.passwordFile, v) }},
		{"program", kindAgent, func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return word(&s.program, v) }},
		{"options", kindAgent, func(r *reader, s *spec, v *yaml.Node) (what, do string) {
			s.options = r.options(s.key("options"), v, true)
			return "", ""
		}},
	}
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

// file reads a path. An empty one is none.
func file(into *string, v *yaml.Node) (what, do string) {
	if v.Kind == yaml.ScalarNode && v.Tag == "!!str" && v.Value == "" {
		return "", ""
	}
	if what, do = word(into, v); what == "" && (*into)[0] != '/' {
		return "is not an absolute path", "begin it with /"
	}
	return what, do
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

func duration(into *time.Duration, least, most time.Duration, v *yaml.Node) (what, do string) {
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

package fence

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// kind is one type of device: what its entry in the file may and must hold, what makes
// its method, and which machine an entry means.
type kind struct {
	name   string
	fields []field  // keys of its own, besides those that all types have
	needs  []string // keys that must be written, besides the name
	// reach reads how one machine is reached; nil: by one word.
	reach func(r *reader, path string, v *yaml.Node, to *address) (what, do string)
	// check tells what the keys alone do not show; nil: nothing.
	check func(r *reader, s *spec)
	// open makes the method. It asks no device anything.
	open func(s *spec, l *List, o Options) (method, []mishap)
	// meant says which machine an entry of the device means.
	meant func(s *spec, n node) meant
}

// kinds is the registry, in the order in which messages list it. A new type is one row
// here, which stands with its method.
func kinds() []kind { return []kind{ironicKind(), redfishKind(), agentKind()} }

func kindNames() (names []string) {
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// field is one key of a device. read returns what is wrong with a value, "" for nothing.
type field struct {
	name string
	read func(r *reader, s *spec, value *yaml.Node) (what, do string)
}

// one is a key with one value, which has a reader.
func one[T any](name string, read func(into *T, v *yaml.Node) (what, do string), of func(*spec) *T) field {
	return field{name, func(_ *reader, s *spec, v *yaml.Node) (what, do string) { return read(of(s), v) }}
}

// fields are the keys of every device.
func fields() []field {
	return []field{
		one("name", name, func(s *spec) *string { return &s.name }),
		{"type", func(*reader, *spec, *yaml.Node) (what, do string) { return "", "" }}, // read before
		one("group", name, func(s *spec) *string { return &s.group }),
		{"nodes", (*reader).nodes},
		one("retries", count, func(s *spec) *int { return &s.limits.Retries }),
		one("retry_interval", within(minInterval, maxInterval), func(s *spec) *time.Duration { return &s.limits.Interval }),
		one("timeout", within(minTimeout, maxTimeout), func(s *spec) *time.Duration { return &s.limits.Timeout }),
	}
}

// fileField is a key that names a file, which Files lists. An empty path is none.
func fileField(name string, into func(*spec) *string) field {
	return field{name, func(_ *reader, s *spec, v *yaml.Node) (what, do string) {
		if v.Kind == yaml.ScalarNode && v.Tag == "!!str" && v.Value == "" {
			return "", ""
		}
		path := into(s)
		if what, do = word(path, v); what != "" {
			return what, do
		}
		s.files[name] = *path
		if (*path)[0] != '/' {
			return "is not an absolute path", "begin it with /"
		}
		return "", ""
	}}
}

// passwordField is that of the types that log in by themselves.
func passwordField() field {
	return fileField("password_file", func(s *spec) *string { return &s.passwordFile })
}

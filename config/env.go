package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const envPrefix = "TRIVET_"

// OtherEnv lists the variables that begin with TRIVET_ and are no options: those
// of the command line, those that "trivet lease run" gives to its child, and,
// ending in "_", the prefixes that the test suites use.
func OtherEnv() []string {
	return []string{
		"TRIVET_CONFIG", "TRIVET_SERVER", "TRIVET_TOKEN", "TRIVET_OPERATOR", "TRIVET_OUTPUT", "TRIVET_PEER",
		"TRIVET_OPERATOR_CERT",
		"TRIVET_CREDENTIALS", "TRIVET_CACERT",
		"TRIVET_FENCING_TOKEN", "TRIVET_LEASE_DEADLINE",
		"TRIVET_SIM_", "TRIVET_E2E_", "TRIVET_TEST_", "TRIVET_BENCH_",
	}
}

// envSettings reads the TRIVET_… variables. The last of two equal names counts,
// as for a child process.
func envSettings(environ []string, problems *Problems) []setting {
	values := make(map[string]string)
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	options := make(map[string]Option)
	for _, o := range table {
		options[o.Env()] = o
	}
	var settings []setting
	for _, name := range slices.Sorted(maps.Keys(values)) {
		where := Origin{Kind: FromEnv, Name: name}
		o, known := options[name]
		switch {
		case known:
			settings = o.appendValue(settings, problems, where, values[name])
		case !otherEnv(name):
			do := "unset it"
			if near := Nearest(name, append(slices.Sorted(maps.Keys(options)), OtherEnv()...)); near != "" &&
				!strings.HasSuffix(near, "_") {
				do = fmt.Sprintf("did you mean %s?", near)
			}
			*problems = append(*problems, Problem{Where: where, What: "no option has this variable", Do: do})
		}
	}
	return settings
}

func otherEnv(name string) bool {
	return slices.ContainsFunc(OtherEnv(), func(other string) bool {
		return name == other || strings.HasSuffix(other, "_") && strings.HasPrefix(name, other)
	})
}

// flagSettings reads the flags that were given on the command line.
func flagSettings(flags map[string]string, problems *Problems) []setting {
	var settings []setting
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		where := Origin{Kind: FromFlag, Name: Option{Key: key}.Flag()}
		o, known := Lookup(key)
		if !known {
			*problems = append(*problems, Problem{Where: where, Key: key, What: "is not an option"})
			continue
		}
		settings = o.appendValue(settings, problems, where, flags[key])
	}
	return settings
}

// appendValue appends the option's value, or a problem.
func (o Option) appendValue(settings []setting, problems *Problems, where Origin, text string) []setting {
	value, f := o.parse(text)
	if f != nil {
		*problems = append(*problems, f.at(where, o.Key))
		return settings
	}
	return append(settings, setting{Key: o.Key, Value: value, Origin: where})
}

package config

import (
	"strings"
	"testing"
)

func TestRulesOfListsAndNames(t *testing.T) {
	tests := []struct {
		name  string
		rule  rule
		value any
		want  string // part of what is wrong; "": nothing
	}{
		{"pair", pairs("A:B", isFieldPair), []string{"a:b", "a:c:d"}, ""},
		{"half a pair", pairs("A:B", isFieldPair), []string{"a:"}, `"a:" is not A:B`},
		{"a pair twice", pairs("A:B", isFieldPair), []string{"a:b", "a:b"}, "twice"},
		{"a pair of two lines", pairs("A:B", isFieldPair), []string{"a:b\nc"}, "control character"},
		{"too many", pairs("A:B", isFieldPair), make([]string, maxList+1), "65 items"},
		{"alias", pairs("alias", isPCIAlias), []string{"8086:1572:x710", "10DE:20b0:a100"}, ""},
		{"alias without a name", pairs("alias", isPCIAlias), []string{"8086:1572:"}, "is not alias"},
		{"alias with a comma", pairs("alias", isPCIAlias), []string{"8086:1572:a,b"}, "is not alias"},
		{"alias of no number", pairs("alias", isPCIAlias), []string{"808g:1572:a"}, "is not alias"},
		{"network", pairs("network", isCIDRPair), []string{"10.0.0.0/8:a", "fd00::/64:b"}, ""},
		{"network without a mask", pairs("network", isCIDRPair), []string{"10.0.0.1:a"}, "is not network"},
		{"network without a name", pairs("network", isCIDRPair), []string{"fd00::/64:"}, "is not network"},
		{"versions", ruleOf("inspection.discovery.enabled_bmc_address_version"), []string{"6", "4"}, ""},
		{"another version", ruleOf("inspection.discovery.enabled_bmc_address_version"), []string{"5"}, `"5" is not`},
		{"driver", ruleOf("inspection.discovery.enroll_node_driver"), "fake-hardware", ""},
		{"no driver", ruleOf("inspection.discovery.enroll_node_driver"), "", "is not the name of a driver"},
		{"driver with a slash", ruleOf("inspection.discovery.enroll_node_driver"), "a/b", "is not the name of a driver"},
		{"file name", fileNameFormat(), "{uuid}_{dt:%Y%m%d}-{bmc}{mac}.tar.gz", ""},
		{"path", fileNameFormat(), "a/{uuid}", "not a file name"},
		{"unknown field", fileNameFormat(), "{name}", "{name} is not a field"},
		{"open brace", fileNameFormat(), "{uuid", "without its other half"},
		{"shut brace", fileNameFormat(), "uuid}", "without its other half"},
	}
	for _, tt := range tests {
		f := tt.rule.checkValue(tt.value)
		if got := f != nil; got != (tt.want != "") || got && !strings.Contains(f.what, tt.want) {
			t.Errorf("%s: %+v, want %q", tt.name, f, tt.want)
		}
	}
}

// ruleOf is the rule of an option.
func ruleOf(key string) rule {
	o, _ := Lookup(key)
	return o.rule
}

package config

import (
	"fmt"
	"strings"
	"testing"
)

// mistaken are ways to write a value, S, that YAML takes for something else or that
// are refused, as what follows the colon.
func mistaken() map[string]string {
	return map[string]string{
		"alias":                       " *S",
		"alias and more":              " *S more",
		"anchor":                      " &S",
		"anchor before a value":       " &S S",
		"anchor, then its alias":      " &a S\nname: *a",
		"tag":                         " !S",
		"tag of YAML":                 " !!S",
		"tag of a handle":             " !S!S",
		"number by its tag":           " !!int S",
		"bytes by their tag":          " !!binary S!",
		"directive":                   " %S",
		"reserved mark":               " @S",
		"backtick":                    " `S",
		"open quote":                  " \"S",
		"other open quote":            " 'S",
		"unknown escape":              ` "\S"`,
		"a colon in it":               " S: S",
		"a colon at its end":          " S:",
		"list":                        " [S]",
		"list that is open":           " [S",
		"mapping":                     " {S: S}",
		"mapping that is open":        " {S",
		"list item":                   " - S",
		"block":                       " |\n    S",
		"folded block":                " >-\n    S\n\n    S",
		"block of no indent":          " |\nS",
		"block of no indent, a colon": " |\nS: x",
		"value on the next line":      "\n  S: x",
		"value as the next key":       "\nS: x",
		"value below it":              "\n    S",
		"mapping below it":            "\n    S: x",
		"key of many words":           "\n    ? S",
		"merge key":                   " {<<: *S}",
		"control character":           " \"S\\u0001\"",
		"raw control character":       " S\x01",
		"not UTF-8":                   " S\xff",
		"two lines":                   " \"S\\nS\"",
		"too long":                    " " + strings.Repeat("S", 1000),
		"a PEM block":                 " |\n    -----BEGIN PRIVATE KEY-----\n    S\n    -----END PRIVATE KEY-----",
		"user and hash":               " user:S",
		"no blank":                    "S",
		"no blank, quoted":            "\"S\"",
		"no blank, a colon":           "S: x",
	}
}

// No message repeats a secret, whatever YAML takes it for and wherever it was
// written by mistake. config check, the log of a reload, status and a bundle show
// these messages.
func TestNoMessageRepeatsASecret(t *testing.T) {
	const secret = "hunter2"
	options := [][2]string{ // section and key
		{"ironic", "password"}, {"ironic", "password_file"}, {"ironic", "key_file"}, {"api", "http_basic_auth_user_file"},
		{"api.tls", "key_file"},
		{"api.keystone", "password"}, {"api.keystone", "password_file"}, {"failover", "fence_file"},
	}
	for _, option := range options {
		sections := strings.Split(option[0], ".")
		for name, value := range mistaken() {
			value = strings.ReplaceAll(value, "S", secret)
			block := strings.Join(sections, ":\n ") + ":\n  " + option[1] + ":" + value + "\n"
			flow := "{" + strings.Join(sections, ": {") + ": {" + option[1] + ":" + strings.TrimSuffix(value, "\n") +
				strings.Repeat("}", len(sections)+1) + "\n"
			forms := map[string]string{"block": block, "flow": flow}
			if !strings.Contains(value, "\n"+secret) { // what follows an unknown section is a key like any other
				forms["merged"] = "x: &m\n " + option[1] + ":" + value + "\n" + sections[0] + ":\n  <<: *m\n"
			}
			for form, text := range forms {
				said := everythingSaid(Sources{File: "trivet.yaml", Text: []byte(text)})
				if strings.Contains(said, secret) {
					t.Errorf("secret-repeated: %s.%s, %s, %s: %s\n%s", option[0], option[1], form, name, text, said)
				}
			}
			key := option[0] + "." + option[1]
			said := everythingSaid(Sources{
				Env: []string{"TRIVET_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_")) + "=" + value}})
			said += everythingSaid(Sources{Flags: map[string]string{key: value}})
			if strings.Contains(said, secret) {
				t.Errorf("secret-repeated: %s = %s: %s", key, value, said)
			}
		}
	}
	for _, readers := range []string{"[user:hunter2]", "[a, 'a:hunter2']"} {
		if said := everythingSaid(
			Sources{File: "trivet.yaml", Text: []byte("api: {http_basic_readers: " + readers + "}\n")}); strings.Contains(said,
			secret) {
			t.Errorf("secret-repeated: %s", said)
		}
	}
}

// everythingSaid is all that a command or a log may show of a configuration.
func everythingSaid(s Sources) string {
	c, err := Load(s)
	said := fmt.Sprintf("%v\n%v\n%v\n%+v\n", err, c.Warnings(), c.CheckServe(), c)
	for _, s := range c.Effective() {
		said += fmt.Sprintf("%s: %s # %v\n", s.Key, s.Value, s.Origin)
	}
	return said
}

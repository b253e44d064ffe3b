package config

import (
	"reflect"
	"strings"
	"testing"
)

// Receivers have a name, a URL as other services, and a secret each; what is said of a
// receiver that there is not is refused.
func TestReceiversOfEvents(t *testing.T) {
	const good = "receivers: [cmdb=https://c.example/x, chat=http://127.0.0.1:9/], secrets: [cmdb=/c, chat=/d]"
	c, problems := load(t, "events: {"+good+", kinds: [cmdb=pxe, cmdb=member], ca_file: /ca}\n")
	want := []EventReceiver{{"cmdb", "https://c.example/x", "/c", []string{"pxe", "member"}},
		{"chat", "http://127.0.0.1:9/", "/d", nil}}
	if got := c.Events.List(); len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, problems)
	}
	for text, want := range map[string]string{
		"receivers: [cmdb=https://c.example/]":                                   "events.receivers: receiver cmdb has no secret",
		"receivers: [cmdb=https://u:hunter2@c.example/], secrets: [cmdb=/c]":     "the URL of cmdb holds a user name or password",
		"receivers: ['cmdb=https://c.example/?key=hunter2'], secrets: [cmdb=/c]": "the URL of cmdb ends in a query",
		"receivers: [cmdb=ftp://c.example/], secrets: [cmdb=/c]":                 "the URL of cmdb is not the URL of a service",
		"receivers: [cmdb=file:///etc/shadow], secrets: [cmdb=/c]":               "the URL of cmdb is not the URL of a service",
		"receivers: [CMDB=https://c.example/], secrets: [cmdb=/c]":               "is not NAME=URL",
		"receivers: [a=http://1.example/, a=http://2.example/], secrets: [a=/c]": `"a" names another receiver already`,
		good + ", kinds: [other=pxe]":                                            `events.receivers names no "other"`,
		"secrets: [cmdb=/c]":                                                     `events.secrets: events.receivers names no "cmdb"`,
		"receivers: [a=http://1.example/], secrets: [a=/c, a=/d]":                `"a" has a secret already`,
		"receivers: [a=http://1.example/], secrets: [a=c]":                       "is not NAME=PATH",
		"receivers: [" + strings.Repeat("a=http://1.example/, ", 9) + "]":        "has 9 items; at most 8",
		"receivers: [\"a=http://1.example/\\r\\nX-Evil: 1\"], secrets: [a=/c]":   "the URL of a is not the URL of a service",
	} {
		_, problems := load(t, "events: {"+text+"}\n")
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if told := strings.Join(all, "\n"); !strings.Contains(told, want) || strings.Contains(told, "hunter2") {
			t.Errorf("%s:\n%s\nwant %s", text, told, want)
		}
	}
	c, _ = load(t, "events: {receivers: [cmdb=http://c.example/], secrets: [cmdb=/c]}\n")
	c.Events.Receivers = append(c.Events.Receivers, "own=http://127.0.0.1:7350/")
	if found := reviewed(c, (*review).pairOwnURLs); len(found) != 1 || found[0].Key != "events.receivers" {
		t.Errorf("its own port: %v", found)
	}
	found := reviewed(c, (*review).lookAtReceivers)
	if len(found) != 1 || !strings.Contains(found[0].String(), "cmdb is sent goes over the network unencrypted") {
		t.Errorf("in the clear: %v", found)
	}
}

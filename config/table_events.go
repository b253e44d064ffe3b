package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxReceivers is how many receivers of events there may be: each has a goroutine and a
// connection of the leader.
const maxReceivers = 8

// Events is the section of the receivers of events. Nothing is sent while it names none.
type Events struct {
	Receivers []string `key:"receivers"` // NAME=URL each
	Secrets   []string `key:"secrets"`   // NAME=PATH each
	Kinds     []string `key:"kinds"`     // NAME=KIND each
	CAFile    string   `key:"ca_file"`
}

// EventReceiver is a receiver of events.
type EventReceiver struct {
	Name, URL  string
	SecretFile string
	Kinds      []string // none: all but those for administrators
}

// List returns the receivers in the order of the configuration.
func (e Events) List() []EventReceiver {
	var out []EventReceiver
	for _, item := range e.Receivers {
		name, url, _ := strings.Cut(item, "=")
		r := EventReceiver{Name: name, URL: url}
		for _, secret := range e.Secrets {
			if of, path, _ := strings.Cut(secret, "="); of == name {
				r.SecretFile = path
			}
		}
		for _, kind := range e.Kinds {
			if of, word, _ := strings.Cut(kind, "="); of == name {
				r.Kinds = append(r.Kinds, word)
			}
		}
		out = append(out, r)
	}
	return out
}

var eventOptions = []Option{
	{Key: "events.receivers", Change: AtReload, Extent: AllHosts, rule: receiverURLs(),
		Help: "Who is sent the events of the cluster, each a name of your own and the URL of an HTTP server, as in cmdb=https://cmdb.example.org/trivet. The leader sends them: see docs/events.md."},
	{Key: "events.secrets", Change: AtReload, Extent: MostHosts,
		rule: pairs("NAME=PATH", named(isReceiverName, filepath.IsAbs)),
		Help: "For each receiver the absolute path of a file with the secret that signs what it is sent, and nothing else: whsec_ and 24 to 64 bytes in base64. The same secret on every peer. It is read for each delivery."},
	{Key: "events.kinds", Change: AtReload, Extent: AllHosts,
		rule: pairs("NAME=KIND", named(isReceiverName, isReceiverName)),
		Help: "Which kinds of events a receiver is sent, one an item, as in cmdb=introspection. Without an item it is sent all but audit and rule."},
	{Key: "events.ca_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		Help: "Certificates (PEM) that may sign those of receivers besides those of the system. Read again when it changes."},
}

// receiverURLs is a list of receivers, each with a URL as other services have it.
func receiverURLs() rule {
	r := pairs("NAME=URL", named(isReceiverName, func(string) bool { return true }))
	judge, service := r.check, webURL().check
	r.check = func(v any) *fault {
		list := v.([]string)
		if len(list) > maxReceivers {
			return &fault{fmt.Sprintf("has %d items", len(list)), fmt.Sprintf("at most %d", maxReceivers)}
		}
		for _, item := range list {
			name, url, found := strings.Cut(item, "=")
			if !found || !isReceiverName(name) {
				continue // judge says so
			}
			if f := service(url); f != nil {
				return &fault{"the URL of " + name + " " + f.what, f.do}
			}
		}
		return judge(v)
	}
	return r
}

// isReceiverName keeps to what the log takes: see package deliveries.
func isReceiverName(name string) bool { return isName(name, kubeLetters, "", 32) }

// checkEvents finds receivers that cannot be served, and what is said of none.
func (r *review) checkEvents() {
	receivers := r.Events.List()
	for i, one := range receivers {
		if slices.ContainsFunc(receivers[:i], func(other EventReceiver) bool { return other.Name == one.Name }) {
			r.addProblem("events.receivers", fmt.Sprintf("%q names another receiver already", one.Name),
				"give each receiver a name of its own")
		}
		r.when(one.SecretFile == "", "events.receivers", fmt.Sprintf("receiver %s has no secret", one.Name),
			"write events.secrets: ["+one.Name+"=/etc/trivet/"+one.Name+".secret]")
	}
	for _, list := range []struct {
		key   string
		items []string
		once  bool
	}{{"events.secrets", r.Events.Secrets, true}, {"events.kinds", r.Events.Kinds, false}} {
		seen := make(map[string]bool)
		for _, item := range list.items {
			name, _, _ := strings.Cut(item, "=")
			if !slices.ContainsFunc(receivers, func(one EventReceiver) bool { return one.Name == name }) {
				r.addProblem(list.key, fmt.Sprintf("events.receivers names no %q", name), "write it there, or remove the item")
			}
			r.when(list.once && seen[name], list.key, fmt.Sprintf("%q has a secret already", name), "remove one of the two")
			seen[name] = true
		}
	}
}

// lookAtReceivers warns of events that are sent in the clear.
func (r *review) lookAtReceivers() {
	for _, one := range r.Events.List() {
		r.when(inTheClear(one.URL), "events.receivers",
			fmt.Sprintf("what receiver %s is sent goes over the network unencrypted; it is signed, and everybody reads it",
				one.Name),
			"use https")
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// TestContainerfile holds packaging/Containerfile to the repository. It builds no
// image: that needs a container engine and its registries.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string][]string) // arguments by instruction
	for _, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		if word, rest, ok := strings.Cut(line, " "); ok && word != "#" {
			lines[word] = append(lines[word], rest)
		}
	}
	for _, c := range lines["COPY"] {
		words := strings.Fields(c)
		if strings.HasPrefix(words[0], "--from=") {
			continue
		}
		for _, source := range words[:len(words)-1] {
			if _, err := os.Stat(filepath.Join("..", source)); err != nil {
				t.Errorf("COPY %s: %v", c, err)
			}
		}
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if len(lines["FROM"]) != 4 || !strings.HasPrefix(lines["FROM"][0], "golang:"+string(version[1])+"-bookworm") ||
		lines["FROM"][3] != "debian:bookworm-slim" {
		t.Errorf("FROM %q; go.mod wants Go %s", lines["FROM"], version[1])
	}
	if !strings.Contains(string(text), "CGO_ENABLED=0 go build -trimpath ") ||
		!strings.Contains(string(text), "setcap cap_net_admin,cap_net_raw+ep /trivet") {
		t.Error("the program is not static, or lacks what programming the filter needs")
	}
	if user := lines["USER"]; len(user) != 2 || user[0] != user[1] ||
		!regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user[0]) {
		t.Errorf("USER %q: it runs as somebody who is not root, by number", user)
	}
	conf := config.Default()
	if !slices.Equal(lines["VOLUME"], []string{conf.DataDir}) ||
		!strings.Contains(string(text), " "+filepath.Dir(conf.Socket)+" ") {
		t.Errorf("VOLUME %q, and the directory of %s", lines["VOLUME"], conf.Socket)
	}
	for _, address := range []string{conf.API.Listen, conf.Cluster.Listen, conf.Gossip.Listen} {
		port := address[strings.LastIndex(address, ":")+1:]
		if !strings.Contains(strings.Join(lines["EXPOSE"], " "), port+"/tcp") {
			t.Errorf("EXPOSE lacks port %s", port)
		}
	}
	if len(lines["HEALTHCHECK"]) != 1 ||
		!slices.Equal(lines["ENTRYPOINT"], []string{`["/usr/bin/trivet", "elector"]`, `["/usr/bin/trivet"]`}) ||
		!slices.Equal(lines["CMD"], []string{`["serve"]`}) {
		t.Errorf("HEALTHCHECK %q, ENTRYPOINT %q, CMD %q", lines["HEALTHCHECK"], lines["ENTRYPOINT"], lines["CMD"])
	}
}

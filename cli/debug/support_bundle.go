package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/redact"
	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// Bounds of a bundle.
const (
	bundleLimit = 2 * time.Minute // all of it
	bundleWaits = 20 * time.Second
	bundleRoot  = "trivet-bundle"
)

// bundleFlags are the words of bundle.
type bundleFlags struct {
	file  string
	local bool
	state bool
	mac   string
}

func bundleCommand(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	var f bundleFlags
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Gather what support needs, in one file without secrets",
		Long: "Gather what support needs, in one tar.gz without secrets: of this host's peer version, configuration in force, status,\n" +
			"peers, PXE filter, state in figures, metrics, goroutines and the newest lines of its log; members, relays, the filters of all hosts, and what doctor\n" +
			"finds on them. What is missing, and why, is in its INDEX. It needs no quorum; where no peer runs it holds what this host alone can tell.\n" +
			"Make one on each host that matters, or name its peer with --peer.",
		Example: "  trivet debug bundle\n  trivet debug bundle -f /tmp/night.tar.gz --mac 52:54:00:ab:00:01\n" +
			"  trivet debug bundle --peer h2 --operator-cert op.pem",
	}
	flags := c.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "where to write it (default trivet-bundle-TIME.tar.gz here)")
	flags.BoolVar(&f.local, "local", false, "ask no other peer")
	flags.BoolVar(&f.state, "with-state", false,
		"add the whole state ('trivet debug fsm dump'): nodes, their addresses, what they reported")
	flags.StringVar(&f.mac, "mac", "", "add whether this machine would boot, from each host ('trivet firewall explain')")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.file == "" {
			f.file = "trivet-bundle-" + t.Wall().UTC().Format("20060102T150405Z") + ".tar.gz"
		}
		return bundle(c.Context(), t, peer, set, f)
	}
	return c
}

func bundle(ctx context.Context, t *term.Terminal, peer term.Peer, set *options.Set, f bundleFlags) error {
	ctx, cancel := context.WithTimeout(ctx, bundleLimit)
	defer cancel()
	redactor := redact.New(configured(set)...) // peers have done so; an older one may not
	top := supportbundle.NewFiles(redactor)
	bundleHere(t, set, top)
	parts := []bundlePart{
		{"members.json", "/v1/members?stale=1"}, {"firewall.json", term.OnAll("/v1/firewall", !f.local)},
		{"relays.json", "/v1/relays?stale=1"}, {"check.json", "/v1/debug/check"},
	}
	if f.mac != "" {
		parts = append(parts, bundlePart{"explain.json", term.OnAll("/v1/firewall/explain/"+url.PathEscape(f.mac), !f.local)})
	}
	if f.state {
		parts = append(parts, bundlePart{"state.json", "/v1/debug/dump"})
	}
	for _, part := range parts {
		text, err := fetch(ctx, peer, part.path)
		top.Add(part.name, supportbundle.MaxFile, text, err)
	}
	hosts, err := facts(ctx, t, peer, set, f.local) // what the hosts say of themselves, and what doctor makes of it
	top.JSON("facts.json", supportbundle.MaxFile, hosts, err)
	findings := []doctor.Finding{}
	if err == nil {
		var found []doctor.Finding
		found, err = doctor.Judge(hosts, nil)
		findings = append(findings, found...) // an empty list, not null
	}
	top.JSON("findings.json", supportbundle.MaxFile, findings, err)
	own, err := bundlePeer(ctx, peer, redactor)
	if err != nil {
		top.Add("peer", 0, nil, err)
	}
	folders := append([]supportbundle.Folder{{Files: top.List()}}, own...)
	err = local.WriteWhole(f.file, func(file *os.File) error { // only its owner may read it
		wall := t.Wall().UTC()
		return supportbundle.Archive(file, bundleRoot, "trivet debug bundle, "+wall.Format(time.RFC3339), wall, folders)
	})
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	t.Say("%s is written; names and addresses are in it: look through it before you pass it on", f.file)
	return nil
}

// configured are the secrets that this host's configuration holds, if it can be
// read.
func configured(set *options.Set) []string {
	conf, err := set.Peruse()
	if err != nil {
		return nil // the entry of the configuration has this error
	}
	return conf.Secrets()
}

// bundleHere adds what can be told without any peer.
func bundleHere(t *term.Terminal, set *options.Set, top *supportbundle.Files) {
	top.Add("version.txt", supportbundle.MaxFile,
		fmt.Appendf(nil, "trivet %s, %s, %s/%s\n", t.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), nil)
	if set.Port != "" {
		top.Add("config.txt", 0, nil, errors.New("the peer is not on this host: its folder has its configuration"))
		return
	}
	conf, err := set.Peruse()
	var text bytes.Buffer
	for _, s := range conf.Effective() {
		fmt.Fprintf(&text, "%s: %s  # %v\n", s.Key, term.Printable(s.Value), s.Origin)
	}
	if err != nil {
		fmt.Fprintf(&text, "# %s\n", term.Printable(err.Error()))
	}
	top.Add("config.txt", supportbundle.MaxFile, text.Bytes(), nil)
}

// bundlePart is a file and the question to the peer that it answers.
type bundlePart struct{ name, path string }

// bundlePeer are the files of the peer that is asked, in a folder by its name; none
// where it does not answer.
func bundlePeer(ctx context.Context, peer term.Peer, redactor *redact.Redactor) ([]supportbundle.Folder, error) {
	var host admin.HostFiles
	if err := peer.Within(bundleWaits).Call(ctx, http.MethodGet, "/v1/debug/bundle", nil, &host); err != nil {
		return nil, err
	}
	files := supportbundle.NewFiles(redactor)
	for _, f := range host.Files {
		var why error
		if f.Error != "" {
			why = errors.New(f.Error)
		}
		files.Add(f.Name, supportbundle.MaxFile, []byte(f.Text), why)
	}
	return []supportbundle.Folder{{Name: host.Peer, Files: files.List()}}, nil
}

// fetch is one answer of the peer, which is whole or an error.
func fetch(ctx context.Context, peer term.Peer, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bundleWaits)
	defer cancel()
	resp, err := peer.Within(bundleWaits).Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, supportbundle.MaxFile+1))
	if err == nil && len(text) > supportbundle.MaxFile {
		err = fmt.Errorf("it has more than %d bytes", supportbundle.MaxFile)
	}
	return text, err
}

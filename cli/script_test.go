package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cli/trivet-import/importer"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestScripts runs the command line as a person or a script would, in the process of
// the test. What needs processes of its own is in TestProcessScripts.
func TestScripts(t *testing.T) { testscript.RunT(oneByOne{t}, scripts(t, "testdata")) }

// scripts are those of a directory, and what they can call.
func scripts(t *testing.T, dir string) testscript.Params {
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			t := env.T().(oneByOne).T
			t.Chdir(env.WorkDir) // the commands resolve relative names by the directory of the process
			env.Values[scriptKey{}] = &script{t: t}
			env.Setenv("SOURCE", source)
			scriptAddresses(t, env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":         code,
			"trivet-serve": startDaemon,
			"trivet-stop":  stopDaemon,
			"await-leader": func(ts *testscript.TestScript, _ bool, _ []string) { awaitLeader(ts) },
			"fake-api":     startFakeAPI,
			"database":     fillDatabase,
			"export":       exportDatabase,
			"get":          get,
			"expand":       expand,
			"env-from":     envFrom,
			"modes":        modes,
		},
	}
}

// scriptAddresses names the addresses and directories of a script's peer.
func scriptAddresses(t *testing.T, env *testscript.Env) {
	env.Setenv("TRIVET_DATA_DIR", env.WorkDir+"/d")
	env.Setenv("TRIVET_SOCKET", env.WorkDir+"/d.sock")
	env.Setenv("NO_IRONIC", testenv.FreePort(t)) // serve asks there: Ironic's own port may be in use on this host
	env.Setenv("TRIVET_IRONIC_RETRIES", "0")
	env.Setenv("TRIVET_IRONIC_TIMEOUT", "100ms")
	for _, name := range []string{"API", "CLUSTER", "GOSSIP"} {
		env.Setenv("TRIVET_"+name+"_LISTEN", testenv.FreePort(t))
	}
}

// oneByOne runs scripts one after the other: the working directory belongs to the
// whole process.
type oneByOne struct{ *testing.T }

// Parallel implements testscript.T.
func (oneByOne) Parallel() {}

// Verbose implements testscript.T.
func (oneByOne) Verbose() bool { return testing.Verbose() }

// Run implements testscript.T.
func (o oneByOne) Run(name string, f func(testscript.T)) {
	o.T.Run(name, func(t *testing.T) { f(oneByOne{t}) })
}

// A script is what a script that runs in this process has besides its files.
type script struct {
	t    *testing.T
	stop func() // ends trivet serve
	log  *said  // of trivet serve
	code chan int
}

// scriptKey is the key of a *script among the values of a script.
type scriptKey struct{}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// program is trivet with the variables of the script.
func (s *script) program(ts *testscript.TestScript, in io.Reader, out, errw io.Writer) *program {
	p := &program{Terminal: &term.Terminal{In: in, Out: s.checked(out), Err: s.checked(errw), Wall: time.Now,
		Random: rand.Reader}, exit: func(code int) { s.t.Errorf("trivet ended its process with exit code %d", code) }}
	for _, name := range scriptVariables() {
		if value := ts.Getenv(name); value != "" { // empty it would be a mistake
			p.Env = append(p.Env, name+"="+value)
		}
	}
	return p
}

// checked fails the script for a message that was put together wrongly, in an answer
// or in the log of a daemon.
func (s *script) checked(w io.Writer) io.Writer {
	return msgcheck.Writer(w, func(wrong string) { s.t.Errorf("wrong message: %s", wrong) })
}

// scriptVariables are those that a script can set for trivet.
func scriptVariables() []string {
	names := []string{"TRIVET_CONFIG", "TRIVET_OUTPUT", "TRIVET_SERVER", "TRIVET_CREDENTIALS", "TRIVET_CACERT"}
	for _, o := range config.Options() {
		names = append(names, o.Env())
	}
	return names
}

// code runs a command that must end with an exit code: code N trivet ARG… <INPUT,
// where INPUT is the file of its standard input.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "trivet" && args[1] != importer.Name {
		ts.Fatalf("usage: code N trivet ARG… <INPUT, or trivet-import")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	words, in := args[2:], ""
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "<") {
		words, in = words[:n-1], ts.ReadFile(words[n-1][1:])
	}
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Bound(testwait.Limit))
	defer cancel()
	p := scriptOf(ts).program(ts, strings.NewReader(in), ts.Stdout(), ts.Stderr())
	run := p.run
	if args[1] == importer.Name {
		p.Program = importer.Name
		run = func(ctx context.Context, words []string) int { return importer.Run(ctx, p.Terminal, words) }
	}
	if got := run(ctx, words); got != want {
		ts.Fatalf("trivet %v: exit %d, want %d", words, got, want)
	}
}

// startDaemon runs trivet serve in the background until it leads.
func startDaemon(ts *testscript.TestScript, _ bool, _ []string) {
	s := scriptOf(ts)
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.log, s.code = stop, &said{}, make(chan int, 1) // one code
	p := s.program(ts, strings.NewReader(""), io.Discard, s.log)
	if none := ts.Getenv("NO_IRONIC"); none != "" {
		p.Env = append(p.Env, "TRIVET_IRONIC_ENDPOINT=http://"+none)
	}
	p.Env = append(p.Env, "TRIVET_FIREWALL_DRIVER=noop", // the filter of the tester's own host stays as it is
		"GOGC=100") // so does the collector of this process, which is not a daemon's
	ended := s.code
	go func() { ended <- p.run(ctx, []string{"serve"}) }()
	ts.Defer(func() {
		s.end(ts)
		ts.Logf("trivet serve logged:\n%s", s.log)
	})
	awaitLeader(ts)
}

// end stops trivet serve and waits for it, if it runs.
func (s *script) end(ts *testscript.TestScript) {
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	got, err := testwait.Take(testwait.Limit, s.code, "trivet serve ends")
	if err != nil || got != term.ExitOK {
		ts.Fatalf("trivet serve: exit %d, %v:\n%s", got, err, s.log)
	}
}

// stopDaemon ends trivet serve and shows what it logged as its standard error.
func stopDaemon(ts *testscript.TestScript, _ bool, _ []string) {
	s := scriptOf(ts)
	s.end(ts)
	_, err := io.WriteString(ts.Stderr(), s.log.String())
	ts.Check(err)
}

// awaitLeader waits until this peer leads and is ready: it answers a read that is not
// stale, and has noticed that no Ironic answers, as in every script, so that status is
// degraded from then on.
func awaitLeader(ts *testscript.TestScript) {
	s := scriptOf(ts)
	err := testwait.Poll(context.Background(), testwait.Limit, "this peer leads and is ready", func() error {
		var out, talk bytes.Buffer
		ask := func(words ...string) int {
			return s.program(ts, strings.NewReader(""), &out, &talk).run(s.t.Context(), words)
		}
		if code := ask("members", "-o", "name"); code != term.ExitOK {
			return fmt.Errorf("trivet members: exit %d: %s", code, talk.String())
		}
		out.Reset()
		ask("status", "-o", "json") // degraded is exit code 2
		var got api.Status
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Role != "leader" || !got.Ready ||
			got.Health != api.Degraded {
			return fmt.Errorf("status %+v, %v: %s", got, err, talk.String())
		}
		return nil
	})
	ts.Check(err)
}

// get prints what an address answers with status 200: get URL.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: get URL")
	}
	resp, err := http.Get(args[0])
	ts.Check(err)
	defer resp.Body.Close()
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[0], resp.Status)
	}
}

// expand puts the values of the script's variables into a file: expand FROM TO.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expand FROM TO")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

// envFrom sets a variable to the content of a file: env-from NAME FILE.
func envFrom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: env-from NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// modes prints the permissions of files, one in each line: modes FILE….
func modes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: modes FILE…")
	}
	for _, name := range args {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		_, err = fmt.Fprintf(ts.Stdout(), "%o\n", info.Mode()&fs.ModePerm)
		ts.Check(err)
	}
}

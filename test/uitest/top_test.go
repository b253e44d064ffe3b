//go:build e2e

package uitest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// topServers names in the environment of this binary the servers that top asks: then it is top.
const topServers = "TRIVET_TEST_TOP_SERVERS"

// The size of the recorded terminal, and how long each of its pictures is shown.
const (
	topCols, topRows = 80, 24
	frameSeconds     = 4
)

// TestTopPicture records the terminal of the README: machines boot, the leader is killed and comes back.
func TestTopPicture(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		testenv.Missing(t, "no tmux here: apt-get install tmux")
	}
	const machines, most = 40, 60_000 // bytes of the picture
	s := openSite(t, machines)
	var urls []string
	for _, p := range s.Peers() {
		urls = append(urls, p.URL)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "tmux")
	tmux := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("tmux", append([]string{"-u", "-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", fmt.Sprint(topCols), "-y", fmt.Sprint(topRows),
		"env", topServers+"="+strings.Join(urls, ","), self)
	t.Cleanup(func() { tmux("kill-server") })
	var frames []string
	record := func(want string) {
		t.Helper()
		shows := regexp.MustCompile(want)
		testwait.Within(t, limit, "the terminal shows "+want, func() error {
			if got := tmux("capture-pane", "-p"); !shows.MatchString(got) {
				return fmt.Errorf("it shows\n%s", got)
			}
			return nil
		})
		frames = append(frames, tmux("capture-pane", "-p", "-e"))
	}
	record("healthy, by")
	for n := range machines {
		resp, err := http.Post(fmt.Sprintf("%s/v1/introspection/node%d", s.Peers()[0].URL, n+1), "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("node%d: %s", n+1, resp.Status)
		}
	}
	record(`machines .*(waiting|processing)(.|\n)*=*#{3}`)
	revive := s.killLeader(t)
	record("silent for")
	record(`in place of(.|\n)*`)
	revive()
	record("can more be lost|1 more may be lost")
	svg := recording(frames)
	if len(svg) > most {
		t.Errorf("the picture has %d bytes, at most %d", len(svg), most)
	}
	if dir := os.Getenv("TRIVET_UI_PICTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "top.svg"), []byte(svg), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// recording draws terminals one after another, without a script or a font of its own. Where motion is
// not wanted the last one stays.
func recording(frames []string) string {
	const width, height, pad = 8.4, 18, 12 // of a character, around all
	var out strings.Builder
	w, h := topCols*width+2*pad, topRows*height+2*pad
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-size="14" `+
		`font-family="ui-monospace,Menlo,Consolas,monospace">`+
		"\n<title>trivet top: the leader is killed, and another one leads</title>\n<style>\n"+
		"text{fill:#d0d0d0;white-space:pre}.b,.r,.y{font-weight:bold;fill:#fff}.r{fill:#ff6b6b}.y{fill:#e5c07b}"+
		".i{fill:#1c1c1c}\n"+
		"g{opacity:0;animation:f %ds step-end infinite}@keyframes f{0%%{opacity:1}%.3f%%{opacity:0}}\n"+
		"@media(prefers-reduced-motion:reduce){g{animation:none}g:last-of-type{opacity:1}}\n</style>\n"+
		`<rect width="100%%" height="100%%" rx="8" fill="#1c1c1c"/>`+"\n",
		w, h, frameSeconds*len(frames), 100/float64(len(frames)))
	for i, frame := range frames {
		fmt.Fprintf(&out, `<g style="animation-delay:%ds">`+"\n", i*frameSeconds)
		for row, line := range strings.Split(strings.TrimSuffix(frame, "\n"), "\n") {
			drawRow(&out, line, pad, float64(pad+(row+1)*height-5), width)
		}
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// marks are the sequences of a terminal that change how text looks.
var marks = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// drawRow draws the pieces of a row that look alike.
func drawRow(out *strings.Builder, line string, x, y, width float64) {
	col, class := 0, ""
	draw := func(text string) {
		length := utf8.RuneCountInString(text)
		at := x + float64(col)*width
		col += length
		if class == "i" {
			fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="18" fill="#d0d0d0"/>`, at, y-13,
				float64(length)*width)
		}
		if strings.TrimSpace(text) == "" {
			return
		}
		mark := ""
		if class != "" {
			mark = ` class="` + class + `"`
		}
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" textLength="%.1f"%s>%s</text>`+"\n", at, y, float64(length)*width, mark,
			strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(text))
	}
	for line != "" {
		at := marks.FindStringSubmatchIndex(line)
		if at == nil {
			draw(line)
			return
		}
		if at[0] > 0 {
			draw(line[:at[0]])
		}
		for code := range strings.SplitSeq(line[at[2]:at[3]], ";") {
			switch code {
			case "", "0", "39", "22", "27":
				class = ""
			case "1":
				class = "b"
			case "7":
				class = "i"
			case "31":
				class = "r"
			case "33":
				class = "y"
			}
		}
		line = line[at[1]:]
	}
}

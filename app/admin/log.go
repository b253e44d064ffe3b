package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/redact"
)

// PathPeerLog is where peers ask each other for the newest lines of their logs.
const PathPeerLog = "/peer/v1/log"

// Bounds of an answer with lines of logs: what a host sends, as JSON at its longest, is less
// than a peer reads of another's answer.
const (
	usualLogLines = 200
	maxLogLines   = 1000
	maxLogBytes   = 96 << 10 // of the texts of one host
	maxLogAfter   = 4 << 10  // bytes of a position
)

// Logs has the newest lines that the peers of the cluster logged, without secrets.
type Logs struct {
	Peer, ID string     // of this host
	Recent   *logs.Ring // nil: none are kept
	Redactor func() *redact.Redactor
	// Ask sends all other members a GET of a path on the peers' port; see Here.Ask.
	Ask func(ctx context.Context, path string) []Answer
}

// LogLine is a line of a peer's log.
type LogLine struct {
	Time    string `json:"time"` // RFC 3339, by the clock of that host
	Peer    string `json:"peer"`
	Level   string `json:"level"`
	Request string `json:"request_id,omitempty"`
	Text    string `json:"text"` // message and keys as they were written; it may hold what machines wrote
}

// LogHost says what is missing of a host.
type LogHost struct {
	Peer   string `json:"peer"`
	ID     string `json:"id"`
	Error  string `json:"error,omitempty"`  // why it said nothing
	Missed uint64 `json:"missed,omitempty"` // lines after the position asked for that it keeps no more
	last   string // its position
}

// LogPage is lines of the peers' logs.
type LogPage struct {
	Lines []LogLine `json:"lines"` // the oldest first
	Last  string    `json:"last"`  // the after of the next question, to any peer
	Hosts []LogHost `json:"hosts"` // all that were asked
}

// ownLog is what a peer says of its own.
type ownLog struct {
	Lines  []LogLine `json:"lines"`
	Last   string    `json:"last"`
	Missed uint64    `json:"missed"`
}

func (l *Logs) routes(g *echo.Group) { g.GET("/log", l.all) }

func (l *Logs) peerRoutes(e *echo.Echo) {
	e.GET(PathPeerLog, func(c echo.Context) error {
		w, after, err := wantedLines(c.QueryParams())
		if err != nil {
			return err
		}
		w.After = after[l.ID]
		own, err := l.own(w)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, own)
	})
}

// all answers with the lines of all peers.
func (l *Logs) all(c echo.Context) error {
	w, after, err := wantedLines(c.QueryParams())
	if err != nil {
		return err
	}
	others := l.Ask(c.Request().Context(), PathPeerLog+"?"+c.QueryParams().Encode())
	page := LogPage{Lines: []LogLine{}}
	w.After = after[l.ID]
	own, err := l.own(w)
	page.add(LogHost{Peer: l.Peer, ID: l.ID}, own, err, after)
	for _, a := range others {
		var theirs ownLog
		a.decode(&theirs)
		page.add(LogHost{Peer: a.Name, ID: a.ID}, theirs, a.Err, after)
	}
	page.order()
	if len(after) == 0 && len(page.Lines) > w.Most {
		page.Lines = page.Lines[len(page.Lines)-w.Most:]
	}
	return c.JSON(http.StatusOK, page)
}

// add takes over what a host said. One that says nothing goes on later where it was.
func (p *LogPage) add(h LogHost, said ownLog, err error, after map[string]string) {
	h.last, h.Missed = said.Last, said.Missed
	if err != nil {
		h.Error, h.last = err.Error(), after[h.ID]
	}
	for _, line := range said.Lines {
		line.Peer = h.Peer // as the cluster calls it, not as it calls itself
		p.Lines = append(p.Lines, line)
	}
	p.Hosts = append(p.Hosts, h)
}

// order sorts lines by time and hosts by name, and makes the position.
func (p *LogPage) order() {
	slices.SortStableFunc(p.Lines, func(a, b LogLine) int { return cmp.Compare(a.Time, b.Time) })
	byPeer(p.Hosts, func(h LogHost) (peer, id string) { return h.Peer, h.ID })
	var last []string
	for _, h := range p.Hosts {
		if h.last != "" {
			last = append(last, h.ID+":"+h.last)
		}
	}
	p.Last = strings.Join(last, ",")
}

// own are the lines of this host's peer.
func (l *Logs) own(w logs.Wanted) (ownLog, error) {
	out := ownLog{Lines: []LogLine{}}
	if l.Recent == nil {
		return out, errNoLines
	}
	lines, last, missed := l.Recent.Newest(w)
	out.Last, out.Missed = last, missed
	if len(lines) == 0 {
		return out, nil
	}
	hide := l.Redactor()
	for _, line := range lines {
		text := strings.TrimSuffix(line.Text, "\n")
		for _, key := range []string{slog.TimeKey, slog.LevelKey} { // a LogLine has these; an object of JSON keeps them
			if strings.HasPrefix(text, key+"=") {
				_, text, _ = strings.Cut(text, " ")
			}
		}
		out.Lines = append(out.Lines, LogLine{Time: line.Time.UTC().Format(logTime), Peer: l.Peer,
			Level: line.Level.String(), Request: hide.Text(line.Request.ID), Text: hide.Text(text)})
	}
	return out, nil
}

// logTime is RFC 3339 with as many digits in each: times sort as texts.
const logTime = "2006-01-02T15:04:05.000000Z07:00"

var errNoLines = conflict("see the journal: 'journalctl -u trivet'",
	"the program that runs this peer keeps no lines of its log")

// wantedLines reads what a caller wants, and the positions by server ID.
func wantedLines(query url.Values) (logs.Wanted, map[string]string, error) {
	w := logs.Wanted{Request: query.Get("request"), Level: slog.LevelDebug, Most: usualLogLines, Bytes: maxLogBytes}
	if text := query.Get("level"); text != "" {
		if err := w.Level.UnmarshalText([]byte(text)); err != nil {
			return w, nil, invalid("level: %.40q is none of debug, info, warn, error", text)
		}
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return w, nil, invalid("limit: %.40q is not a number from 1 to %d", text, maxLogLines)
		}
		w.Most = min(n, maxLogLines)
	}
	text := query.Get("after")
	if len(text) > maxLogAfter {
		return w, nil, invalid("after: it has more than %d bytes; send the 'last' of an answer", maxLogAfter)
	}
	after := make(map[string]string)
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		id, at, found := strings.Cut(one, ":")
		if !found {
			return w, nil, invalid("after: %.40q is no position; send the 'last' of an answer", one)
		}
		after[id] = at
	}
	return w, after, nil
}

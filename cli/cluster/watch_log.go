package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/pace"
)

// logWanted is what of the log is watched.
type logWanted struct {
	all     bool   // --log
	request string // --request
	level   string // --level
}

// caller asks a peer. term.Peer is one.
type caller interface {
	Call(ctx context.Context, method, path string, in, out any) error
}

// logWatch follows the logs of all peers, by the peer that is asked.
type logWatch struct {
	term   *term.Terminal
	peer   caller
	query  url.Values
	silent map[string]string // hosts that do not tell, by ID, and why
}

// watchLog prints the newest lines of the peers' logs, and asks once a second for what is new. While the
// peer does not answer it asks again.
func watchLog(ctx context.Context, t *term.Terminal, peer caller, f *watchFlags) error {
	w := &logWatch{term: t, peer: peer, query: url.Values{}, silent: make(map[string]string)}
	w.query.Set("limit", strconv.Itoa(max(f.lines, 1)))
	for name, value := range map[string]string{"request": f.log.request, "level": f.log.level} {
		if value != "" {
			w.query.Set(name, value)
		}
	}
	page, err := w.ask(ctx)
	if err != nil {
		return err
	}
	page.Lines = page.Lines[max(0, len(page.Lines)-f.lines):]
	if err := w.print(page); err != nil || f.once {
		return err
	}
	w.query.Set("limit", strconv.Itoa(maxEventLines))
	for away := false; pace.Wait(ctx, watchPause); {
		page, err := w.ask(ctx)
		var refused *api.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
			return err
		case err != nil:
			if !away {
				w.term.Warn("the peer does not answer; asking again: %s", term.Printable(err.Error()))
			}
			away = true
			continue
		case away:
			w.term.Say("the peer answers again")
			away = false
		}
		if err := w.print(page); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for the lines after the position, and moves it.
func (w *logWatch) ask(ctx context.Context) (page admin.LogPage, err error) {
	if err = w.peer.Call(ctx, http.MethodGet, "/v1/log?"+w.query.Encode(), nil, &page); err == nil {
		w.query.Set("after", page.Last)
	}
	return page, err
}

// print prints a line for each, and says once what is missing of a host.
func (w *logWatch) print(page admin.LogPage) error {
	for _, h := range page.Hosts {
		if h.Error != w.silent[h.ID] {
			if w.silent[h.ID] = h.Error; h.Error != "" {
				w.term.Warn("%s does not tell its log: %s", term.Printable(h.Peer), term.Printable(h.Error))
			} else {
				w.term.Say("%s tells its log again", term.Printable(h.Peer))
			}
		}
		if h.Missed > 0 {
			w.term.Warn("%s: %d lines are missing: it keeps the newest alone; 'journalctl -u trivet' there has them",
				term.Printable(h.Peer), h.Missed)
		}
	}
	mark := w.term.Style()
	for _, l := range page.Lines {
		var line []byte
		var err error
		if w.term.Format == "json" {
			line, err = json.Marshal(l)
			line = term.Escaped(line)
		} else {
			text := term.Printable(l.Text)
			switch l.Level {
			case slog.LevelError.String():
				text = mark.Bad(text)
			case slog.LevelWarn.String():
				text = mark.Doubtful(text)
			}
			line = fmt.Appendf(nil, "%s  %s  %-5s  %s", term.Printable(l.Time), term.Printable(l.Peer), term.Printable(l.Level),
				text)
		}
		if err == nil {
			_, err = fmt.Fprintf(w.term.Out, "%s\n", line)
		}
		if err != nil {
			return fmt.Errorf("print log: %w", err)
		}
	}
	return nil
}

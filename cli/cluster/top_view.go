package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// tone is how a text is marked. The text alone says all that its tone does.
type tone int

const (
	plain tone = iota
	strong
	doubtful
	bad
	inverse
)

// span is text of one tone, and line is what a row of the terminal shows.
type (
	span struct {
		text string
		tone tone
	}
	line []span
)

// says makes a line. What peers and machines wrote steers no terminal: no other code makes spans.
func says(t tone, format string, args ...any) line {
	return line{{term.Printable(fmt.Sprintf(format, args...)), t}}
}

// and puts more behind a line.
func (l line) and(t tone, format string, args ...any) line {
	return append(l, says(t, format, args...)...)
}

// Bounds of what is shown.
const (
	leastCols, leastRows = 40, 10
	fewestEvents         = 3  // that are shown before other parts give way
	roomy                = 40 // rows from which on parts are apart, and say more
	nameCols             = 10 // of a peer in the timeline
	mostWarnings         = 6
	movedShown           = time.Minute // another peer answers
)

// view is what a terminal of this size shows at a moment of our clock.
func (b *board) view(cols, rows int, wall time.Time) []line {
	if cols < leastCols || rows < leastRows {
		return []line{says(plain, "%dx%d is too small", cols, rows), says(plain, "80x24 is enough; q quits")}
	}
	foot := b.foot()
	if b.answered.IsZero() {
		out := []line{b.title(cols, wall)}
		if b.trouble != "" {
			out = append(out, says(bad, "%s", b.trouble))
		} else {
			out = append(out, says(plain, "asking the peers …"))
		}
		return append(pad(out, rows-1), foot)
	}
	parts := b.parts(cols, rows, wall)
	out := []line{b.title(cols, wall)}
	for _, p := range fitting(parts, rows-2-1-fewestEvents) { // but the title, the foot, and a title of events
		out = append(out, p.lines...)
	}
	out = append(out, b.below(cols, rows-len(out)-1)...)
	return append(pad(out[:min(len(out), rows-1)], rows-1), foot)
}

// pad adds empty lines up to a number of rows.
func pad(out []line, rows int) []line {
	for len(out) < rows {
		out = append(out, nil)
	}
	return out
}

// part is one of the board; the one with the least weight gives way first.
type part struct {
	weight int
	lines  []line
}

// fitting drops parts until the rest fits into so many rows.
func fitting(parts []part, rows int) []part {
	for {
		used, least := 0, 0
		for i, p := range parts {
			used += len(p.lines)
			if p.weight < parts[least].weight {
				least = i
			}
		}
		if used <= rows || len(parts) == 1 {
			return parts
		}
		parts = slices.Delete(parts, least, least+1)
	}
}

// parts are all of them, in the order in which they are shown.
func (b *board) parts(cols, rows int, wall time.Time) []part {
	s, now := b.status, b.now(wall)
	pxe := pxeText(s.PXE, now)
	if s.PXE.Guarded && len(s.PXE.OpenOn) > 0 { // in a few words
		pxe = fmt.Sprintf("open on %s%s", strings.Join(s.PXE.OpenOn, ", "), lasts(s.PXE.Since, now))
	}
	head := b.doubts(wall)
	head = append(head, labelled("leader", toneIf(s.Leader == "", bad), "%s", leaderText(s, lasts(s.LeaderSince, now))),
		labelled("quorum", quorumTone(s.Quorum), "%s", Arithmetic(s.Quorum)),
		labelled("pxe", toneIf(s.PXE.Guarded && len(s.PXE.OpenOn) == 0, bad), "%s", pxe))
	if f := s.FloatingIP; f != nil {
		head = append(head, labelled("floating ip", toneIf(f.Holder == "", bad), "%s", holderText(*f)))
	}
	parts := []part{{9, head}, {8, b.machines(cols, rows)}, {5, b.warnings(rows)}, {7, b.peers(rows)},
		{4, b.timeline(cols, now)}, {3, b.changes(rows)}}
	parts = slices.DeleteFunc(parts, func(p part) bool { return len(p.lines) == 0 })
	if rows >= roomy {
		for i := range parts {
			parts[i].lines = append(parts[i].lines, nil)
		}
	}
	return parts
}

func labelled(label string, t tone, format string, args ...any) line {
	return says(plain, "%-12s ", label).and(t, format, args...)
}

func toneIf(is bool, t tone) tone {
	if is {
		return t
	}
	return plain
}

// contactTone is bad of a peer that is not heard.
func contactTone(p api.Peer) tone {
	if p.Live && p.Unreachable {
		return doubtful
	}
	return toneIf(!p.Live, bad)
}

func warningTone(w api.Warning) tone {
	if w.Severity == api.SeverityDegraded {
		return bad
	}
	return doubtful
}

// quorumTone tells where writes fail, or the next loss ends them.
func quorumTone(q api.Quorum) tone {
	switch {
	case !q.HasWrite:
		return bad
	case q.CanLose == 0:
		return doubtful
	}
	return plain
}

// lasts is for how long something has been so since a moment.
func lasts(since string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" for %v", max(now.Sub(at), 0).Round(time.Second))
}

// title names the peer that answers, and says how the cluster stands.
func (b *board) title(cols int, wall time.Time) line {
	left := "trivet top"
	if b.status.Name != "" {
		left += "  " + strings.ReplaceAll(b.status.Health, "_", " ") + ", by " + b.status.Name
	}
	right := b.now(wall).UTC().Format("15:04:05Z")
	gap := max(cols-utf8.RuneCountInString(left)-len(right), 1)
	return says(inverse, "%s%s%s", left, strings.Repeat(" ", gap), right)
}

// doubts say why what is shown may not be so any more.
func (b *board) doubts(wall time.Time) (out []line) {
	s := b.status
	if !b.silent.IsZero() {
		out = append(out, says(bad, "NO PEER ANSWERS for %v; asking again. What follows is as of %v ago.",
			wall.Sub(b.silent).Round(time.Second), wall.Sub(b.answered).Round(time.Second)), says(bad, "%s", b.trouble))
	}
	if s.StaleMS > 0 {
		out = append(out, says(bad, "STALE: %s hears of no leader; its state is as of %v ago.", s.Name, age(s.StaleMS)))
	}
	if s.AsOfMS > 0 {
		out = append(out, says(doubtful, "Who answers is as of %v ago.", age(s.AsOfMS)))
	}
	if b.before != "" && b.silent.IsZero() && wall.Sub(b.moved) < movedShown {
		out = append(out, says(doubtful, "%s did not answer; %s does since %v ago.", b.before, s.Name,
			wall.Sub(b.moved).Round(time.Second)))
	}
	return out
}

// machines counts the introspections by state, in a tall terminal with a bar for each.
func (b *board) machines(cols, rows int) []line {
	counts := b.status.Introspections
	out := []line{labelled("machines", plain, "%s", nodesText(counts))}
	if rows < roomy {
		return out
	}
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	for _, state := range nodeStates() {
		if n := counts[state]; n > 0 {
			bar := max(n*min(cols-30, 100)/most, 1)
			out = append(out, says(plain, "  %-10s %7d ", state, n).and(toneIf(state == "error", bad), "%s", repeat('#', bar)))
		}
	}
	return out
}

// warnings are those of the status; where there is room, with what to do.
func (b *board) warnings(rows int) (out []line) {
	all := b.status.Warnings
	most := 2
	if rows >= roomy {
		most = mostWarnings
	}
	for i, w := range all {
		if i == most {
			out = append(out, says(doubtful, "%d more: 'trivet status'", len(all)-most))
			break
		}
		out = append(out, labelled("warning", warningTone(w), "%s%s (%s)", whereText(w, len(b.status.Peers)), w.Text, w.Code))
		if rows >= roomy {
			out = append(out, labelled("", plain, "%s", w.Remedy))
		}
	}
	return out
}

// peers is the table of peers.
func (b *board) peers(rows int) []line {
	all, most := b.status.Peers, max(rows/4, 3)
	cells := [][]string{{"PEER", "ROLE", "CONTACT", "LAG", "SERVICES", "VERSION"}}
	tones := []tone{strong}
	for _, p := range all[:min(len(all), most)] {
		tones = append(tones, contactTone(p))
		if p.Live {
			p.ContactMS = 0 // the age of the newest contact, which is another each second
		}
		cells = append(cells, term.Each( // so that each is one row
			[]string{p.Name, Role(p), contactText(p), lag(p), b.services(p.Name), p.Version}, term.Printable))
	}
	var out []line
	for text := range strings.Lines(term.Aligned(cells)) {
		out = append(out, says(tones[len(out)], "%s", strings.TrimRight(text, " \n")))
	}
	if more := len(all) - most; more > 0 {
		out = append(out, says(plain, "%d more: 'trivet status'", more))
	}
	return out
}

// services are those that a host has for others now.
func (b *board) services(name string) string {
	var out []string
	if slices.Contains(b.status.PXE.OpenOn, name) {
		out = append(out, "PXE")
	}
	if f := b.status.FloatingIP; f != nil && f.Holder == name {
		out = append(out, "floating IP")
	}
	return term.Dash(strings.Join(out, ", "))
}

// unheard is for how long the peer that answers has heard of no leader, and we of no peer.
func (b *board) unheard(now time.Time) time.Duration {
	stale := time.Duration(b.status.StaleMS) * time.Millisecond
	if !b.silent.IsZero() {
		stale += now.Sub(b.now(b.answered))
	}
	return max(stale, 0)
}

// timeline has a lane for each peer.
func (b *board) timeline(cols int, now time.Time) []line {
	if len(b.events) == 0 {
		return nil
	}
	took := time.Hour // or as short as holds all events
	for _, d := range []time.Duration{15 * time.Minute, 5 * time.Minute, time.Minute} {
		if servers.Moment(b.events[0].Time).After(now.Add(-d)) {
			took = d
		}
	}
	known := now.Add(-b.unheard(now))
	title := fmt.Sprintf("TIMELINE of %d min", int(took.Minutes()))
	if took == time.Hour {
		title = "TIMELINE of 1 hour"
	}
	out := []line{says(strong, "%s", title).and(plain, "  %s", laneLegend)}
	for _, p := range b.status.Peers {
		out = append(out, says(plain, "%-*s ", nameCols, term.Clipped(p.Name, nameCols)).
			and(plain, "%s", lane(b.events, p.Name, now.Add(-took), known, now, cols-nameCols-1)))
	}
	return out
}

// changes are the newest changes of leaders.
func (b *board) changes(rows int) (out []line) {
	most := 2
	if rows >= roomy {
		most = 6
	}
	leader := "" // of before; "" where that is not known
	var began time.Time
	for _, e := range b.events {
		if e.Kind != eventring.TopicLeadership.String() || e.Action != "acquired" {
			continue
		}
		at := servers.Moment(e.Time)
		text := fmt.Sprintf("%s  %s leads", at.UTC().Format("15:04:05Z"), e.Peer)
		switch led := at.Sub(began).Round(time.Second); {
		case len(out) > 0 && leader == e.Peer:
			text += fmt.Sprintf(" again, %v after it began to before", led)
		case leader != "":
			text += fmt.Sprintf(", %v after %s began to", led, leader)
		}
		out = append(out, says(plain, "%s", text))
		leader, began = e.Peer, at
	}
	slices.Reverse(out) // the newest first
	return out[:min(len(out), most)]
}

// below fills the rest of the rows: with events, or with what the keys do.
func (b *board) below(cols, rows int) []line {
	if b.help {
		return []line{
			says(strong, "KEYS"),
			says(plain, "q, Ctrl-C      quit"),
			says(plain, "/              only events that hold a text; Escape shows all again"),
			says(plain, "up, down       move through the events; also page up and page down"),
			says(plain, "home, end      the newest events, the oldest ones"),
			says(plain, "?              this help, and back"),
		}
	}
	all := b.shown()
	b.page = max(rows-1, 1)
	b.scroll = min(b.scroll, max(len(all)-b.page, 0))
	title := says(strong, "EVENTS")
	if b.filter != "" {
		title = title.and(plain, "  %d of %d hold %q; Escape shows all", len(all), len(b.events), b.filter)
	}
	if b.scroll > 0 {
		title = title.and(doubtful, "  %d newer above", b.scroll)
	}
	out := []line{title}
	for _, e := range all[b.scroll:min(len(all), b.scroll+b.page)] {
		at := servers.EventTime(e)
		if moment := servers.Moment(e.Time); cols < 120 && !moment.IsZero() {
			at = moment.UTC().Format("15:04:05Z") // a narrow terminal has no room for the day
		}
		out = append(out, says(plain, "%s  %-13s  ", at, e.Kind).and(eventTone(e), "%s", e.Text))
	}
	if len(all) == 0 {
		out = append(out, says(plain, "none yet"))
	}
	return out
}

// foot says what the keys do, or what is typed.
func (b *board) foot() line {
	if b.typing {
		return says(strong, "/%s", b.filter).and(inverse, " ").and(plain, "  Enter keeps it, Escape shows all")
	}
	return says(plain, "q quit  / filter  arrows scroll  ? help")
}

package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/logs"
)

const (
	// marksEvery is how often a peer looks whether the log has its marks: it may
	// have joined, or a snapshot may have been restored.
	marksEvery = 5 * time.Second
	// marksLimit bounds one attempt to tell them.
	marksLimit = 5 * time.Second
)

// marksLog is what publishing needs of the log.
type marksLog interface{ View() fsm.View }

// marksSession is what publishing needs of this peer's session.
type marksSession interface {
	ID() fencing.Token
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}

// marker keeps in the log what this peer says of its configuration.
type marker struct {
	self    string // server ID
	log     marksLog
	session marksSession
	conf    func() config.Config
	news    <-chan struct{} // conf is another
	logger  *slog.Logger
}

// run tells the marks whenever the log has others, until ctx ends. While a member
// does not know such entries nothing is told.
func (m marker) run(ctx context.Context) {
	tick := time.NewTicker(marksEvery)
	defer tick.Stop()
	for {
		if err := m.tell(ctx); err != nil && ctx.Err() == nil {
			m.logger.Debug("publish configuration marks failed, retrying", "retry_in", marksEvery, "err", err)
		}
		select {
		case <-tick.C:
		case <-m.news:
		case <-ctx.Done():
			return
		}
	}
}

// tell commits the marks unless the log has them, or cannot take any.
func (m marker) tell(ctx context.Context) error {
	v := m.log.View()
	session := m.session.ID()
	key := v.Secrets().CAKey
	if session.IsZero() || len(key) == 0 || v.Admits(fsm.PublishMarks{}) != nil {
		return nil
	}
	sections := markSections(m.conf().Marks(key))
	if now, told := v.ConfigMarks(m.self); told && slices.EqualFunc(now.Sections, sections, equalSection) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, marksLimit)
	defer cancel()
	res, err := m.session.Do(limited, "", fsm.PublishMarks{Session: session, Sections: sections})
	if err != nil {
		return err
	}
	return res.Err()
}

func equalSection(a, b fsm.MarkSection) bool {
	return a.Name == b.Name && slices.Equal(a.Marks, b.Marks)
}

// markSections orders marks as the log wants them.
func markSections(marks map[string]uint64) []fsm.MarkSection {
	bySection := make(map[string][]fsm.OptionMark)
	for key, value := range marks {
		section := config.SectionOf(key)
		name := strings.TrimPrefix(strings.TrimPrefix(key, section), ".")
		bySection[section] = append(bySection[section], fsm.OptionMark{Name: name, Value: value})
	}
	var out []fsm.MarkSection
	for name, options := range bySection {
		slices.SortFunc(options, func(a, b fsm.OptionMark) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, fsm.MarkSection{Name: name, Marks: options})
	}
	slices.SortFunc(out, func(a, b fsm.MarkSection) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (p *Peer) marker() marker {
	return marker{self: p.id.ID, log: p.core.Store, session: p.core.Session, conf: p.config, news: p.configured.news, logger: logs.Limit(p.opts.Logger)}
}

// differWarnings name the peers whose configurations are not as the others'.
func differWarnings(v fsm.View) []api.Warning {
	var texts []string
	for _, g := range grouped(v.MarkDifferences()) {
		odd := strings.Join(namesOf(v, g.odd), ", ")
		text := odd + " are configured differently: "
		if len(g.usual) > 0 {
			text = odd + " differs from " + strings.Join(namesOf(v, g.usual), ", ") + ": "
		}
		texts = append(texts, text+strings.Join(g.keys, ", "))
	}
	if len(texts) == 0 {
		return nil
	}
	return []api.Warning{{Code: "config_differs", Text: "options that have to be equal on all peers are not: " + strings.Join(texts, "; "),
		Remedy: "'trivet doctor --check config' says which line to change, and on which host"}}
}

// group is the keys in which the same peers differ.
type group struct {
	usual, odd []string
	keys       []string
}

// grouped puts together what can be said in one sentence, in the order of keys.
func grouped(all []fsm.MarkDifference) []group {
	var out []group
	for _, d := range all {
		i := slices.IndexFunc(out, func(g group) bool { return slices.Equal(g.odd, d.Odd) && slices.Equal(g.usual, d.Usual) })
		if i < 0 {
			out = append(out, group{usual: d.Usual, odd: d.Odd})
			i = len(out) - 1
		}
		out[i].keys = append(out[i].keys, d.Key)
	}
	return out
}

func namesOf(v fsm.View, ids []string) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = nameOf(v, id)
	}
	slices.Sort(names)
	return names
}

// addConfigured adds how this peer is configured where peers differ.
func (p *Peer) addConfigured(f *doctor.Facts) {
	v, conf := p.core.Store.View(), p.config()
	marks := conf.Marks(v.Secrets().CAKey)
	for _, d := range v.MarkDifferences() {
		o, known := config.Lookup(d.Key)
		if !known {
			continue
		}
		at := conf.Origin(d.Key)
		f.Configured = append(f.Configured, doctor.Configured{
			Key: d.Key, Line: conf.Line(d.Key), Where: at.String(), InFile: at.Kind == config.FromFile, Secret: o.Secret(),
			Mark: fmt.Sprintf("%016x", marks[d.Key]), Restart: o.Change != config.AtReload,
		})
	}
}

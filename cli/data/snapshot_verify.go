package data

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm"
)

// content is what a snapshot holds, without secrets.
type content struct {
	Cluster     string `json:"cluster_id"`
	Incarnation uint64 `json:"incarnation"`
	Index       uint64 `json:"applied_index"`
	TokenBase   string `json:"token_base"`
	Token       string `json:"token"` // of the newest leadership
	LogVersion  int    `json:"log_version"`
	Members     int    `json:"members"`
	Settings    int    `json:"settings"`
	Hash        string `json:"hash"`
}

func contentOf(v fsm.View) content {
	return content{
		Cluster: v.ClusterID(), Incarnation: v.Incarnation(), Index: v.Index(), TokenBase: fmt.Sprint(v.Base()),
		Token: v.Floor().String(), LogVersion: v.ClusterVersion(), Members: len(v.Members()), Settings: len(v.Settings()),
		Hash: fmt.Sprintf("%x", v.Hash()),
	}
}

// verdict is what verify says of one file.
type verdict struct {
	File    string   `json:"file"`
	Good    bool     `json:"good"`
	Problem string   `json:"problem,omitempty"`
	Content *content `json:"content,omitempty"`

	code int // of the process, if this is the worst
}

func (v verdict) line() string {
	if v.Good {
		return "good"
	}
	return v.Problem
}

// verifySnapshots judges every file before it fails for any.
func verifySnapshots(t *term.Terminal, paths []string) error {
	var rows []verdict
	bad, code := 0, term.ExitOK
	for _, path := range paths {
		v := verify(t, path)
		rows = append(rows, v)
		if !v.Good {
			bad++
			code = max(code, v.code) // newer (8) before not there (2) before damaged (1)
		}
	}
	type row struct {
		File, Cluster, Index string
		LogVersion, Token    string `col:"wide"`
		Verdict              string
	}
	err := t.Show(rows, term.Each(rows, func(v verdict) row {
		if v.Content == nil {
			return row{File: v.File, Verdict: v.line()}
		}
		return row{v.File, v.Content.Cluster, fmt.Sprint(v.Content.Index), fmt.Sprint(v.Content.LogVersion), v.Content.Token,
			v.line()}
	}))
	if err != nil || bad == 0 {
		return err
	}
	hint := "restore an older one; a damaged copy may have a good original on another host"
	if code == term.ExitUnknownEntry {
		hint = "the newer ones are whole: verify and restore them with the version of trivet that wrote them"
	}
	return term.Fail(code, hint, "%d of %d snapshots cannot be restored here", bad, len(paths))
}

// verify reads a file as a restore would, and examines the documents in it too.
func verify(t *term.Terminal, path string) verdict {
	out := verdict{File: path}
	f, state, err := openSnapshot(t, path)
	if err == nil {
		defer f.Close()
		c := contentOf(state.View())
		out.Content = &c
		if err = state.View().Check(); err == nil {
			out.Good = true
			return out
		}
	}
	var unusable *fsm.SnapshotError
	switch {
	case errors.As(err, &unusable):
		out.code, out.Problem = term.ExitFailed, unusable.Error()
		if errors.Is(err, fsm.UnknownEntry) {
			out.code = term.ExitUnknownEntry
		}
	case out.Content != nil:
		out.code, out.Problem = term.ExitFailed, "it contradicts itself: "+err.Error()
	default:
		out.code, out.Problem = term.ExitOf(err), err.Error()
	}
	return out
}

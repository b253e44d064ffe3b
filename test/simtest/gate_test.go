package simtest

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate()
		if !g.Wait(nil) || g.Paused() {
			t.Error("a new gate is shut")
		}
		g.Pause()
		g.Pause()
		passed := make(chan bool, 2)
		done := make(chan struct{})
		go func() { passed <- g.Wait(nil) }()
		go func() { passed <- g.Wait(done) }()
		time.Sleep(time.Hour)
		if len(passed) != 0 || !g.Paused() {
			t.Fatal("somebody went through a shut gate")
		}
		close(done)
		if <-passed {
			t.Error("a wait that was called off says that the gate is open")
		}
		g.Resume()
		if !<-passed {
			t.Error("a wait without end was called off")
		}
		var none *Gate
		if !none.Wait(nil) || none.Paused() {
			t.Error("no gate is shut")
		}
	})
}

func TestGateHoldsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		g := NewGate()
		log := slog.New(g.Handler(slog.NewTextHandler(&out, nil))).With("peer", "a").WithGroup("raft")
		g.Pause()
		done := make(chan struct{})
		go func() {
			log.Debug("below the level")
			close(done)
		}()
		time.Sleep(time.Minute)
		select {
		case <-done:
			t.Error("a stopped process logged")
		default:
		}
		g.Resume()
		<-done
		log.Info("steps down", "term", 3)
		if got := out.String(); !bytes.Contains(out.Bytes(), []byte(`msg="steps down" peer=a raft.term=3`)) {
			t.Errorf("log: %s", got)
		}
	})
}

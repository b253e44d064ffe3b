package kube

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/lease/elector"
)

// holds lets another program hold both objects, as client-go writes them: what is in
// annotations beside its own stays.
func (s *site) holds(holder string, seconds int, renewed time.Time) {
	record, err := json.Marshal(oldRecord{Holder: holder, Duration: seconds, Acquired: renewed, Renewed: renewed})
	if err != nil {
		s.Fatal(err)
	}
	for path, content := range map[string]map[string]any{
		leasePath: {"spec": map[string]any{"holderIdentity": holder, "leaseDurationSeconds": seconds,
			"renewTime": renewed.Format(microTime)}},
		endpointsPath: {"metadata": map[string]any{"annotations": map[string]any{
			AnnotationLeader: string(record),
		}}},
	} {
		if s.objects[path] == nil {
			s.objects[path] = map[string]any{"metadata": map[string]any{"uid": "2", "resourceVersion": "0"}}
		}
		merge(s.objects[path], content)
	}
}

// heldBy fails the test unless both objects name a holder.
func (s *site) heldBy(holder string) {
	s.Helper()
	s.is(holder, leasePath, "spec", "holderIdentity")
	if r := s.record(); r.Holder != holder {
		s.Errorf("mirror-foreign: the record names %q, want %q", r.Holder, holder)
	}
}

// TestMirrorLeavesALivingHolder of another election, such as kube-scheduler's, in
// both objects: as long as it renews, on our own clock.
func TestMirrorLeavesALivingHolder(t *testing.T) {
	s := openOn(t)
	ours := elector.Claim{Name: "one", Token: 7}
	for i := range 10 {
		s.holds("host-a_1234", 15, s.wall.Add(-time.Hour)) // its clock is an hour behind
		if err := s.put(ours); !errors.Is(err, ErrForeign) {
			t.Fatalf("mirror-foreign: write %d: %v, want %v", i, err, ErrForeign)
		}
		s.heldBy("host-a_1234")
		s.wall, s.now = s.wall.Add(10*time.Second), s.now+10*time.Second
	}
	// It renews no more: its time passes.
	if err := s.put(ours); !errors.Is(err, ErrForeign) {
		t.Errorf("mirror-foreign: %v before its time was over", err)
	}
	s.now += 16 * time.Second
	if err := s.put(ours); err != nil {
		t.Errorf("mirror-foreign: %v after it renewed no more for 16 s", err)
	}
	s.heldBy("one")
	s.is("7", leasePath, "metadata", "annotations", kubeclient.AnnotationToken)
}

// TestMirrorSeesWhoTookItOver: client-go keeps our annotations when it writes.
func TestMirrorSeesWhoTookItOver(t *testing.T) {
	s := openOn(t)
	if err := s.put(elector.Claim{Name: "one", Token: 7}); err != nil {
		t.Fatal(err)
	}
	s.holds("host-a_1234", 15, s.wall)
	for _, w := range []elector.Claim{{Name: "one", Token: 7}, {Name: "two", Token: 9}} {
		if err := s.put(w); !errors.Is(err, ErrForeign) {
			t.Errorf("mirror-foreign: %v, want %v", err, ErrForeign)
		}
		s.heldBy("host-a_1234")
	}
}

// TestMirrorTakesWhatIsFree: a record that was given back, or was never held.
func TestMirrorTakesWhatIsFree(t *testing.T) {
	s := openOn(t)
	s.holds("", 1, s.wall)
	if err := s.put(elector.Claim{Name: "one", Token: 7}); err != nil {
		t.Fatal(err)
	}
	s.heldBy("one")
}

// A foreign election is given the duration that it wrote, or ours if that is longer.
func TestMirrorWaitsForTheLongerDuration(t *testing.T) {
	for wrote, waits := range map[int]time.Duration{60: 60 * time.Second, 1: 4500 * time.Millisecond} {
		s := openOn(t)
		s.holds("host-a_1234", wrote, s.wall)
		began := s.now
		for ; s.now <= began+waits; s.now += 500 * time.Millisecond {
			if err := s.put(elector.Claim{Name: "one", Token: 7}); !errors.Is(err, ErrForeign) {
				t.Fatalf("foreign-duration: %d s are written, and after %v: %v, want %v", wrote, s.now-began, err, ErrForeign)
			}
		}
		if err := s.put(elector.Claim{Name: "one", Token: 7}); err != nil {
			t.Errorf("foreign-duration: %d s are written, and after %v: %v", wrote, s.now-began, err)
		}
		s.heldBy("one")
	}
}

// A holder of another election gives the record back and takes it again, in words that
// were seen long ago: its time counts from when it took it.
func TestMirrorForgetsWhoGaveTheRecordBack(t *testing.T) {
	s := openOn(t)
	ours := elector.Claim{Name: "one", Token: 7}
	s.holds("host-a_1234", 15, s.wall)
	if err := s.put(ours); !errors.Is(err, ErrForeign) {
		t.Fatal(err)
	}
	s.holds("", 1, s.wall)
	if err := s.put(ours); err != nil {
		t.Fatal(err)
	}
	s.now += time.Hour
	s.holds("host-a_1234", 15, s.wall)
	if err := s.put(ours); !errors.Is(err, ErrForeign) {
		t.Errorf("foreign-again: %v, want %v", err, ErrForeign)
	}
	s.heldBy("host-a_1234")
}

package datadir

import (
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// A peer that two histories know is asked once, at each of its addresses.
func TestPeersOfTwoHistoriesAreUnited(t *testing.T) {
	at := func(id, name, address, second string) membership.FormerMember {
		return membership.FormerMember{ID: id, Name: name, Address: address, Second: second}
	}
	got := united(
		[]membership.FormerMember{at("3", "h3", "c:1", ""), at("2", "h2", "new:1", ""), at("4", "h4", "d:1", "d:2")},
		[]membership.FormerMember{at("1", "h1", "a:1", ""), at("2", "h2", "old:1", ""), at("3", "h3", "c:1", ""),
			at("4", "h4", "d:2", "")},
	)
	want := []membership.FormerMember{at("1", "h1", "a:1", ""), at("2", "h2", "new:1", "old:1"), at("3", "h3", "c:1", ""),
		at("4", "h4", "d:1", "d:2")}
	if !slices.Equal(got, want) {
		t.Errorf("both-addresses: %+v, want %+v", got, want)
	}
}

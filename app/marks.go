package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
)

// addConfigured adds how this peer is configured where all have to be alike, with
// marks by which doctor compares secrets without reading them.
func addConfigured(f *doctor.Facts, conf config.Config, key []byte) {
	marks := conf.Marks(key)
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		o, known := config.Lookup(key)
		if !known {
			continue
		}
		at := conf.Origin(key)
		f.Configured = append(f.Configured, doctor.Configured{
			Key: key, Line: conf.Line(key), Where: at.String(), InFile: at.Kind == config.FromFile, Secret: o.Secret(),
			Mark: fmt.Sprintf("%016x", marks[key]), Restart: o.Change != config.AtReload,
		})
	}
}

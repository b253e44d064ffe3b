package main

// keysMutants break what guards keys, snapshots and backups.
func keysMutants() []Mutant {
	return []Mutant{
		{
			Name: "rotation-does-not-wait", Promise: "3",
			File:      "fsm/member_gossip.go",
			Old:       "len(missing) > 0 && t.now() < g.Since.Add(GossipStepTimeout)",
			New:       "false && len(missing) > 0 && t.now() < g.Since.Add(GossipStepTimeout)",
			Package:   "./fsm",
			Run:       "^TestGossipRotationStepByStep$",
			Assertion: "rotation-waits-for-the-living:",
		},
		{
			Name: "gossip-keys-confirmed-before-they-are-durable", Promise: "3",
			File:      "cluster/keyring.go",
			Old:       "\t\t\tif err := put(wanted); err != nil {\n\t\t\t\treturn err\n\t\t\t}",
			New:       "\t\t\tif put(wanted) != nil {\n\t\t\t\tcontinue\n\t\t\t}",
			Package:   "./cluster",
			Run:       "^TestRingFollowsTheLog$",
			Assertion: "confirmed-means-durable:",
		},
		{
			Name: "gossip-keys-go-back", Promise: "3",
			File:      "cluster/keyring.go",
			Old:       "wanted.Changed > f.have.Changed",
			New:       "wanted.Changed != f.have.Changed",
			Package:   "./cluster",
			Run:       "^TestRingFollowsTheLog$",
			Assertion: "ring-never-goes-back:",
		},
		{
			Name: "foreign-snapshot-restored", Promise: "3",
			File:      "app/datadir/refound.go",
			Old:       "if !same && from == \"\" {",
			New:       "if false && !same && from == \"\" {",
			Package:   "./app/datadir",
			Run:       "^TestRestoreElsewhere$",
			Assertion: "foreign-is-refused:",
		},
		{
			Name: "backup-drops-others-files", Promise: "1",
			File:      "app/backup.go",
			Old:       "ours && whole && err == nil && wrong == nil",
			New:       "true || ours && whole && err == nil && wrong == nil",
			Package:   "./app",
			Run:       "^TestBackupsAreKeptAndDropped$",
			Assertion: "retention:",
		},
		{
			Name: "backup-fills-the-disk", Promise: "1",
			File:      "app/backup.go",
			Old:       "free < need",
			New:       "need < 1",
			Package:   "./app",
			Run:       "^TestBackupsFailLoudly$",
			Assertion: "backup-leaves-room:",
		},
		{
			Name: "revoked-up-to-the-clock-of-this-peer", Promise: "1",
			File:      "fsm/member_operator.go",
			Old:       "max(o.Revoked, c.UpTo, o.Issued)",
			New:       "max(o.Revoked, c.UpTo)",
			Package:   "./fsm",
			Run:       "^TestOperatorsAreRevoked$",
			Assertion: "revoked-whatever-the-clock:",
		},
	}
}

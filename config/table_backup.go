package config

import "time"

// Backup is where and how often this peer writes the whole state by itself.
type Backup struct {
	Directory string        `key:"directory"` // "" for no backups
	Every     time.Duration `key:"every"`
	Keep      int           `key:"keep"`
}

var backupOptions = []Option{
	{Key: "backup.directory", Change: AtRestart, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		Help: "Directory for snapshots that this peer takes by itself; it must exist. They hold the cluster's keys. Empty: none are taken. The unit may write below data_dir alone: see docs/security.md."},
	{Key: "backup.every", Change: AtRestart, Extent: MostHosts, Default: "6h",
		rule: between(time.Minute, 31*24*time.Hour),
		Help: "How often. Peers take turns within it."},
	{Key: "backup.keep", Change: AtRestart, Extent: MostHosts, Default: "12", rule: number(1, 1000),
		Help: "How many of this peer's snapshots are kept there; the oldest go, and no other files."},
}

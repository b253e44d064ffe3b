package config

import "time"

// Backup is where and how often this peer writes the whole state by itself.
type Backup struct {
	Directory string // "" for no backups
	Every     time.Duration
	Keep      int
}

func backupOptions() []Option {
	return []Option{
		{Key: "backup.directory", Change: AtRestart, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
			field: func(c *Config) any { return &c.Backup.Directory },
			Help:  "Directory for snapshots that this peer takes by itself; it must exist. They hold the cluster's keys. Empty: none are taken. The unit may write below data_dir alone: see docs/security.md."},
		{Key: "backup.every", Change: AtRestart, Extent: MostHosts, Default: "6h",
			rule: between(time.Minute, 31*24*time.Hour), field: func(c *Config) any { return &c.Backup.Every },
			Help: "How often. Peers take turns within it."},
		{Key: "backup.keep", Change: AtRestart, Extent: MostHosts, Default: "12", rule: number(1, 1000),
			field: func(c *Config) any { return &c.Backup.Keep },
			Help:  "How many of this peer's snapshots are kept there; the oldest go, and no other files."},
	}
}

package config

import (
	"path"
	"time"
)

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

// Log is how a peer writes its own log, to standard error.
type Log struct {
	Level  string `key:"level"`
	Format string `key:"format"`
}

// Values of log.format.
const (
	LogText = "text"
	LogJSON = "json"
)

var logOptions = []Option{
	{Key: "log.level", Change: AtReload, Extent: MostHosts, Default: "info",
		rule: oneOf("debug", "info", "warn", "error"),
		Help: "The least that 'trivet serve' logs, on standard error."},
	{Key: "log.format", Change: AtReload, Extent: MostHosts, Default: LogText, rule: oneOf(LogText, LogJSON),
		Help: "How it is written: for people (text), or one JSON object a line (json)."},
}

// Doctor is where 'trivet doctor' looks on this host.
type Doctor struct {
	DnsmasqConf []string `key:"dnsmasq_conf"` // files, and directories as of dnsmasq's conf-dir
}

var doctorOptions = []Option{
	{Key: "doctor.dnsmasq_conf", Change: AtReload, Extent: MostHosts, Default: "/etc/dnsmasq.conf,/etc/dnsmasq.d",
		rule: pairs("an absolute path", path.IsAbs),
		Help: "Files and directories that dnsmasq on this host is configured by. What they include is found."},
}

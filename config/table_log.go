package config

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

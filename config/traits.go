package config

// Change says when a new value of an option counts for a peer that runs. Every
// option says it; the zero Change says nothing.
type Change uint8

const (
	// AtReload: at once, on SIGHUP or 'trivet config reload'.
	AtReload Change = iota + 1
	// AtRestart: the peer is made with it.
	AtRestart
	// AtJoin: the host becomes a peer with it, and the cluster keeps what it was.
	AtJoin
)

// String is how the reference says it.
func (c Change) String() string { return [...]string{"", "reload", "restart", "join"}[c] }

// Extent says on how many hosts a value is the same. Every option says it; the
// zero Extent says nothing.
type Extent uint8

const (
	// OneHost: it is about one host, and no example for others.
	OneHost Extent = iota + 1
	// MostHosts: a joining peer copies it from the peer that admits it, and a host may
	// need another: a path, the name of an interface, a limit of its own.
	MostHosts
	// AllHosts: what the cluster does would depend on who leads or who answers if
	// it were not the same. Peers compare it; see [Config.Marks].
	AllHosts
)

// String is how the reference says it.
func (e Extent) String() string { return [...]string{"", "own", "may differ", "equal"}[e] }

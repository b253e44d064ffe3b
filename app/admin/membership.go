package admin

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// Member is one line of the replicated member table.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Address string `json:"address"`
	Gossip  string `json:"gossip_address"`
	API     string `json:"api_address"`
	Version int    `json:"log_version"`
	Binary  string `json:"version"`
	Joined  string `json:"joined_at"`
	// Voter and Leader are raft's, as the peer that answers sees them.
	Voter  bool `json:"voter"`
	Leader bool `json:"leader"`
	api.Contact
	// What an operator decided of it.
	Observer         bool   `json:"observer,omitempty"`
	Maintenance      bool   `json:"maintenance,omitempty"`
	MaintenanceSince string `json:"maintenance_since,omitempty"`
}

// Transfer asks for leadership to move.
type Transfer struct {
	To string `json:"to"` // name or ID; empty for the best one
}

// Leave asks this peer to leave the cluster for good.
type Leave struct {
	Force bool `json:"force"`
}

// PathPeerSafe is where a peer asks the leader what the cluster can lose.
const PathPeerSafe = "/peer/v1/safe"

// Verdict says what the cluster can lose at this moment, as its leader has
// proved, and whether one peer may be stopped.
type Verdict struct {
	Peer     string   `json:"peer"` // name
	Live     bool     `json:"live"` // that one acknowledged a request of the leader's within the last second
	Votes    bool     `json:"votes"`
	Safe     bool     `json:"safe"` // to stop that one
	CanLose  int      `json:"can_lose"`
	Voters   int      `json:"voters"`
	Able     int      `json:"able"` // voters that answer and keep up
	Need     int      `json:"need"` // a majority
	Leader   string   `json:"leader"`
	Reasons  []string `json:"reasons,omitempty"` // why it is not safe
	Sentence string   `json:"sentence"`
}

// Exclusion gives a peer a work back, or takes it.
type Exclusion struct {
	Peer  string `json:"peer,omitempty"` // "": the peer that answers
	On    bool   `json:"on"`
	Force bool   `json:"force,omitempty"`
}

// Address is where the others dial a peer.
type Address struct {
	Cluster string `json:"address"`                  // host:port of the peers' port
	Gossip  string `json:"gossip_address,omitempty"` // host:port; "": as it was
	API     string `json:"api_address,omitempty"`    // host:port; "": as it was
}

// Membership changes what members of the cluster are for, where they are, and who is
// one. A peer is named by name or server ID; "" is the one that answers.
type Membership struct {
	*Here
	*Ending
	Port   *cluster.Port
	Access *cluster.Access
	Fit    func() error // why this peer would not lead
	Quorum func() api.Quorum
	Lift   func() // ends this peer's own maintenance at once
	// Disowned reports whether another peer says that this one is no member, and that raft
	// does not count on its vote.
	Disowned func(ctx context.Context) bool
	// HandOn gives leadership to a voter, or to the best if its ID is ""; Rest lets the workers end.
	HandOn func(ctx context.Context, to raftstore.Server) error
	Rest   func(ctx context.Context) (resume func(), err error)
}

func (m *Membership) routes(g *echo.Group) {
	g.POST("/transfer", serve(http.StatusOK, adminLimit,
		func(ctx context.Context, _ echo.Context, in Transfer) (Transfer, error) {
			to, err := m.Transfer(ctx, in.To)
			return Transfer{To: to}, err
		}))
	g.GET("/safe", get(m.safe))
}

// changes are the routes that have a dry run: nothing that they do takes effect before
// their command is committed.
func (m *Membership) changes(g *echo.Group) {
	g.DELETE("/members/:peer", act(func(ctx context.Context, c echo.Context, _ none) error {
		return m.Remove(ctx, c.Param("peer"), c.QueryParam("force") == "1")
	}))
	g.PUT("/members/:peer/address",
		act(func(ctx context.Context, c echo.Context, in Address) error { return m.Move(ctx, c.Param("peer"), in) }))
	g.POST("/leave", act(func(ctx context.Context, _ echo.Context, in Leave) error { return m.Leave(ctx, in.Force) }))
	g.PUT("/maintenance", act(func(ctx context.Context, _ echo.Context, in Exclusion) error {
		return m.Exclude(ctx, in.Peer, membership.FromLeading, in.On, in.Force)
	}))
	g.PUT("/observer", act(func(ctx context.Context, _ echo.Context, in Exclusion) error {
		return m.Exclude(ctx, in.Peer, membership.FromVoting, in.On, in.Force)
	}))
}

func (m *Membership) safe(ctx context.Context, c echo.Context) (Verdict, error) {
	return m.Safe(ctx, c.QueryParam("peer"))
}

func (c *Control) members(v fsm.View, _ echo.Context) ([]Member, error) {
	out := []Member{}
	rows := make(map[string]api.Peer)
	for _, row := range c.Host.Peers() {
		rows[row.ID] = row
	}
	for _, m := range v.Members() {
		flags, row := v.MemberFlags(m.ID), rows[m.ID]
		out = append(out, Member{
			Voter: row.Voter, Leader: row.Leader, Contact: row.Contact,
			Name: m.Name, ID: m.ID, Address: m.Address, Gossip: m.Gossip, API: m.API,
			Version: m.Version, Binary: m.Binary, Joined: wallTime(m.JoinedWall),
			Observer: flags.Observer, Maintenance: flags.Maintenance, MaintenanceSince: wallTime(flags.MaintenanceWall),
		})
	}
	byPeer(out, func(m Member) (name, id string) { return m.Name, m.ID })
	return out, nil
}

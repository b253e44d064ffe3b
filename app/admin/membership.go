package admin

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
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

// Membership changes what members of the cluster are for, and where they are. A
// peer is named by name or server ID; "" is the one that answers.
type Membership interface {
	// Exclude relieves a peer of leading (maintenance) or of voting, or gives it
	// back; it returns when raft has followed.
	Exclude(ctx context.Context, peer string, from fsm.Exclusion, on, force bool) error
	// Move changes where a peer is dialled.
	Move(ctx context.Context, peer string, to Address) error
	// Dead refuses unless a peer seems to be dead from here and in the log.
	Dead(ctx context.Context, peer string) error
}

// Safety judges what the cluster can lose.
type Safety interface {
	// Safe asks the leader whether a peer may be stopped now.
	Safe(ctx context.Context, peer string) (Verdict, error)
}

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

func (c *Control) shapeRoutes(g *echo.Group) {
	g.PUT("/maintenance", c.exclude(fsm.FromLeading))
	g.PUT("/observer", c.exclude(fsm.FromVoting))
	g.PUT("/members/:peer/address", c.moveMember)
	g.GET("/safe", c.safe)
}

func (c *Control) exclude(from fsm.Exclusion) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		var in Exclusion
		if err := body(ctx, &in); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit)
		defer cancel()
		if err := c.Membership.Exclude(limited, in.Peer, from, in.On, in.Force); err != nil {
			return err
		}
		return ctx.NoContent(http.StatusNoContent)
	}
}

func (c *Control) moveMember(ctx echo.Context) error {
	var in Address
	if err := body(ctx, &in); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit)
	defer cancel()
	if err := c.Membership.Move(limited, ctx.Param("peer"), in); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}

func (c *Control) safe(ctx echo.Context) error {
	v, err := c.Safety.Safe(ctx.Request().Context(), ctx.QueryParam("peer"))
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, v)
}

// SafeHandler answers other peers what Control answers on GET /v1/safe.
func SafeHandler(s Safety) http.Handler {
	e := api.NewEcho()
	e.GET(PathPeerSafe, (&Control{Safety: s}).safe)
	return e
}

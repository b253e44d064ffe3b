package cluster

import (
	"context"
	"errors"
	"net/url"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// removeAndInvite takes a dead peer out and prints what to run on the host that takes its
// place. The token is made first: if it cannot be, nothing has changed. To remove
// a dead voter never costs a majority that the cluster had.
func removeAndInvite(ctx context.Context, t *term.Terminal, peer term.Peer, name string, force bool) error {
	peer = peer.Within(term.ShapeLimit)
	old, err := memberCalled(ctx, peer, name)
	if err != nil {
		return err
	}
	var token admin.Token
	if err := peer.Call(ctx, "POST", "/v1/tokens", admin.NewToken{}, &token); err != nil {
		return err
	}
	path := "/v1/members/" + url.PathEscape(old.ID)
	if force {
		path += "?force=1"
	} else {
		path += "?dead=1"
	}
	if err := peer.Call(ctx, "DELETE", path, nil, nil); err != nil {
		revoked := peer.Call(ctx, "DELETE", "/v1/tokens/"+url.PathEscape(token.ID), nil, nil)
		return errors.Join(hintForce(err, force), revoked)
	}
	return t.Show(token, func() error {
		address, err := ownAddress(ctx, peer)
		if err != nil {
			return err
		}
		t.Say("%s is no member any more. Install trivet on the host that takes its place, and run there within %s:", old.Name, token.ExpiresIn)
		flags := " --name " + old.Name
		if old.Observer {
			flags += " --observer"
		}
		t.PrintJoin(address, token.Secret, flags)
		return nil
	})
}

// memberCalled returns the one member with this name or ID.
func memberCalled(ctx context.Context, peer term.Peer, name string) (admin.Member, error) {
	var rows, found []admin.Member
	if err := peer.Call(ctx, "GET", "/v1/members", nil, &rows); err != nil {
		return admin.Member{}, err
	}
	for _, m := range rows {
		if m.ID == name {
			return m, nil
		}
		if m.Name == name {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return admin.Member{}, term.Fail(term.ExitNotFound, "see 'trivet members'", "no member is called %q", name)
	default:
		return admin.Member{}, term.Fail(term.ExitConflict, "name it by its ID; see 'trivet members -o wide'", "%d members are called %q", len(found), name)
	}
}

package keystone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// renewBefore is how long before its end the examiner's own token is replaced:
// clocks differ, and a request takes a moment.
const renewBefore = time.Minute

// ErrUnknownToken tells that Keystone knows no such token, or none that is still
// good: it was never one, or expired, or was revoked.
var ErrUnknownToken = errors.New("the token is none that Keystone knows, or not good any more")

// ErrUnfitToken tells that a question was refused for the form of its token, as by the server in front of Keystone,
// which bounds the lines of a request. The caller chooses that form: Keystone may answer others, or not.
var ErrUnfitToken = errors.New("the question about the token was refused for its form")

// Holder is whose a token is, and for what.
type Holder struct {
	UserID, User, UserDomain          string
	ProjectID, Project, ProjectDomain string   // "" unless the token is for a project
	Domain                            string   // "" unless the token is for a domain
	System                            bool     // the token is for the whole of the system
	Roles                             []string // by name
	Expires                           time.Time
}

// Examiner asks Keystone who holds a token, with a token of its own that it
// renews. It may be used concurrently.
type Examiner struct {
	account   Account
	transport http.RoundTripper
	wall      func() time.Time
	session   *servicecreds.Session[Grant]
}

// NewExaminer returns one that shows a's token when it asks. Nothing is sent
// before the first question; the error is about a password that cannot be read.
// wall is compared with the times that Keystone names.
func NewExaminer(a Account, transport http.RoundTripper, wall func() time.Time) (*Examiner, error) {
	if _, err := a.Password.Read(); err != nil {
		return nil, err // said at the start rather than by the first question
	}
	e := &Examiner{account: a, transport: transport, wall: wall}
	e.session = servicecreds.NewSession(e.logIn, Refused)
	return e, nil
}

func (e *Examiner) logIn(ctx context.Context) (*Grant, error) {
	g, err := e.account.LogIn(ctx, e.transport)
	if err != nil {
		return nil, fmt.Errorf("log in as %s with %s to examine tokens: %w", e.account.User, e.account.Password.Source(), err)
	}
	return &g, nil
}

// Examine tells who holds a token. ErrUnknownToken is Keystone's word on it, and
// ErrUnfitToken tells nothing of Keystone; any other error tells that Keystone could
// not be asked.
func (e *Examiner) Examine(ctx context.Context, token string) (Holder, error) {
	own, err := e.own(ctx)
	if err != nil {
		return Holder{}, err
	}
	holder, err := e.ask(ctx, own.Token, token)
	if !Refused(err) {
		return holder, err
	}
	// Our own token ended before its time, or our user may not ask; a new login
	// tells which.
	e.session.Drop(own)
	if own, err = e.own(ctx); err != nil {
		return Holder{}, err
	}
	if holder, err = e.ask(ctx, own.Token, token); Refused(err) {
		err = fmt.Errorf("%s may not examine tokens; give it the role service or admin in the project %s: %w", e.account.User,
			e.account.Project, err)
	}
	return holder, err
}

// Check examines the examiner's own token, after logging in if need be: nil if Keystone answers and takes the
// credentials. Whether the user may examine the tokens of others shows with the first of them.
func (e *Examiner) Check(ctx context.Context) error {
	own, err := e.own(ctx)
	if err != nil {
		return err
	}
	if _, err = e.Examine(ctx, own.Token); errors.Is(err, ErrUnknownToken) {
		return nil // it had been revoked, and Keystone gave another one
	}
	return err
}

// own returns a token to ask with that has not ended.
func (e *Examiner) own(ctx context.Context) (*Grant, error) {
	kept, err := e.session.Get(ctx)
	if err != nil || kept.Expires.IsZero() || e.wall().Before(kept.Expires.Add(-renewBefore)) {
		return kept, err
	}
	e.session.Drop(kept)
	return e.session.Get(ctx)
}

// ask asks about a token. A proxy that has no route to Keystone answers 404 as Keystone does, and one in front of it
// may show a page of its own for Keystone's 404: that Keystone knows our own token tells which.
func (e *Examiner) ask(ctx context.Context, own, token string) (Holder, error) {
	holder, err := e.question(ctx, own, token)
	if !wordless(err) {
		return holder, err
	}
	if _, away := e.question(ctx, own, own); away != nil {
		return Holder{}, err
	}
	if holder, err = e.question(ctx, own, token); wordless(err) {
		err = ErrUnknownToken
	}
	return holder, err
}

// wordless reports whether a question met a 404 without the words of Keystone.
func wordless(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Status() == http.StatusNotFound
}

// question makes one request.
func (e *Examiner) question(ctx context.Context, own, token string) (Holder, error) {
	identity, err := service(e.transport, e.account.URL)
	if err != nil {
		return Holder{}, err
	}
	identity.SetToken(own)
	call := "GET " + identity.Endpoint + "auth/tokens"
	result := tokens.Get(ctx, identity, token)
	failed := &Error{Call: call, Err: result.Err, mute: true} // the answer may quote the token
	switch {
	case failed.Status() == http.StatusNotFound && failed.reason() != "":
		return Holder{}, ErrUnknownToken
	case unfit(failed.Status()):
		return Holder{}, fmt.Errorf("%w: %w", ErrUnfitToken, failed)
	case result.Err != nil:
		return Holder{}, failed
	}
	holder, err := holderOf(result)
	if err != nil {
		return Holder{}, &Error{Call: call, Err: err}
	}
	return holder, nil
}

// unfit reports whether a status is about the form of the request, whose one part that is not ours is the token.
func unfit(status int) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusRequestHeaderFieldsTooLarge}, status)
}

// holderOf takes from the answer what is needed here.
func holderOf(result tokens.GetResult) (Holder, error) {
	var body struct {
		User    tokens.User     `json:"user"`
		Project *tokens.Project `json:"project"`
		Domain  *tokens.Domain  `json:"domain"`
		System  map[string]bool `json:"system"`
		Roles   []tokens.Role   `json:"roles"`
		Expires time.Time       `json:"expires_at"`
	}
	if err := result.ExtractInto(&body); err != nil {
		return Holder{}, fmt.Errorf("decode response from Keystone: %w", err)
	}
	if body.User.ID == "" || body.Expires.IsZero() {
		return Holder{}, errors.New(
			"the answer does not say who holds the token or for how long; is the URL that of Keystone?")
	}
	h := Holder{UserID: body.User.ID, User: body.User.Name, UserDomain: body.User.Domain.Name, System: body.System["all"],
		Expires: body.Expires}
	if body.Project != nil {
		h.ProjectID, h.Project, h.ProjectDomain = body.Project.ID, body.Project.Name, body.Project.Domain.Name
	}
	if body.Domain != nil {
		h.Domain = body.Domain.Name
	}
	for _, role := range body.Roles {
		h.Roles = append(h.Roles, role.Name)
	}
	return h, nil
}

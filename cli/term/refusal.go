package term

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/client"
)

// exitOfSilence tells exit code and remedy of a question that no server
// answered.
func exitOfSilence(e *client.NoAnswerError) (code int, hint string) {
	switch {
	case e.Leaderless() && e.Changes:
		return ExitNoLeader, "see 'trivet status' on each host; it may be done all the same: look with " + lookAt(e.About) +
			" before you repeat it"
	case e.Leaderless():
		return ExitNoLeader, "see 'trivet status' on each host; --stale asks for what one peer knows"
	case e.Untrusted():
		return ExitFailed, "name the CA that signed the server's certificate: --cacert or TRIVET_CACERT"
	case e.Changes && e.Arrived():
		return ExitOutcomeUnknown, "look before you repeat it: " + lookAt(e.About)
	case e.Late():
		return ExitOutcomeUnknown, "is a host down? Name several peers, separated by commas: --server or TRIVET_SERVER"
	default:
		return ExitFailed,
			"name peers that run, separated by commas: --server or TRIVET_SERVER; 'trivet members -o wide' shows their API"
	}
}

// refusalCode translates the contract's statuses into the codes that exit
// codes go by.
func refusalCode(e *client.Error) string {
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		return api.CodeNotAuthorised
	}
	if lendsNothing(e) || storesNothing(e) {
		return api.CodeOff
	}
	switch e.Status {
	case http.StatusNotFound:
		return api.CodeNotFound
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed: // the latter two of leases
		return api.CodeConflict
	case http.StatusServiceUnavailable:
		return api.CodeNoLeader
	case http.StatusInsufficientStorage:
		return api.CodeTableFull
	case http.StatusGatewayTimeout:
		return api.CodeOutcomeUnknown
	case http.StatusBadRequest:
		// The request was well-formed, and the state of the node forbids it.
		if strings.HasPrefix(e.Message, "Can not transition from state") ||
			strings.HasPrefix(e.Message, "Invalid provision state") {
			return api.CodeConflict
		}
		return api.CodeInvalid
	case http.StatusNotAcceptable, http.StatusRequestEntityTooLarge:
		return api.CodeInvalid
	default:
		return api.CodeFailed
	}
}

// lendsNothing recognises the refusal of a peer on which leases are off.
func lendsNothing(e *client.Error) bool {
	return e.Status == http.StatusNotFound && strings.HasPrefix(e.Message, api.LeasesOff)
}

// storesNothing recognises the refusals of a peer that stores no data, in the
// original's words, which name the original's option.
func storesNothing(e *client.Error) bool {
	return strings.HasPrefix(e.Message, "Inspector is not configured to store ")
}

func refusalHint(e *client.Error) string {
	switch code := refusalCode(e); {
	case e.Status == http.StatusForbidden:
		return "this needs a user who may do more than read: --credentials or TRIVET_CREDENTIALS; with Keystone, OS_USERNAME"
	case lendsNothing(e):
		return "write lease.enabled: true in trivet.yaml on every peer and restart it, or name a cluster that lends leases with --server"
	case storesNothing(e):
		return "off: set inspection.store_data to true in trivet.yaml on every peer; 'systemctl reload trivet' is enough"
	case e.AsksKeystone():
		return OpenstackHint
	case code == api.CodeNotAuthorised && e.Login:
		return "the user or the password is wrong: see the file of --credentials or TRIVET_CREDENTIALS; 'htpasswd -vB FILE USER' on a peer tries a password against the FILE of api.http_basic_auth_user_file"
	case code == api.CodeNotAuthorised:
		return "name a file that holds user:password: --credentials or TRIVET_CREDENTIALS"
	case code == api.CodeNotFound && e.About != "" && e.About != "introspection":
		return "see " + lookAt(e.About)
	case code == api.CodeNotFound:
		return "see 'trivet introspection list', and whether Ironic knows the node by this name or UUID"
	case code == api.CodeConflict:
		return "nothing was changed; see " + lookAt(e.About)
	case e.Status < http.StatusBadRequest:
		return "this command follows no redirects: name the server it points to with --server"
	case code == api.CodeFailed:
		return "see the log of the peer: 'journalctl -u trivet'"
	default:
		_, hint := usualAnswer(code)
		return hint
	}
}

// lookAt is the command that shows what a request was about.
func lookAt(about string) string {
	switch about {
	case "leases":
		return "'trivet lease list', which says who has a lease"
	case "rules":
		return "'trivet rule list'"
	}
	return "'trivet introspection list'"
}

// OpenstackHint is what to do about a login at Keystone that failed.
const OpenstackHint = "source the openrc file of a user, or give a token: --os-token or OS_TOKEN"

// Printable replaces control and format characters: what a ramdisk or a server wrote must
// neither break a line nor steer a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

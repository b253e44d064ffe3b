package api

import "strings"

// TimedOut is how the error of an introspection begins whose machine did not call in time.
const TimedOut = "Introspection timeout"

// Remedy says what to do about the error that the introspection of a node, by UUID or name, ended in.
func Remedy(node, reason string) string {
	switch {
	case strings.HasPrefix(reason, TimedOut):
		return "the machine did not call in time: 'trivet firewall explain " + node +
			"' says whether it may boot; look at its console; then 'trivet introspection start " + node + "'"
	case strings.HasPrefix(reason, "Canceled by operator"):
		return "an operator aborted it; 'trivet introspection start " + node + "' begins again"
	case strings.Contains(reason, "was given up") || strings.Contains(reason, "déjà vu"):
		return "workers ended while they processed it: 'journalctl -u trivet' on the peers that are named; keep the data with 'trivet introspection data save --unprocessed " +
			node + "'"
	}
	return "'trivet introspection show " + node +
		"' names the ramdisk's logs; mend what the reason says, then 'trivet introspection start " + node + "'"
}

package fsm

import (
	"fmt"
)

// macN returns a MAC by its number.
func macN(n int) string { return fmt.Sprintf("52:54:00:%02x:%02x:%02x", n>>16&255, n>>8&255, n&255) }

// port returns a port of its own node.
func port(id string, mac int) Port { return Port{ID: id, MAC: macN(mac), Node: nodeN(mac)} }

package web

import (
	"net/http"
	"strconv"
	"strings"
)

// maxNamed is how many nodes one request may ask the names of.
const maxNamed = 100

// nameList is the answer.
type nameList struct {
	Names map[string]string `json:"names"` // by UUID, of those that have one
}

// names answers with the names of nodes, which the page shows next to their UUIDs.
func (p *Page) names(w http.ResponseWriter, r *http.Request) error {
	wanted := strings.Split(strings.ToLower(r.URL.Query().Get("node")), ",")
	if len(wanted) > maxNamed {
		return invalid("node: at most " + strconv.Itoa(maxNamed) + " UUIDs, with commas between")
	}
	out := nameList{Names: make(map[string]string)}
	for _, uuid := range wanted {
		out.Names[uuid] = ""
	}
	all, _ := p.nodes.readNodes(r.Context()) // while Ironic is away the old names are shown
	for _, n := range all {
		if _, asked := out.Names[n.UUID]; asked {
			out.Names[n.UUID] = n.Name
		}
	}
	for uuid, name := range out.Names {
		if name == "" {
			delete(out.Names, uuid)
		}
	}
	return p.reply(w, r, http.StatusOK, out)
}

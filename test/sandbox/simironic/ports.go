package simironic

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// port is a network interface of a node.
type port struct {
	uuid    string
	created int // order of creation
	node    *node
	doc     document
}

func (p *port) id() string { return p.uuid }
func (p *port) order() int { return p.created }

// portOf is a new port of which only the address is known.
func portOf(n *node, mac string) map[string]any {
	return map[string]any{
		"uuid": uuid.NewString(), "node_uuid": n.uuid, "address": mac, "pxe_enabled": true, "extra": map[string]any{},
		"local_link_connection": map[string]any{}, "physical_network": nil, "portgroup_uuid": nil, "is_smartnic": false,
		"name": nil, "internal_info": map[string]any{},
	}
}

// addPort adds a port under the lock.
func (s *Server) addPort(n *node, doc map[string]any) *port {
	p := &port{uuid: textOf(doc["uuid"]), created: s.ports.reserve(), node: n, doc: newDocument(doc)}
	s.ports.add(p)
	s.address[p.doc.text("address")] = p
	n.ports = append(n.ports, p)
	return p
}

func portExists(mac string) error {
	return refuse(http.StatusConflict, "A port with MAC address %s already exists.", mac)
}

func (s *Server) findPort(id string) (*port, error) {
	if p := s.ports.byID[id]; p != nil {
		return p, nil
	}
	return nil, refuse(http.StatusNotFound, "Port %s could not be found.", id)
}

func (s *Server) listPorts(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, listed("node", "address")...)
	if err != nil {
		return err
	}
	if q.fields == nil && !q.detail {
		q.fields = []string{"uuid", "address"}
	}
	if q.values.Has("address") {
		q.marker = "" // Ironic looks an address up without it
	}
	p := newPage(r, "ports", q)
	if err := s.fillPorts(p, q); err != nil {
		return err
	}
	return p.write(w)
}

func (s *Server) fillPorts(p *page, q query) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	items, err := s.portsAfter(q)
	if err != nil {
		return err
	}
	address := strings.ToLower(q.values.Get("address"))
	for _, port := range items {
		if address != "" && port.doc.text("address") != address {
			continue
		}
		if !p.add(port.uuid, port.doc) {
			break
		}
	}
	return nil
}

// portsAfter returns the ports a list chooses from: all, or one node's; those
// behind the marker.
func (s *Server) portsAfter(q query) ([]*port, error) {
	var marker *port
	if q.marker != "" {
		var err error
		if marker, err = s.findPort(q.marker); err != nil {
			return nil, err
		}
	}
	ref := q.values.Get("node")
	if ref == "" {
		if marker == nil {
			return s.ports.items, nil
		}
		return s.ports.after(marker), nil
	}
	n, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	ports := n.ports
	if marker != nil {
		ports = ports[slices.Index(ports, marker)+1:]
	}
	return ports, nil
}

func (s *Server) createPort(w http.ResponseWriter, r *http.Request) error {
	var given map[string]any
	if err := readBody(r, &given); err != nil {
		return err
	}
	body, err := s.newPort(given)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusCreated, body)
	return nil
}

func (s *Server) newPort(given map[string]any) ([]byte, error) {
	mac, err := macOf(given["address"])
	if err != nil {
		return nil, err
	}
	id, err := newUUID(given["uuid"])
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(textOf(given["node_uuid"]))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err) // it is not what the path names
	}
	if err := n.locked(); err != nil {
		return nil, err
	}
	if s.address[mac] != nil {
		return nil, portExists(mac)
	}
	if s.ports.byID[id] != nil {
		return nil, refuse(http.StatusConflict, "A port with UUID %s already exists.", id)
	}
	doc := portOf(n, mac)
	for key, value := range given {
		if _, known := doc[key]; !known {
			return nil, refuse(http.StatusBadRequest,
				"Schema error for port: Additional properties are not allowed ('%s' was unexpected)", key)
		}
		doc[key] = value
	}
	doc["address"], doc["uuid"], doc["node_uuid"] = mac, id, n.uuid
	return s.addPort(n, doc).doc.encoded, nil
}

func macOf(v any) (string, error) {
	mac, err := net.ParseMAC(textOf(v))
	if err != nil || len(mac) != 6 {
		return "", refuse(http.StatusBadRequest, "Expected a MAC address but received %v.", v)
	}
	return mac.String(), nil
}

func (s *Server) patchPort(w http.ResponseWriter, r *http.Request) error {
	var ops []operation
	if err := readBody(r, &ops); err != nil {
		return err
	}
	body, err := s.changePort(r.PathValue("port"), ops)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusOK, body)
	return nil
}

func (s *Server) changePort(id string, ops []operation) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.findPort(id)
	if err != nil {
		return nil, err
	}
	if err := p.node.locked(); err != nil {
		return nil, err
	}
	doc, err := p.doc.patch(ops, []string{"uuid", "node_uuid", "internal_info"})
	if err != nil {
		return nil, err
	}
	mac, err := macOf(doc.text("address"))
	if err != nil {
		return nil, err
	}
	if before := p.doc.text("address"); mac != before {
		if s.address[mac] != nil {
			return nil, portExists(mac)
		}
		delete(s.address, before)
		s.address[mac] = p
	}
	if p.doc = doc; mac != doc.text("address") {
		p.doc = doc.with(map[string]any{"address": mac})
	}
	return p.doc.encoded, nil
}

func (s *Server) deletePort(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.findPort(r.PathValue("port"))
	if err != nil {
		return err
	}
	if err := p.node.locked(); err != nil {
		return err
	}
	s.ports.remove(p)
	delete(s.address, p.doc.text("address"))
	p.node.ports = slices.DeleteFunc(p.node.ports, func(other *port) bool { return other == p })
	w.WriteHeader(http.StatusNoContent)
	return nil
}

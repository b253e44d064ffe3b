package simironic

import (
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// document returns the node's, whatever is changed later.
func (s *Server) document(r *http.Request) (document, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, err := s.find(r.PathValue("node"))
	if err != nil {
		return document{}, err
	}
	return n.doc, nil
}

func (s *Server) getNode(w http.ResponseWriter, r *http.Request) error {
	doc, err := s.document(r)
	if err != nil {
		return err
	}
	body := doc.encoded
	if r.URL.RawQuery != "" {
		q, err := readQuery(r, "fields")
		if err != nil {
			return err
		}
		if body, err = doc.selected(q.fields); err != nil {
			return err
		}
	}
	writeBody(w, http.StatusOK, body)
	return nil
}

func (s *Server) listNodes(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, listed("provision_state")...)
	if err != nil {
		return err
	}
	if q.fields == nil {
		q.fields = []string{"uuid", "name", "instance_uuid", "maintenance", keyPower, keyProvision}
	}
	p := newPage(r, "nodes", q)
	if err := s.fillNodes(p, q); err != nil {
		return err
	}
	return p.write(w)
}

func (s *Server) fillNodes(p *page, q query) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	items := s.nodes.items
	if q.marker != "" {
		n, known := s.nodes.byID[q.marker]
		if !known {
			return noNode(q.marker)
		}
		items = s.nodes.after(n)
	}
	for _, n := range items {
		if q.state != "" && n.doc.text(keyProvision) != q.state {
			continue
		}
		if !p.add(n.uuid, n.doc) {
			break
		}
	}
	return nil
}

func (s *Server) createNode(w http.ResponseWriter, r *http.Request) error {
	var given map[string]any
	if err := readBody(r, &given); err != nil {
		return err
	}
	doc := blank()
	for key, value := range given {
		if _, known := doc[key]; !known || key != "uuid" && slices.Contains(fixed(), key) {
			return refuse(http.StatusBadRequest, "Cannot set %s while creating a node", key)
		}
		doc[key] = value
	}
	if textOf(given["driver"]) == "" {
		return refuse(http.StatusBadRequest, "Schema error for node: 'driver' is a required property")
	}
	id, err := newUUID(given["uuid"])
	if err != nil {
		return err
	}
	doc["uuid"] = id
	s.mu.Lock()
	_, err = s.addNode(doc)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	writeBody(w, http.StatusCreated, marshal(doc))
	return nil
}

// newUUID returns the UUID that a client chose for what it creates, or one for
// a client that did not.
func newUUID(given any) (string, error) {
	if given == nil {
		return uuid.NewString(), nil
	}
	id, err := uuid.Parse(textOf(given))
	if err != nil {
		return "", refuse(http.StatusBadRequest, "Expected a UUID but received %v.", given)
	}
	return id.String(), nil
}

func (s *Server) patchNode(w http.ResponseWriter, r *http.Request) error {
	if _, err := readQuery(r, "reset_interfaces"); err != nil {
		return err
	}
	var ops []operation
	if err := readBody(r, &ops); err != nil {
		return err
	}
	body, err := s.changeNode(r.PathValue("node"), ops)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusOK, body)
	return nil
}

func (s *Server) changeNode(ref string, ops []operation) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	if err := n.locked(); err != nil {
		return nil, err
	}
	doc, err := n.doc.patch(ops, fixed())
	if err != nil {
		return nil, err
	}
	before, after := n.doc.text("name"), doc.text("name")
	if before != after {
		if s.names[after] != nil {
			return nil, nameTaken(after)
		}
		delete(s.names, before)
		if after != "" {
			s.names[after] = n
		}
	}
	n.doc = doc
	return doc.encoded, nil
}

// answerNode runs f on a node under the lock and answers with f's status.
func (s *Server) answerNode(w http.ResponseWriter, r *http.Request, status int, f func(*node) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(r.PathValue("node"))
	if err != nil {
		return err
	}
	if err := f(n); err != nil {
		return err
	}
	w.WriteHeader(status)
	return nil
}

func (s *Server) addTrait(w http.ResponseWriter, r *http.Request) error {
	trait := r.PathValue("trait")
	return s.answerNode(w, r, http.StatusNoContent, func(n *node) error {
		if !slices.Contains(n.traits, trait) {
			n.setTraits(append(slices.Clone(n.traits), trait))
		}
		return nil
	})
}

func (s *Server) removeTrait(w http.ResponseWriter, r *http.Request) error {
	trait := r.PathValue("trait")
	return s.answerNode(w, r, http.StatusNoContent, func(n *node) error {
		i := slices.Index(n.traits, trait)
		if i < 0 {
			return refuse(http.StatusNotFound, "Node %s doesn't have a trait '%s'", n.uuid, trait)
		}
		n.setTraits(slices.Delete(slices.Clone(n.traits), i, i+1))
		return nil
	})
}

func (n *node) setTraits(traits []string) {
	n.traits = traits
	n.doc = n.doc.with(map[string]any{"traits": traits})
}

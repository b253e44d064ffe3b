package simironic

import (
	"net/http"
	"time"
)

func (s *Server) validate(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.document(r); err != nil {
		return err
	}
	type verdict map[string]any
	ok := verdict{"result": true}
	unsupported := verdict{"result": nil, "reason": "not supported"}
	writeBody(w, http.StatusOK, marshal(map[string]verdict{
		"boot": ok, "console": unsupported, "deploy": ok, "inspect": ok, "management": ok, "network": ok, "power": ok,
		"raid": unsupported, "rescue": unsupported, "storage": ok,
	}))
	return nil
}

func (s *Server) setBootDevice(w http.ResponseWriter, r *http.Request) error {
	var device struct {
		Device string `json:"boot_device"`
	}
	if err := readBody(r, &device); err != nil {
		return err
	}
	switch device.Device {
	case "pxe", "disk", "cdrom", "bios", "safe":
	default:
		return refuse(http.StatusBadRequest, "Invalid boot device %s specified.", device.Device)
	}
	return s.answerNode(w, r, http.StatusNoContent, (*node).locked)
}

type target struct {
	Target string `json:"target"`
}

// end is the power state that a target leads to, "" if there is no such target.
func (t target) end() string {
	switch t.Target {
	case powerOn, powerReboot, softReboot:
		return powerOn
	case powerOff, softOff:
		return powerOff
	default:
		return ""
	}
}

func (s *Server) setPower(w http.ResponseWriter, r *http.Request) error {
	var t target
	if err := readBody(r, &t); err != nil {
		return err
	}
	if t.end() == "" {
		return refuse(http.StatusBadRequest, "The requested action \"%s\" is no power state.", t.Target)
	}
	var id string
	err := s.answerNode(w, r, http.StatusAccepted, func(n *node) error {
		if err := n.locked(); err != nil {
			return err
		}
		if t.end() == powerOn {
			n.powerOns++
		}
		id = n.uuid
		if s.opts.PowerDelay > 0 {
			n.doc = n.doc.with(map[string]any{keyTarget: t.end(), keyHeld: conductor})
			s.pending.Go(func() { s.powerLater(n, t) })
			return nil
		}
		n.doc = n.doc.with(map[string]any{keyPower: t.end()})
		return nil
	})
	if err == nil && s.opts.PowerDelay == 0 {
		s.tell(id, t)
	}
	return err
}

// powerLater ends a power change after its delay.
func (s *Server) powerLater(n *node, t target) {
	timer := time.NewTimer(s.opts.PowerDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop:
		return
	}
	s.mu.Lock()
	n.doc = n.doc.with(map[string]any{keyPower: t.end(), keyTarget: nil, keyHeld: nil})
	s.mu.Unlock()
	s.tell(n.uuid, t)
}

func (s *Server) tell(node string, t target) {
	if s.opts.OnPower != nil {
		s.opts.OnPower(node, t.Target)
	}
}

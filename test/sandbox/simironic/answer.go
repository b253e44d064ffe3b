package simironic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// The microversions that are spoken, as Ironic 21.4 does.
const (
	oldest, oldestMinor = "1.1", 1
	newest, newestMinor = "1.82", 82
)

// Headers in their canonical form, which spares net/http making it.
const (
	versionHeader = "X-Openstack-Ironic-Api-Version"
	oldestHeader  = "X-Openstack-Ironic-Api-Minimum-Version"
	newestHeader  = "X-Openstack-Ironic-Api-Maximum-Version"
)

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func noNode(ref string) error {
	return refuse(http.StatusNotFound, "Node %s could not be found.", ref)
}

// writeError answers as Ironic does: JSON text inside a JSON string.
func writeError(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusInternalServerError, err.Error()}
	}
	writeBody(w, r.status, errorBody(r.status, r.text))
}

func errorBody(status int, text string) []byte {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	inner := marshal(map[string]any{"faultstring": text, "faultcode": code, "debuginfo": nil})
	return marshal(map[string]string{"error_message": string(inner)})
}

// marshal encodes what this package built from JSON values alone.
func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("simironic: a value that is not JSON: %v", err))
	}
	return out
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client went away
}

// readBody decodes a request's body and keeps its numbers as they were written.
func readBody(r *http.Request, out any) error {
	dec := json.NewDecoder(r.Body)
	dec.UseNumber()
	if err := dec.Decode(out); err != nil {
		return refuse(http.StatusBadRequest, "Invalid input for the body: %v", err)
	}
	return nil
}

// checkVersion refuses what Ironic would not speak, and says what it speaks.
func checkVersion(h http.Header, r *http.Request) error {
	asked, minor, err := askedVersion(r)
	h.Set(oldestHeader, oldest)
	h.Set(newestHeader, newest)
	if err != nil {
		return err
	}
	if minor < oldestMinor || minor > newestMinor {
		return refuse(http.StatusNotAcceptable,
			"Version %s was requested but the requested API version is not supported by this service. The supported version range is: [%s, %s].",
			asked, oldest, newest)
	}
	h.Set(versionHeader, asked)
	return nil
}

func askedVersion(r *http.Request) (asked string, minor int, err error) {
	asked = r.Header.Get(versionHeader)
	if asked == "" {
		asked = strings.TrimPrefix(r.Header.Get("Openstack-Api-Version"), "baremetal ")
	}
	switch asked {
	case "":
		return oldest, oldestMinor, nil
	case "latest":
		return newest, newestMinor, nil
	}
	text, ok := strings.CutPrefix(asked, "1.")
	if minor, err = strconv.Atoi(text); err != nil || !ok {
		return "", 0, refuse(http.StatusNotAcceptable, "Invalid value for %s header: %q", versionHeader, asked)
	}
	return asked, minor, nil
}

// base is the address that the request came in on.
func base(r *http.Request) string { return "http://" + r.Host }

func (s *Server) version(w http.ResponseWriter, r *http.Request) error {
	link := func(name string) any {
		return []any{map[string]string{"rel": "self", "href": base(r) + "/v1/" + name + "/"}}
	}
	writeBody(w, http.StatusOK, marshal(map[string]any{
		"id": "v1", "version": versionDocument(r), "nodes": link("nodes"), "ports": link("ports"),
	}))
	return nil
}

func versionDocument(r *http.Request) map[string]any {
	return map[string]any{
		"id": "v1", "status": "CURRENT", "min_version": oldest, "version": newest,
		"links": []any{map[string]string{"rel": "self", "href": base(r) + "/v1/"}},
	}
}

// root names the versions.
func (s *Server) root(w http.ResponseWriter, r *http.Request) error {
	v := versionDocument(r)
	writeBody(w, http.StatusOK, marshal(map[string]any{
		"name": "OpenStack Ironic API", "description": "Ironic in memory", "default_version": v, "versions": []any{v},
	}))
	return nil
}

package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// query returns the parameters behind the question mark. Most requests have
// none and cost nothing.
func query(c echo.Context) url.Values {
	if c.Request().URL.RawQuery == "" {
		return nil
	}
	return c.QueryParams()
}

// maxNodeName is the longest name that Ironic gives a node.
const maxNodeName = 255

// nodeRef returns the node of a path. A text that cannot be a UUID or a name goes
// no further: it would become part of a URL of Ironic's.
func nodeRef(c echo.Context) (string, error) {
	ref := c.Param("node")
	if len(ref) > maxNodeName || ref == "." || ref == ".." || !consistsOf(ref, isNameByte) {
		return "", refuse(http.StatusNotFound, "Node %s was not found in Ironic", ref)
	}
	return ref, nil
}

// manageBoot reads ?manage_boot=; absent is yes.
func manageBoot(q url.Values) (bool, error) {
	if !q.Has("manage_boot") {
		return true, nil
	}
	value := q.Get("manage_boot")
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, nil
	case "0", "f", "false", "off", "n", "no":
		return false, nil
	default:
		return false, refuse(http.StatusBadRequest, "Invalid boolean value for manage_boot: %s", value)
	}
}

// parsePage reads the parameters of a list (docs/contract.md#states). Unknown ones are
// ignored.
func parsePage(q url.Values, maxLimit int) (accept.Page, error) {
	var page accept.Page
	if q.Has("marker") {
		marker := strings.ReplaceAll(q.Get("marker"), "-", "")
		id, err := uuid.Parse(marker)
		if err != nil || len(marker) != 32 { // digits; no UUID of a node has the other forms that Parse knows
			return page, refuse(http.StatusBadRequest, badRequest+"Marker not UUID-like")
		}
		page.Marker = id.String()
	}
	var err error
	if page.Limit, err = parseLimit(q, maxLimit); err != nil || !q.Has("state") {
		return page, err
	}
	var wrong []string
	for name := range strings.SplitSeq(q.Get("state"), ",") {
		state, ok := introspection.ParseNodeState(name)
		switch {
		case !ok:
			wrong = append(wrong, name)
		case !slices.Contains(page.States, state): // a state is kept once
			page.States = append(page.States, state)
		}
	}
	if wrong != nil {
		return page, refuse(http.StatusBadRequest, badRequest+`State(s) "%s" are not valid`, strings.Join(wrong, ", "))
	}
	return page, nil
}

// badRequest is how the original begins its words on a list's parameters.
const badRequest = "Bad request: "

func parseLimit(q url.Values, most int) (int, error) {
	if !q.Has("limit") {
		return most, nil
	}
	text := q.Get("limit")
	limit, ok := pythonInt(text)
	switch {
	case !ok:
		return 0, refuse(http.StatusBadRequest, badRequest+"invalid literal for int() with base 10: %s", pythonString(text))
	case limit < 0:
		return 0, refuse(http.StatusBadRequest, badRequest+"Limit cannot be negative")
	case limit > most:
		return 0, refuse(http.StatusBadRequest, badRequest+"Limit over %d", most)
	case limit == 0:
		return most, nil
	}
	return limit, nil
}

// pythonInt reads a number as Python's int does: with a sign, spaces around it
// and single underscores between digits. One that is too great for an int comes
// back as the greatest or least.
func pythonInt(text string) (int, bool) {
	text = strings.TrimSpace(text)
	sign := strings.HasPrefix(text, "-")
	digits := text
	if sign || strings.HasPrefix(text, "+") {
		digits = text[1:]
	}
	if strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return 0, false
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if digits == "" || !consistsOf(digits, func(b byte) bool { return '0' <= b && b <= '9' }) {
		return 0, false
	}
	n, _ := strconv.Atoi(digits) // digits alone: out of range at worst, and then the greatest
	if sign {
		n = -n
	}
	return n, true
}

// pythonString quotes a string as Python prints it.
func pythonString(s string) string {
	quoted := strconv.Quote(s)
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return quoted
	}
	inner := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	return "'" + strings.ReplaceAll(inner, "'", `\'`) + "'"
}

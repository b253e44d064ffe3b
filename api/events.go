package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// pathEvents is Trivet's own: what happened to the cluster and to its nodes.
const pathEvents = "/v1/events"

// Bounds of an answer with events. A server bounds how long each piece of it may
// wait for the caller (httpserver.Limits.Write): a stream that is not read ends.
const (
	maxEventsWait   = 55 * time.Second // of ?wait=; less than requestLimit
	usualEvents     = 1000
	maxEventsPage   = 1000
	maxEventsBytes  = 256 << 10        // of a page; the event that goes beyond it is the last one
	eventsKeepAlive = 15 * time.Second // of a stream without events
	// eventsStream is how long a stream lasts. Its caller goes on where it ended,
	// and shows its credentials again, which may be void by then.
	eventsStream = 30 * time.Minute
	// eventsProof is how often the credentials of a stream's caller are judged again.
	eventsProof = time.Minute
)

func (i *Inspector) eventResources() []resource {
	if i.Events == nil {
		return nil
	}
	newest := admission.NewShared[string, []byte](sharedFor, sharedMost)
	return []resource{{path: pathEvents, reader: true, cost: admission.Dear, get: func(c echo.Context) error {
		as := callerOf(c).Role
		// still reports whether the caller may do as much as when it began. It may while that cannot be told, as while
		// Keystone is away.
		still := func() bool {
			who, _, err := i.Caller(c.Request())
			if err != nil {
				return translate(err).Status == http.StatusServiceUnavailable
			}
			return who.Role >= as
		}
		return serveEvents(c, i.Events, audience{newest: newest, admin: as == RoleAdmin, still: still})
	}}}
}

// OperatorEvents answers operators, who may see everything. Their certificates are judged
// with their connections.
func OperatorEvents(ctx echo.Context, source *events.Hub) error {
	return serveEvents(ctx, source, audience{admin: true, still: func() bool { return true }})
}

// audience is who reads events.
type audience struct {
	admin bool        // sees everything
	still func() bool // it may go on; it may take its time
	// newest has answers about the newest events, for all who ask; nil: each is made.
	newest *admission.Shared[string, []byte]
}

// question is what a caller wants of the events.
type question struct {
	after  string
	filter events.Filter
	wait   time.Duration
	limit  int
}

func serveEvents(c echo.Context, source *events.Hub, by audience) error {
	q, err := parseQuestion(query(c), by.admin)
	if err != nil {
		return err
	}
	stream := c.Request().Method == http.MethodGet &&
		strings.Contains(c.Request().Header.Get(echo.HeaderAccept), "text/event-stream")
	if last := c.Request().Header.Get("Last-Event-ID"); stream && last != "" {
		q.after = last
	}
	if stream {
		return streamEvents(c, source, q, by.still)
	}
	if q.after == events.FromNow && q.wait == 0 {
		answer := func() ([]byte, error) {
			return append(appendEvents(nil, events.Newest(source.View(), q.filter, q.limit)), '\n'), nil
		}
		if by.newest == nil {
			body, _ := answer() // never fails
			return reply(c, http.StatusOK, jsonType, body)
		}
		body, err := by.newest.Get(fmt.Sprint(q), answer) // as of a second ago at most
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, jsonType, body)
	}
	return pageOfEvents(c, source, q)
}

func parseQuestion(values url.Values, admin bool) (question, error) {
	q := question{after: values.Get("after"),
		filter: events.Filter{Admin: admin, Node: strings.ToLower(values.Get("node"))}, limit: usualEvents}
	for _, name := range strings.FieldsFunc(strings.Join(values["kind"], ","), func(r rune) bool { return r == ',' }) {
		topic, ok := eventring.ParseTopic(name)
		if !ok {
			return q, refuse(http.StatusBadRequest, "%s is no kind of events; there are %s", bounded(name),
				strings.Join(eventring.TopicNames(), ", "))
		}
		q.filter.Topics = append(q.filter.Topics, topic)
	}
	if q.filter.Node != "" {
		if _, err := uuid.Parse(q.filter.Node); err != nil {
			return q, refuse(http.StatusBadRequest, "node must be a UUID; GET /v1/nodes/NAME tells that of a name")
		}
	}
	if text := values.Get("wait"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil || wait < 0 {
			return q, refuse(http.StatusBadRequest, "wait must be a duration such as 30s")
		}
		q.wait = min(wait, maxEventsWait)
	}
	if text := values.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 {
			return q, refuse(http.StatusBadRequest, "limit must be a number from 1 on")
		}
		q.limit = min(limit, maxEventsPage)
	}
	return q, nil
}

// openEvents begins to read, or refuses in words for the caller.
func openEvents(source *events.Hub, q question) (*events.Reader, error) {
	r, err := source.Open(q.after, q.filter)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, events.ErrClosed), errors.Is(err, events.ErrTooMany), errors.Is(err, events.ErrOtherHistory):
		return nil, refuse(http.StatusServiceUnavailable, "%v", err)
	}
	return nil, refuse(http.StatusBadRequest, "%s", bounded(err.Error()))
}

// pageOfEvents answers with the events after a position, and waits for the first.
func pageOfEvents(c echo.Context, source *events.Hub, q question) error {
	r, err := openEvents(source, q)
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, cancel := limited(c)
	defer cancel()
	if err := waits(ctx, admission.Stream); err != nil {
		return err
	}
	page, err := readPage(ctx, r, q.limit)
	if err == nil && len(page.Events) == 0 && page.Reset == nil && q.wait > 0 {
		page, err = r.Next(ctx, q.limit, q.wait)
	}
	if err != nil && !errors.Is(err, events.ErrClosed) {
		return err
	}
	return replyJSON(c, http.StatusOK, appendEvents(nil, page))
}

// readPage reads what this peer has applied, within the bounds of a page.
func readPage(ctx context.Context, r *events.Reader, limit int) (page events.Batch, err error) {
	for bytes := 0; len(page.Events) < limit && bytes < maxEventsBytes; {
		more, err := r.Next(ctx, limit-len(page.Events), 0)
		if err == nil {
			err = paced(ctx, more.Work, more.Bytes())
		}
		if err != nil {
			return page, err
		}
		if more.Reset != nil { // what was read before it is not the history
			page.Reset, page.Events = more.Reset, nil
		}
		page.Events, page.Last = append(page.Events, more.Events...), more.Last
		if more.Work == 0 && more.Reset == nil {
			return page, nil
		}
		bytes += more.Bytes()
	}
	return page, nil
}

func appendEvents(b []byte, page events.Batch) []byte {
	b = append(b, `{"events":[`...)
	for n, e := range page.Events {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, e.JSON...)
	}
	b = fmt.Appendf(b, `],"last":"%v"`, page.Last)
	if page.Reset != nil {
		b = append(append(b, `,"reset":`...), resetJSON(page.Reset)...)
	}
	return append(b, '}')
}

func resetJSON(reset *events.Reset) []byte {
	text, err := json.Marshal(reset)
	if err != nil {
		return []byte(`{}`) // two strings always encode
	}
	return text
}

// streamEvents sends events as they come, until the caller goes away or may not read
// any more, the stream has lasted eventsStream, or this peer stops.
func streamEvents(c echo.Context, source *events.Hub, q question, still func() bool) error {
	if err := waits(c.Request().Context(), admission.Stream); err != nil {
		return err
	}
	r, err := openEvents(source, q)
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(c.Request().Context(), eventsStream)
	defer cancel()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream; charset=utf-8")
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	c.Response().WriteHeader(http.StatusOK)
	flush := http.NewResponseController(c.Response()).Flush
	if _, err := c.Response().Write([]byte("retry: 1000\n\n")); err != nil {
		return err
	}
	for proof := time.Now(); ; {
		if err := flush(); err != nil {
			return err
		}
		wait := time.Duration(0)
		if r.Recent() { // other events are not rendered any more: they are read without a wait
			wait = eventsKeepAlive
		}
		batch, err := r.Next(ctx, usualEvents, wait)
		if err != nil {
			return nil // the caller or this peer ends
		}
		if time.Since(proof) >= eventsProof {
			if proof = time.Now(); !still() {
				return nil
			}
		}
		if err := sendBatch(ctx, c.Response(), batch); err != nil {
			return err
		}
	}
}

// sendBatch sends a batch when it is its turn, while its bytes have room. After a change of
// leader a thousand streams catch up at once. A few events wait for nothing. A batch without
// events is a comment, and the position: a caller whose filter lets little pass would else come
// back with an old one.
func sendBatch(ctx context.Context, w http.ResponseWriter, batch events.Batch) error {
	bytes := batch.Bytes()
	if bytes > smallAnswer || batch.Work > 0 {
		if err := paced(ctx, batch.Work, bytes); err != nil {
			return err
		}
	}
	if place := admission.Of(ctx); place != nil && bytes > smallAnswer {
		done, err := place.Hold(bytes)
		if err != nil {
			return err
		}
		defer done()
	}
	if batch.Reset != nil {
		if _, err := fmt.Fprintf(w, "event: reset\ndata: %s\n\n", resetJSON(batch.Reset)); err != nil {
			return err
		}
	}
	for _, e := range batch.Events {
		if _, err := w.Write(e.Frame); err != nil {
			return err
		}
	}
	if len(batch.Events) == 0 && batch.Reset == nil {
		_, err := fmt.Fprintf(w, ": keep-alive\nid: %v\n\n", batch.Last)
		return err
	}
	return nil
}

// pathStatus is Trivet's own: how the cluster stands, as the page shows it to every user.
const pathStatus = "/v1/status"

// ClusterReads is what the API tells of the cluster itself.
type ClusterReads struct {
	Events *events.Hub   // nil: there is no such path
	Status func() Status // as this peer sees it, without a quorum; nil: there is no such path
}

// statusResources answer with a status that is computed once a second for all who ask.
func (r ClusterReads) statusResources() []resource {
	if r.Status == nil {
		return nil
	}
	shared := admission.NewShared[bool, Status](time.Second, 1)
	return []resource{{path: pathStatus, reader: true, cost: admission.Request,
		get: answering(func(context.Context, echo.Context) (any, error) {
			return shared.Get(true, func() (Status, error) { return r.Status(), nil })
		})}}
}

package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/labstack/echo/v4"
)

// pathInbandInspection is where ramdisks call that were meant for Ironic's own
// inspection.
const pathInbandInspection = "/v1/continue_inspection"

// InbandInspection takes the callbacks of such ramdisks.
type InbandInspection interface {
	ContinueInspection(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error)
}

var _ InbandInspection = (*accept.Service)(nil)

// inband takes a ramdisk's document as Ironic does, within the bounds of
// /v1/continue.
func (i *Inspector) inband(callers *callbackRates, documents bodies) echo.HandlerFunc {
	return i.called(callers, documents, func(ctx context.Context, c echo.Context, body []byte) error {
		sent := ironic.InbandCall{Body: body, Node: query(c).Get("node_uuid")}
		h := c.Request().Header // Ironic reads the version in either of two
		sent.Version = cmp.Or(h.Get("X-Openstack-Ironic-Api-Version"),
			strings.TrimPrefix(h.Get("Openstack-Api-Version"), "baremetal "))
		if network := senderSource(c.Request(), i.Proxies); network.IsValid() {
			sent.Source = network.String()
		}
		answer, err := i.Inband.ContinueInspection(ctx, sent)
		if err != nil {
			return err
		}
		return reply(c, answer.Status, jsonType, answer.Body)
	})
}

// ironicError is the body of a refusal in Ironic's shape: JSON text inside JSON.
func ironicError(status int, message string) ([]byte, error) {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	inner, err := json.Marshal(struct {
		Text  string  `json:"faultstring"`
		Code  string  `json:"faultcode"`
		Debug *string `json:"debuginfo"`
	}{Text: message, Code: code})
	if err != nil {
		return nil, fmt.Errorf("encode a refusal: %w", err)
	}
	return json.Marshal(struct {
		Message string `json:"error_message"`
	}{string(inner)})
}

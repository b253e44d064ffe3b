package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of what is computed for all who ask: how old it may be, and how many forms of
// it are kept.
const (
	sharedFor  = time.Second
	sharedMost = 16
)

// exposition answers with the metrics as text, made once for all who ask at about the same
// time: to gather them costs milliseconds, and everybody who reaches the port may ask. Those
// who wait for the one that gathers hold no place, which a probe may need.
func exposition(metrics prometheus.Gatherer) echo.HandlerFunc {
	texts := admission.NewShared[expfmt.Format, []byte](sharedFor, sharedMost)
	return func(c echo.Context) error {
		text, binary := expfmt.NewFormat(expfmt.TypeTextPlain), expfmt.NewFormat(expfmt.TypeProtoDelim)
		asked := expfmt.NegotiateAccept(c.Request().Header, text, binary)
		plain, _, _ := strings.Cut(string(asked), "; escaping=") // no name has anything to escape
		format := expfmt.Format(plain)
		var answer []byte
		get := func() (err error) {
			answer, err = texts.Get(format, func() ([]byte, error) { return exposed(metrics, format) })
			return err
		}
		if err := admission.Of(c.Request().Context()).Aside(c.Request().Context(), get); err != nil {
			return err
		}
		return reply(c, http.StatusOK, []string{string(format)}, answer)
	}
}

func exposed(metrics prometheus.Gatherer, format expfmt.Format) ([]byte, error) {
	families, err := metrics.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the metrics: %w", err)
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return nil, fmt.Errorf("encode the metric %s: %w", f.GetName(), err)
		}
	}
	if end, ok := encoder.(expfmt.Closer); ok { // OpenMetrics has a last line
		if err := end.Close(); err != nil {
			return nil, fmt.Errorf("encode the metrics: %w", err)
		}
	}
	return text.Bytes(), nil
}

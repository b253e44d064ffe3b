package admin

import (
	"bytes"
	"context"
	"net/http"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Bounds of a profile.
const (
	ProfileTime    = 10 * time.Second // of the processor, unless the caller says otherwise
	MaxProfileTime = time.Minute
)

// Profiles are the kinds of profile: where processor time goes from now on, where memory
// was taken that is in use or ever was, and where goroutines stand.
func Profiles() []string { return []string{"cpu", "heap", "allocs", "goroutine"} }

// profile answers with a profile of this process, as 'go tool pprof' reads it. The
// runtime takes one of the processor at a time.
func profile(c echo.Context) error {
	kind := c.QueryParam("kind")
	if !slices.Contains(Profiles(), kind) {
		return invalid("kind: %q is no profile; one of %s", kind, strings.Join(Profiles(), ", "))
	}
	var out bytes.Buffer
	var err error
	if kind == "cpu" {
		took := ProfileTime
		if text := c.QueryParam("seconds"); text != "" {
			n, err := strconv.Atoi(text)
			if most := int(MaxProfileTime.Seconds()); err != nil || n < 1 || n > most {
				return invalid("seconds: %q is not a number from 1 to %d", text, most)
			}
			took = time.Duration(n) * time.Second
		}
		err = profileCPU(c.Request().Context(), &out, took)
	} else {
		err = pprof.Lookup(kind).WriteTo(&out, 0)
	}
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, echo.MIMEOctetStream, out.Bytes())
}

func profileCPU(ctx context.Context, out *bytes.Buffer, took time.Duration) error {
	if err := pprof.StartCPUProfile(out); err != nil {
		return conflict("wait until it is done", "this peer takes a profile of the processor for another caller: %v", err)
	}
	defer pprof.StopCPUProfile() // it completes out
	select {
	case <-time.After(took):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

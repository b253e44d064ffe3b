package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/doctor"
)

const (
	// serviceWait bounds one question to a service at the floating IP.
	serviceWait = time.Second
	// silentTries is how many questions in a row must fail before status warns: a hand-over
	// moves the address meanwhile, and its neighbours learn it.
	silentTries = 4
)

// Served is a service that clients call at the floating IP.
type Served struct {
	What string // the API, as a sentence names it
	URL  string // of the question
	Ask  func(ctx context.Context) error
}

// FloatingServices are the services at the floating IP, as a client finds them there. The
// address alone says nothing of them: it is there although nothing listens on it. Methods may
// be called concurrently.
type FloatingServices struct {
	Served []Served
	// Holder names the leadership that has the address, "" for none: who asks meanwhile
	// learns nothing.
	Holder func() string

	mu     sync.Mutex
	holder string
	tries  int      // that failed in a row since this holder has it, of any service
	silent []string // what the last one found
}

// Facts asks all services, within serviceWait, for doctor.
func (f *FloatingServices) Facts(ctx context.Context) []doctor.Served {
	if f == nil || f.Holder() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, serviceWait)
	defer cancel()
	out := make([]doctor.Served, len(f.Served)) // two at most
	var work sync.WaitGroup
	for i, s := range f.Served {
		work.Go(func() { out[i] = doctor.Served{What: s.What, URL: s.URL, Error: api.ErrorText(s.Ask(ctx))} })
	}
	work.Wait()
	return out
}

// askOnce asks once, for status.
func (f *FloatingServices) askOnce(ctx context.Context) {
	if f == nil {
		return
	}
	holder := f.Holder()
	var silent []string
	for _, s := range f.Facts(ctx) {
		if s.Error != "" {
			silent = append(silent, fmt.Sprintf("%s does not answer there: %s", s.What, s.Error))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if holder != f.holder || len(silent) == 0 {
		f.tries = 0
	}
	if f.holder, f.silent = holder, silent; len(silent) > 0 {
		f.tries++
	}
}

// warnings are what clients get no answer from, after silentTries. They ask nothing.
func (f *FloatingServices) warnings(address string) []api.Warning {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tries < silentTries || f.Holder() != f.holder {
		return nil
	}
	var out warningList
	for _, text := range slices.Sorted(slices.Values(f.silent)) {
		out.add("floating_ip_unanswered", strings.Join(doctor.UnansweredRemedy(), "; "), "the floating IP %s is held, and %s",
			address, text)
	}
	return out
}

package api

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// listed is a page of any of the three lists.
type listed struct {
	Leases  []struct{ Name string }
	Values  []struct{ Key string }
	Members []struct{ ID string }
	More    *bool
}

func (p listed) names() (all []string) {
	for _, l := range p.Leases {
		all = append(all, l.Name)
	}
	for _, v := range p.Values {
		all = append(all, v.Key)
	}
	for _, m := range p.Members {
		all = append(all, m.ID)
	}
	return all
}

// pages follows a list to its end. Each page has at most so many entries, and bytes
// within the bound and one entry.
func (l *lending) pages(path, query string, most int) (all []string) {
	l.Helper()
	for marker := ""; ; {
		w := l.ask(200, "GET", path+"?"+query+"&marker="+url.QueryEscape(marker), "")
		var p listed
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.More == nil {
			l.Fatalf("%s: %v", w.Body, err)
		}
		names := p.names()
		if w.Body.Len() > maxPageBytes+8<<10 || len(names) > most || *p.More && len(names) == 0 {
			l.Fatalf("page-bound: a page of %s has %d entries in %d bytes", path, len(names), w.Body.Len())
		}
		all = append(all, names...)
		if !*p.More {
			return all
		}
		marker = names[len(names)-1]
	}
}

// Leases, values and members come in pages, which are bounded in bytes, and each comes
// once.
func TestListsArePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 150
		l := newLending(t)
		long := strings.Repeat("m", 4000)
		var want []string
		for n := range count {
			name := fmt.Sprintf("n%03d", n)
			want = append(want, name)
			token := l.tokenIn(l.ask(201, "PUT", "/v1/leases/"+name, `{"holder":"h",`+asMinute+`,"metadata":"`+long+`"}`))
			l.ask(200, "PUT", "/v1/kv/"+name, "x", "Fencing-Token", name+":"+token)
			l.ask(204, "PUT", "/v1/groups/web/members/"+name, `{"lease":"`+name+`","token":"`+token+`","metadata":"`+long+`"}`)
		}
		for _, path := range []string{"/v1/leases", "/v1/kv", "/v1/groups/web"} {
			for query, most := range map[string]int{"stale=1": count, "limit=7": 7, "limit=5000": maxPage} {
				if got := l.pages(path, query, most); !slices.Equal(got, want) {
					t.Errorf("page-whole: %s?%s has %d entries, want %d: %v", path, query, len(got), count, got)
				}
			}
			for _, wrong := range []string{"limit=0", "limit=-1", "limit=x"} {
				answer(t, l.http, "GET", path+"?"+wrong, "") // its description knows the refusal
				l.ask(400, "GET", path+"?"+wrong, "")
			}
		}
		if n := strings.Count(l.ask(200, "GET", "/v1/leases", "").Body.String(), `"name"`); n == 0 || n == count {
			t.Errorf("page-bound: %d leases of 4 KB are in one page", n)
		}
	})
}

// Who waits for a lease or a group has no place of those who change or read something.
func TestThoseWhoWaitForLeasesHoldNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLending(t)
		token := l.acquired("one")
		tag := l.ask(200, "GET", "/v1/groups/web", "").Header().Get("ETag")
		done := make(chan *httptest.ResponseRecorder)
		const each = 100
		for range each {
			go func() { done <- answer(t, l.http, "GET", dbLease+"?wait=20s&after="+token, "") }()
			go func() { done <- answer(t, l.http, "GET", "/v1/groups/web?wait=20s", "", "If-None-Match", tag) }()
			go func() { done <- answer(t, l.http, "PUT", dbLease, `{"holder":"two","wait_ms":20000,`+asMinute+`}`) }()
		}
		synctest.Wait()
		for _, class := range []admission.Class{admission.Request, admission.Dear} {
			if in, waiting := l.by.Taken(class); in+waiting > 0 {
				t.Errorf("lease-waits: %d requests of class %v are in and %d wait", in, class, waiting)
			}
		}
		if in, _ := l.by.Taken(admission.Stream); in != 3*each {
			t.Errorf("lease-waits: %d of %d wait as streams", in, 3*each)
		}
		time.Sleep(30 * time.Second) // in a bubble
		for range 3 * each {
			if w := <-done; w.Code != 200 && w.Code != 409 { // in a bubble
				t.Errorf("lease-waits: %d %s", w.Code, w.Body)
			}
		}
	})
}

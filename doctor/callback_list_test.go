package doctor

import (
	"strconv"
	"strings"
	"testing"
)

// A list of URLs that is right is none to speak of: the floating IP first and then each host, or
// the hosts alone; on the ramdisks' port, if there is one.
func TestListsOfCallbacksThatAreRight(t *testing.T) {
	const floating, h1, h2 = "http://192.0.2.200:%d/v1/continue", "http://192.0.2.1:%d/v1/continue",
		"http://192.0.2.2:%d/v1/continue"
	for _, c := range []struct {
		urls   []string
		port   int
		change func(h *Facts)
	}{
		{[]string{floating, h1, h2}, 5050, nil},
		{[]string{floating, h1, h2}, 5055, ramdiskPort},
		{[]string{floating}, 5050, ramdiskPort},
		{[]string{floating, h1, h2, "http://192.0.2.200:5050/v1/continue"}, 5055, ramdiskPort},
		{[]string{h1, h2}, 5050, func(h *Facts) {
			h.Plan.FloatingIP, h.Plan.FloatingInterface, h.Address = "", "", Address{}
		}},
	} {
		list := strings.ReplaceAll(strings.Join(c.urls, ","), "%d", strconv.Itoa(c.port))
		hosts := healthy()
		for i := range hosts {
			if hosts[i].Boot.Callback = list; c.change != nil {
				c.change(&hosts[i])
			}
		}
		if found := judge(t, hosts, "boot"); len(found) > 0 {
			t.Errorf("callback-lists: %s: %+v", list, found)
		}
	}
}

func ramdiskPort(h *Facts) { h.Plan.RamdiskPort = 5055 }

package doctor

import "testing"

// A list of URLs that is right is none to speak of: the floating IP first and then each host, or
// the hosts alone; on the ramdisks' port, if there is one.
func TestListsOfCallbacksThatAreRight(t *testing.T) {
	for list, change := range map[string]func(h *Facts){
		"http://192.0.2.200:5050/v1/continue,http://192.0.2.1:5050/v1/continue,http://192.0.2.2:5050/v1/continue": nil,
		"http://192.0.2.200:5055/v1/continue,http://192.0.2.1:5055/v1/continue":                                   ramdiskPort,
		"http://192.0.2.200:5050/v1/continue":                                                                     ramdiskPort,
		"http://192.0.2.1:5050/v1/continue,http://192.0.2.2:5050/v1/continue,http://192.0.2.3:5050/v1/continue": func(h *Facts) {
			h.Plan.FloatingIP, h.Plan.FloatingInterface, h.Address = "", "", Address{}
		},
	} {
		hosts := healthy()
		for i := range hosts {
			if hosts[i].Boot.Callback = list; change != nil {
				change(&hosts[i])
			}
		}
		if found := judge(t, hosts, "boot"); len(found) > 0 {
			t.Errorf("callback-lists: %s: %+v", list, found)
		}
	}
}

func ramdiskPort(h *Facts) { h.Plan.RamdiskPort = 5055 }

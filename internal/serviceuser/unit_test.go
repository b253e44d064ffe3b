package serviceuser

import (
	"slices"
	"testing"
)

// What the unit adds and hides is what systemd says of it, drop-ins included.
func TestUnit(t *testing.T) {
	u := unitOf("PrivateTmp=yes\nProtectHome=yes\nSupplementaryGroups=ssl-cert 4711\n")
	if !slices.Equal(u.Groups, []string{"ssl-cert", "4711"}) {
		t.Errorf("groups %q", u.Groups)
	}
	for path, want := range map[string]string{
		"/home/ops/.kube/config": "/home", "/root/ca.pem": "/root", "/tmp/k": "/tmp", "/var/tmp/k": "/var/tmp",
		"/run/user/0/k": "/run/user",
		"/etc/trivet/k": "", "/homes/k": "", "/run/trivet/k": "",
	} {
		if got := u.Hides(path); got != want {
			t.Errorf("hidden-by-the-unit: %s is hidden by %q, want %q", path, got, want)
		}
	}
	paths := unitOf("ReadWritePaths=-/run/trivet-hosts /mnt/nas/trivet -/srv/logs\n")
	if !slices.Equal(paths.Needs, []string{"/mnt/nas/trivet"}) {
		t.Errorf("needed-by-the-unit: %q", paths.Needs)
	}
	open := unitOf("PrivateTmp=no\nProtectHome=read-only\nSupplementaryGroups=\n")
	if len(open.Groups) > 0 || open.Hides("/home/k") != "" || open.Hides("/tmp/k") != "" {
		t.Errorf("a unit that hides nothing: %+v", open)
	}
}

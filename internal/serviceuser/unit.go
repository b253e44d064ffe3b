package serviceuser

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/internal/program"
)

// Unit is what the service's unit adds to, and takes from, the rights of its user.
type Unit struct {
	Groups []string // SupplementaryGroups
	Hidden []string // directories that are empty for it: ProtectHome, PrivateTmp
	Needs  []string // without one of these systemd does not start it: ReadWritePaths without "-"
}

// ReadUnit asks systemd for trivet.service. Where systemd does not run, or does not
// tell, nothing is added or hidden.
func ReadUnit(ctx context.Context) Unit {
	const limit = 3 * time.Second
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return Unit{}
	}
	path, err := program.Find("systemctl")
	if err != nil {
		return Unit{}
	}
	r, err := program.Run(ctx, limit, path, "show", "trivet.service",
		"--property=SupplementaryGroups,ProtectHome,PrivateTmp,ReadWritePaths")
	if err != nil {
		return Unit{}
	}
	return unitOf(string(r.Output))
}

// unitOf reads what 'systemctl show' prints, a line a property.
func unitOf(text string) (u Unit) {
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); {
		case key == "SupplementaryGroups":
			u.Groups = strings.Fields(value)
		case key == "ProtectHome" && (value == "yes" || value == "tmpfs"):
			u.Hidden = append(u.Hidden, "/home", "/root", "/run/user")
		case key == "PrivateTmp" && value != "no" && value != "":
			u.Hidden = append(u.Hidden, "/tmp", "/var/tmp")
		case key == "ReadWritePaths":
			u.Needs = slices.DeleteFunc(strings.Fields(value), func(path string) bool { return path[0] == '-' })
		}
	}
	return u
}

// Hides returns the hidden directory in which a path lies, "" for none.
func (u Unit) Hides(path string) string {
	for _, dir := range u.Hidden {
		if strings.HasPrefix(path, dir+"/") {
			return dir
		}
	}
	return ""
}

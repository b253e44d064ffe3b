package doctor

import "time"

// expiryWarning is when an operator should see to a certificate that does not renew by
// itself: an order may take weeks.
const expiryWarning = 30 * 24 * time.Hour

func judgeCertificates(f Facts) (out []Finding) {
	for _, c := range f.Certificates {
		out = append(out, f.age(c)...)
	}
	return out
}

func (f Facts) age(c Certificate) []Finding {
	remedy := []string{"# put a new one into " + c.File + "; it is read again by itself"}
	if c.File == "" {
		remedy = []string{"journalctl -u trivet | grep -i certificate", "trivet cert --help"}
	}
	now := f.Clock.Now
	day := func(at int64) string { return time.Unix(at, 0).UTC().Format(time.DateOnly) }
	switch {
	case c.Error != "":
		return []Finding{newFinding(Error, f, remedy, "%s cannot be used: %s", c.What, c.Error)}
	case now == 0:
		return nil
	case now > c.NotAfter:
		return []Finding{newFinding(Error, f, remedy, "%s has ended on %s", c.What, day(c.NotAfter))}
	case now < c.NotBefore:
		return []Finding{newFinding(Error, f, remedy,
			"%s begins on %s: the clock was ahead when it was made, or is behind now", c.What, day(c.NotBefore))}
	case c.RenewAt > 0 && now > (c.RenewAt+c.NotAfter)/2:
		return []Finding{newFinding(Warning, f, remedy, "%s ends on %s and should have been renewed on %s", c.What,
			day(c.NotAfter), day(c.RenewAt))}
	case c.RenewAt == 0 && time.Duration(c.NotAfter-now)*time.Second < expiryWarning:
		return []Finding{newFinding(Warning, f, remedy, "%s ends on %s and is not renewed automatically", c.What,
			day(c.NotAfter))}
	}
	return nil
}

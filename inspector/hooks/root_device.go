package hooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
)

// hints say which disk of a node is the one to install on: all of them fit it.
type hints []hint

// hint is one of them, ready to be compared.
type hint struct {
	name string
	want comparison // of rotational: unused
	flag bool       // of rotational alone
}

const (
	hintSize       = "size"       // in GiB
	hintRotational = "rotational" // true or false
)

// gibibyte is the unit of size hints and of local_gb.
const gibibyte = 1 << 30

// hintsOf reads hints as an operator wrote them into a node's properties. The texts
// are Ironic's, which refuses the same hints with them when the node is
// deployed.
func hintsOf(properties any) (hints, error) {
	written, ok := properties.(map[string]any)
	if !ok || len(written) == 0 {
		return nil, document.Failed(`hints are an object, as in {"size": ">= 60"}; got %s`,
			clipped(python(document.Repr, properties)))
	}
	// In the order of Ironic's message. Those that have no constant above are text.
	known := []string{hintSize, "model", "wwn", "serial", "vendor", "wwn_with_extension", "wwn_vendor_extension", "name",
		hintRotational, "hctl", "by_path"}
	names := slices.Sorted(maps.Keys(written))
	unknown := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, name) })
	if len(unknown) > 0 {
		return nil, document.Failed(`The hints "%s" are invalid. Valid hints are: "%s"`, clipped(strings.Join(unknown, ", ")),
			strings.Join(known, ", "))
	}
	var parsed hints
	for _, name := range names {
		h, err := parseHint(name, written[name])
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, h)
	}
	return parsed, nil
}

func parseHint(name string, written any) (hint, error) {
	switch name {
	case hintRotational:
		flag, ok := pythonBool(fmt.Sprint(written))
		if !ok {
			return hint{}, badHint(name, "is not a Boolean value. Current value: ", written)
		}
		return hint{name: name, flag: flag}, nil
	case hintSize:
		return parseSize(written)
	}
	text, ok := written.(string)
	if !ok {
		return hint{}, badHint(name, "is not a string value. Hint expression: ", written)
	}
	if strings.TrimSpace(text) == "" {
		return hint{}, document.Failed("Root device hint %q expression is empty", name)
	}
	expression, ok := normalized(text)
	if !ok {
		return hint{}, badHint(name, "has an operator without a value. Current value: ", text)
	}
	c, ok := parseComparison(expression)
	if !ok {
		return hint{}, badHint(name, "cannot be read. Current value: ", text)
	}
	if c.op == "" {
		c.op = "s=="
	}
	return hint{name: name, want: c}, nil
}

// parseSize reads the hint whose values are whole numbers above 0.
func parseSize(written any) (hint, error) {
	text := python(document.Str, written)
	lowered := strings.ToLower(strings.TrimSpace(text))
	if lowered == "" {
		return hint{}, document.Failed("Root device hint %q expression is empty", hintSize)
	}
	c, ok := parseComparison(lowered)
	if !ok {
		return hint{}, badHint(hintSize, "has an operator without a value. Current value: ", written)
	}
	values := []string{lowered}
	if c.op != "" {
		values = slices.DeleteFunc(strings.Split(lowered, c.op), func(v string) bool { return v == "" })
	}
	for _, value := range values {
		size, err := document.ParseInt(value)
		if err != nil {
			return hint{}, badHint(hintSize, "is not an integer value. Current value: ", written)
		}
		if size.Sign() <= 0 {
			return hint{}, badHint(hintSize, "should be a positive integer. Current value: ", written)
		}
	}
	// Operators in capitals are none: the expression is compared as it was written.
	if c, ok = parseComparison(text); !ok {
		return hint{}, badHint(hintSize, "cannot be read. Current value: ", written)
	}
	if c.op == "" {
		c.op = "=="
	}
	return hint{name: hintSize, want: c}, nil
}

func badHint(name, what string, written any) error {
	return document.Failed("Root device hint %q %s%s", name, what, clipped(python(document.Str, written)))
}

// fit reports whether a disk has what all the hints ask for. An error says that
// a hint cannot be compared with what the disk has.
func (l hints) fit(disk object) (bool, error) {
	for _, h := range l {
		if fits, err := h.fits(disk); !fits || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (h hint) fits(disk object) (bool, error) {
	v := disk.members.Get(h.name)
	if h.name == hintSize {
		size, err := byteSize(disk.where+"."+h.name, v)
		if err != nil {
			return false, err
		}
		return h.want.holdsNumber(float64(size) / gibibyte)
	}
	text, err := attribute(disk.where+"."+h.name, v)
	if err != nil {
		return false, err
	}
	if h.name == hintRotational {
		flag, ok := pythonBool(text)
		return ok && flag == h.flag, nil
	}
	if strings.TrimSpace(text) == "" {
		return false, nil // nothing is known of it
	}
	have, ok := normalized(text)
	if !ok { // an operator alone is a strange name, and no expression
		have = urlQuoted(strings.ToLower(strings.TrimSpace(text)))
	}
	return h.want.holdsText(have)
}

// attribute is what a disk says of itself, as text: "none" if it says nothing,
// as the ramdisk has it too.
func attribute(where string, v *document.Value) (string, error) {
	if size := len(v.Raw()); size > maxText {
		return "", document.Failed("%s: %d bytes are more than the %d that are compared", where, size, maxText)
	}
	switch v.Kind() {
	case document.None:
		return "none", nil
	case document.Text:
		return v.Text(), nil
	default:
		return string(v.Raw()), nil
	}
}

// first returns the first disk that fits.
func (l hints) first(disks []object) (disk object, found bool, err error) {
	for _, disk := range disks {
		if fits, err := l.fit(disk); fits || err != nil {
			return disk, fits, err
		}
	}
	return object{}, false, nil
}

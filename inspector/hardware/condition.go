package hardware

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// quantity is a comparison, a number and a unit, of which the number alone is
// needed: ">= 3.8 TB", "480GB", "64".
var quantity = regexp.MustCompile(`^(>=|<=|>|<)? *([0-9]+(?:\.[0-9]+)?) *([KMGTP]i?B|B)?$`)

// tolerance is how much a size with a unit may differ and be the same: makers and
// kernels round 480 GB to 480.1 GB and 447 GiB.
const tolerance = 0.01

// condition makes of what a person writes the test of a fact: a comparison or a
// number with a unit compares numbers, all else is a pattern, in which * stands for
// any text. true and false are what the facts call yes and no.
func condition(wanted string) (func(fact string) bool, error) {
	m := quantity.FindStringSubmatch(wanted)
	if m != nil && (m[1] != "" || m[3] != "") {
		holds, err := number(wanted)
		if err != nil {
			return nil, err
		}
		return func(fact string) bool {
			told, err := strconv.ParseFloat(fact, 64)
			return err == nil && holds(told)
		}, nil
	}
	switch strings.ToLower(wanted) {
	case "true":
		wanted = "yes"
	case "false":
		wanted = "no"
	case "":
		return nil, errors.New("an empty text; write a value, or a pattern such as *")
	}
	if _, err := path.Match(flat(wanted), ""); err != nil {
		return nil, fmt.Errorf("%q: %w", wanted, err)
	}
	return func(fact string) bool {
		matches, _ := path.Match(flat(wanted), flat(fact)) // tried above
		return matches && fact != ""
	}, nil
}

// flat makes * match slashes, which names of ports have, and takes case away.
func flat(text string) string { return strings.ToLower(strings.ReplaceAll(text, "/", "\x00")) }

// number makes the test of a number of what a person writes.
func number(wanted string) (func(float64) bool, error) {
	m := quantity.FindStringSubmatch(wanted)
	if m == nil {
		return nil, fmt.Errorf("%q is no number; write 2, >= 2 or 480 GB", wanted)
	}
	limit, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", wanted, err)
	}
	limit *= unit(m[3])
	slack := 0.0
	if m[3] != "" {
		slack = limit * tolerance
	}
	switch m[1] {
	case ">=":
		return func(n float64) bool { return n >= limit-slack }, nil
	case "<=":
		return func(n float64) bool { return n <= limit+slack }, nil
	case ">":
		return func(n float64) bool { return n > limit+slack }, nil
	case "<":
		return func(n float64) bool { return n < limit-slack }, nil
	default:
		return func(n float64) bool { return math.Abs(n-limit) <= slack }, nil
	}
}

// unit is how many bytes a unit has: KB is 1,000, KiB 1,024.
func unit(name string) float64 {
	if name == "" || name == "B" {
		return 1
	}
	base := 1000.0
	if strings.Contains(name, "i") {
		base = 1024
	}
	return math.Pow(base, float64(1+strings.IndexByte("KMGTP", name[0])))
}

package inspectorconf

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fault is why a value is not carried over, and what to do about it.
type fault struct{ what, do string }

// turn makes of the original's text what our option reads.
type turn func(text string) (string, *fault)

func asText(text string) (string, *fault) { return strings.TrimSpace(text), nil }

// asBool follows oslo.config.
func asBool(text string) (string, *fault) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "1", "on", "yes":
		return "true", nil
	case "false", "0", "off", "no":
		return "false", nil
	}
	return "", &fault{fmt.Sprintf("%q is neither true nor false", text), "write true or false"}
}

// asLogLevel turns the original's debug into a level of ours.
func asLogLevel(text string) (string, *fault) {
	on, f := asBool(text)
	if on == "true" {
		return "debug", nil
	}
	return "info", f
}

func asNumber(text string) (string, *fault) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return "", &fault{fmt.Sprintf("%q is not a whole number", text), "write digits only"}
	}
	return strconv.Itoa(n), nil
}

// asSeconds gives a number its unit.
func asSeconds(text string) (string, *fault) {
	digits, f := asNumber(text)
	return digits + "s", f
}

// orNever is asSeconds where 0 means never to the original and nothing to us:
// then it becomes the longest there is.
func orNever(longest time.Duration) turn {
	return func(text string) (string, *fault) {
		seconds, f := asSeconds(text)
		if seconds == "0s" {
			return longest.String(), nil
		}
		return seconds, f
	}
}

// asList takes the blanks between the items away. Items are told apart by
// commas in both worlds.
func asList(text string) (string, *fault) {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return strings.Join(items, ","), nil
}

// asPairs is asList of KEY:VALUE.
func asPairs(text string) (string, *fault) {
	list, _ := asList(strings.Trim(strings.TrimSpace(text), "{}"))
	var pairs []string
	for pair := range strings.SplitSeq(list, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, ":")
		if !ok || strings.TrimSpace(key) == "" {
			return "", &fault{fmt.Sprintf("%q is not KEY:VALUE", pair), "write KEY:VALUE, with commas between the pairs"}
		}
		pairs = append(pairs, strings.TrimSpace(key)+":"+strings.TrimSpace(value))
	}
	return strings.Join(pairs, ","), nil
}

// device is one alias of PCI devices as the original writes it.
type device struct {
	Vendor  string `json:"vendor_id"`
	Product string `json:"product_id"`
	Name    string `json:"name"`
}

// asDevice turns one JSON object into vendor:product:name.
func asDevice(text string) (string, *fault) {
	var d device
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return "", &fault{fmt.Sprintf("is not a JSON object of texts: %v", err),
			`write {"vendor_id": "8086", "product_id": "0443", "name": "qat"}`}
	}
	for _, part := range []string{d.Vendor, d.Product, d.Name} {
		if part == "" || strings.ContainsAny(part, ":,") || strings.TrimSpace(part) != part {
			return "", &fault{"vendor_id, product_id and name must be there, without blanks, colons and commas",
				"write all three"}
		}
	}
	return d.Vendor + ":" + d.Product + ":" + d.Name, nil
}

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Option is one row of the table.
type Option struct {
	Key     string // path in the file, as "api.listen"
	Default string // as it is written in an environment variable
	Help    string // sentences for people
	AliasOf string // the key this is another name of
	Change  Change // when a new value counts
	Extent  Extent // on how many hosts it is the same
	// With are keys of earlier rows that its value is about: while one of them waits for a restart it waits, too.
	With []string

	rule  rule
	place []int // of its field in a Config; see placed
}

// field points to the field that has the value: a *string, *Secret, *bool, *int, *time.Duration or *[]string.
func (o Option) field(c *Config) any {
	return reflect.ValueOf(c).Elem().FieldByIndex(o.place).Addr().Interface()
}

// Env is the name of the option's environment variable.
func (o Option) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Key, ".", "_"))
}

// Type names the type of the value for people.
func (o Option) Type() string {
	switch o.field(new(Config)).(type) {
	case *bool:
		return "true or false"
	case *int:
		return "number"
	case *time.Duration:
		return "duration"
	case *[]string:
		return "list"
	}
	return "text"
}

// Bounds says in words what the value may be; "" when anything of its type.
func (o Option) Bounds() string { return o.rule.text }

// Words returns every value that the option may have, nil where there are too
// many to list. The empty value is left out.
func (o Option) Words() []string {
	if _, truth := o.field(new(Config)).(*bool); truth {
		return []string{"true", "false"}
	}
	return slices.DeleteFunc(slices.Clone(o.rule.words), func(word string) bool { return word == "" })
}

// Interfaces reports whether the value names network interfaces of the host.
func (o Option) Interfaces() bool { return o.rule.interfaces }

// Secret reports whether the value must not be shown.
func (o Option) Secret() bool {
	_, secret := o.field(new(Config)).(*Secret)
	return secret
}

// parse reads the value from text, as in a variable or a flag, and judges it.
func (o Option) parse(text string) (any, *fault) {
	value, f := parseAs(o.field(new(Config)), text)
	if f != nil {
		if o.Secret() {
			f = &fault{what: "is not valid"} // the message would quote it
		}
		return nil, f
	}
	return value, o.rule.checkValue(value)
}

// parseAs reads text as the type that target points to.
func parseAs(target any, text string) (any, *fault) {
	switch target.(type) {
	case *bool:
		if text != "true" && text != "false" {
			return nil, &fault{fmt.Sprintf("%q is neither true nor false", text), "write true or false"}
		}
		return text == "true", nil
	case *int:
		number, err := strconv.Atoi(text)
		if err != nil {
			return nil, &fault{fmt.Sprintf("%q is not a whole number", text), "write digits only"}
		}
		return number, nil
	case *time.Duration:
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return nil, &fault{fmt.Sprintf("%s is a number without a unit", text), fmt.Sprintf("write %ss for seconds", text)}
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, &fault{fmt.Sprintf("%q is not a duration", text),
				"write a number and its unit, as in 300ms, 15s, 2m, 24h"}
		}
		return d, nil
	case *[]string:
		return parseList(text), nil
	case *Secret:
		return Secret(text), nil
	}
	return text, nil
}

// parseList splits at commas; an empty text is an empty list. A list of texts in JSON is one, too.
func parseList(text string) []string {
	list := []string{}
	if strings.HasPrefix(text, "[") && json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	list = list[:0]
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// set stores a value that parse returned.
func (o Option) set(c *Config, value any) {
	if list, ok := value.([]string); ok {
		value = slices.Clone(list)
	}
	reflect.ValueOf(o.field(c)).Elem().Set(reflect.ValueOf(value))
}

// text returns the value as parse would read it. Secrets are hidden.
func (o Option) text(c *Config) string {
	switch field := o.field(c).(type) {
	case *string:
		return *field
	case *Secret:
		return field.String()
	case *bool:
		return strconv.FormatBool(*field)
	case *int:
		return strconv.Itoa(*field)
	case *time.Duration:
		return formatDuration(*field)
	case *[]string:
		return listText(*field)
	}
	return ""
}

// listText writes a list as parseList reads it: with commas, and in JSON where an item has one, or blanks
// at its ends. The tab is for joiners that read no JSON: they refuse a tab in an item, and write no halves.
func listText(list []string) string {
	text := strings.Join(list, ",")
	if slices.Equal(parseList(text), list) {
		return text
	}
	inJSON, err := json.Marshal(list)
	if err != nil { // no list of texts has one
		return text
	}
	return "[\t" + string(inJSON[1:])
}

// formatDuration is Duration.String without the "0m0s" at its end.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

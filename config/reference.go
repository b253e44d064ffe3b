package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
)

// referenceHead is the page above the tables.
//
//go:embed reference.txt
var referenceHead string

// Reference is the reference of the configuration, in Markdown:
// docs/configuration.md, made from the table.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for _, s := range Sections() {
		title := "At the top"
		if s.Name != "" {
			title = "`" + s.Name + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", title, s.Help)
		for _, o := range table {
			if section, _ := split(o.Key); section == s.Name {
				o.describe(&b)
			}
		}
	}
	return b.Bytes()
}

// describe writes what there is to know of one key, on one line: as an item of a list,
// which is as readable in a manual page as in a browser.
func (o Option) describe(b *bytes.Buffer) {
	fmt.Fprintf(b, "- <a id=\"%s\"></a>`%s`: %s", strings.ReplaceAll(o.Key, ".", ""), o.Key, o.Help)
	if o.AliasOf != "" {
		fmt.Fprintf(b, " Another name of `%s`.\n", o.AliasOf)
		return
	}
	allowed := o.Type()
	if bounds := o.Bounds(); bounds != "" {
		allowed = bounds
	}
	if o.Secret() {
		allowed += ", secret"
	}
	if o.Default != "" {
		allowed += "; default `" + o.Default + "`"
	}
	fmt.Fprintf(b, " (%s; %s; %s)\n", allowed, o.Change, o.Extent)
}

// Flag is the option's flag on command lines.
func (o Option) Flag() string {
	return "--" + strings.NewReplacer("_", "-", ".", "-").Replace(o.Key)
}

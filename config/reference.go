package config

import (
	"bytes"
	"fmt"
	"strings"
)

const referenceHead = `# Configuration reference

<!-- Made by 'trivet config reference' from the table in package config. A test compares. -->

A value comes from the first of: a flag, a variable, the file (` + "`/etc/trivet/trivet.yaml`, or the one that `--config` or `TRIVET_CONFIG` names" + `), the default.
In the file a key is a line in its section: ` + "`api.listen` is `listen:` below `api:`" + `. Every key has a variable and a flag, named with it below; the flags are
those of ` + "`trivet serve`" + ` and of each command that reads the configuration. Lists are ` + "`[a, b]`" + ` in the file, and ` + "`a,b`" + ` in a variable or a flag. A
duration has a unit: ` + "`300ms`, `15s`, `2m`, `24h`" + `. An unknown key, a key that stands there twice, and an unknown ` + "`TRIVET_…`" + ` variable are errors.
Options that are right one by one and of no use together, as ` + "`api.listen`" + ` with the host's own address next to ` + "`floating_ip.address`" + `, are errors of ` + "`config check`, `init` and `join`" + `;
` + "`serve`" + ` and a reload warn of them (design.md, options that are of no use together).

` + "```" + `
trivet config check               # all that is wrong, with lines; exit code 2 if anything is
trivet config show --effective    # every value in force, and where it comes from; secrets are hidden
trivet config reload              # the running peer reads it again, as on SIGHUP and 'systemctl reload trivet'
` + "```" + `

Each key says when a new value counts:

- **reload**: at once, when the configuration is read again. A configuration that will not do changes nothing.
- **restart**: when the peer starts. Until then ` + "`trivet status`" + ` names the key (warning ` + "`restart_needed`" + `).

And on how many hosts its value is the same:

- **equal on all peers**: ` + "`trivet doctor --check config`" + ` compares it, and names the peers and keys that differ. For that, peers send each other a mark of
  each value; without the cluster's secret the value cannot be guessed from it.
- **may differ**: a joining peer copies it from the peer that admits it, unless its own file sets it; a host may need another.
- **own of each host**: it is about one host alone.

<a id="retries"></a>
How often a service is asked again, and for how long:

| service | count and pause | time-out of one try | why no more of them |
|---|---|---|---|
| Ironic, and Keystone for its catalogue and login | ` + "`ironic.retries`, `ironic.retry_interval` | `ironic.timeout`" + ` | a login is a part of the call that needs it, and has that call's tries |
| power devices | ` + "`failover.retries`, `failover.retry_interval` | `failover.timeout`" + ` | the file of devices says others for each |
| Keystone, about a caller's token | none | ` + "`api.keystone.timeout`" + ` | the caller waits meanwhile, and asks again by itself after 503; a second try would hold its place for twice as long |
| the log, which is database, lock and queue | none: every 10 to 50 ms within 7 s | 3 s | 7 s cover two elections in a row; after more, workers must have stopped, since the session of 10 s ends (design.md, the check before every effect) |
`

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
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, s.Help)
		for _, o := range table {
			if section, _ := split(o.Key); section == s.Name {
				o.describe(&b)
			}
		}
	}
	return b.Bytes()
}

// describe writes what there is to know of one key.
func (o Option) describe(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n### `%s`\n\n%s\n\n", o.Key, o.Help)
	kind := o.Type()
	if o.Secret() {
		kind += ", secret"
	}
	if bounds := o.Bounds(); bounds != "" {
		kind += ": " + bounds
	}
	fallback := "empty"
	if o.Default != "" {
		fallback = "`" + o.Default + "`"
	}
	fmt.Fprintf(b, "- %s; default %s\n", kind, fallback)
	fmt.Fprintf(b, "- `%s`, `%s`\n", o.Env(), o.Flag())
	if o.AliasOf != "" {
		fmt.Fprintf(b, "- another name of `%s`\n", o.AliasOf)
		return
	}
	fmt.Fprintf(b, "- %s; %s\n", o.Change, o.Extent)
}

// Flag is the option's flag on command lines.
func (o Option) Flag() string {
	return "--" + strings.NewReplacer("_", "-", ".", "-").Replace(o.Key)
}

package fence

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// options reads an agent's options; those of the device are for all machines.
func (r *reader) options(path string, v *yaml.Node, all bool) []option {
	list := make([]option, 0, maxOptions)
	for _, e := range r.entries(path, v, maxOptions) {
		if what, do := wrongOption(e.key, all); what != "" {
			r.problem(e.line, join(path, e.key), what, do)
			continue
		}
		o := option{name: e.key}
		if what, do := word(&o.value, e.value); what != "" {
			r.problem(e.value.Line, join(path, e.key), what, do)
			continue
		}
		list = append(list, o)
	}
	return list
}

// optionName is an option's name as agents compare it.
func optionName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

var optionWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// wrongOption refuses what is ours to say. A second action would count instead of
// the first, and reboot is what agents do without one.
func wrongOption(name string, all bool) (what, do string) {
	switch optionName(name) {
	case "action", "option", "o", "method", "help", "version":
		return "is not for the file to say", "remove it: trivet says off, on or status, and nothing else"
	case "missing_as_off":
		return "lets a machine that the device does not know count as off",
			"remove it: a wrong plug would be the proof that a machine is dead"
	case "network_fencing", "record_only", "earlyexit", "warntimeout", "baremetalsolution":
		return "lets the program report success without the power being off",
			"remove it: pods are moved only from a machine that is off"
	case "passwd", "password", "p":
		return "is a password", "write it into a file, and the file's name as password_file"
	case "plug", "port", "n":
		if all {
			return "names one machine for all", "write it under nodes, for each"
		}
	}
	if !optionWord.MatchString(name) {
		return "is no name of an option", "write it as the program's manual page does, without hyphens in front"
	}
	return "", ""
}

// agentMeant is the machine that an agent's options choose. A plug alone means something
// to one program only.
func agentMeant(s *spec, n node) meant {
	c := chosen(s.options, n.options)
	m := meant{host: oneSpelling(c.host), scope: filepath.Base(s.program), whole: len(c.plugs) == 0 && c.rest == ""}
	if len(c.plugs) == 0 {
		c.plugs = []string{""}
	}
	for _, plug := range c.plugs {
		m.machines = append(m.machines, plug+" "+c.rest)
	}
	return m
}

// choice is what an agent's options say about which machine is meant.
type choice struct {
	host  string
	plugs []string
	rest  string // options that may choose a machine, or may not
}

// chosen reads the options of the device and of the machine, which go first.
func chosen(device, machine []option) choice {
	values := make(map[string]string)
	for _, o := range slices.Concat(device, machine) {
		values[canonical(o.name)] = o.value
	}
	c := choice{host: values["ip"]}
	plug, separator := values["plug"], values["plug_separator"]
	if separator == "" {
		separator = ","
	}
	switch asIP := values["port_as_ip"]; {
	case plug == "":
	case asIP != "" && asIP != "0" && !strings.EqualFold(asIP, "false"):
		c.host = plug
	default:
		for one := range strings.SplitSeq(plug, separator) {
			c.plugs = append(c.plugs, strings.ToLower(strings.TrimSpace(one)))
		}
	}
	var rest []string
	for name, value := range values {
		if name != "ip" && name != "plug" && !indifferent(name) {
			rest = append(rest, name+"="+value)
		}
	}
	slices.Sort(rest)
	c.rest = strings.Join(rest, "\n")
	return c
}

// canonical is one name for all names that fence agents have for an option.
func canonical(option string) string {
	switch name := optionName(option); name {
	case "ipaddr", "ipaddress", "ip_address", "a":
		return "ip"
	case "port", "n", "uuid":
		return "plug"
	case "u":
		return "ipport"
	case "s":
		return "switch"
	default:
		return name
	}
}

// indifferent reports whether an option says how a device is spoken to, and not
// which machine is meant.
func indifferent(name string) bool {
	switch name {
	case "username", "login", "l", "lanplus", "cipher", "privlvl", "auth", "hexadecimal_kg", "community", "secure", "ssh",
		"x", "ssl", "z",
		"ssl_secure", "ssl_insecure", "notls", "ssh_options", "identity_file", "k", "cmd_prompt", "command_prompt", "verbose",
		"verbose_level", "v",
		"debug", "debug_file", "quiet", "q", "sudo", "use_sudo", "inet4_only", "inet6_only", "separator", "plug_separator",
		"port_as_ip",
		"delay", "power_wait", "retry_on", "stonith_status_sleep", "redfish_uri", "ribcl", "ribcl_version", "drac_version":
		return true
	}
	return strings.HasSuffix(name, "_timeout") || strings.HasSuffix(name, "_path") || strings.HasSuffix(name, "_script") ||
		strings.HasPrefix(name, "snmp_")
}

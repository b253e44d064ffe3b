package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// Fields of an interface: its own, and those that the hook lldp_basic reads from the
// switch it is plugged into. The names are those of
// 'baremetal introspection interface'.
const (
	FieldInterface = "interface"
	FieldMAC       = "mac"
	fieldNode      = "node_ident"
	fieldVLANs     = "switch_port_vlan_ids" // of switch_port_vlans, which holds their names as well
)

// interfaceFields are all, sorted.
func interfaceFields() []string {
	return []string{
		FieldInterface, FieldMAC, fieldNode,
		"switch_capabilities_enabled", "switch_capabilities_support", "switch_chassis_id", "switch_mgmt_addresses",
		"switch_port_autonegotiation_enabled", "switch_port_autonegotiation_support", "switch_port_description", "switch_port_id",
		"switch_port_link_aggregation_enabled", "switch_port_link_aggregation_id", "switch_port_link_aggregation_support",
		"switch_port_management_vlan_id", "switch_port_mau_type", "switch_port_mtu", "switch_port_physical_capabilities",
		"switch_port_protocol_vlan_enabled", "switch_port_protocol_vlan_ids", "switch_port_protocol_vlan_support",
		"switch_port_untagged_vlan_id", fieldVLANs, "switch_port_vlans", "switch_protocol_identities",
		"switch_system_description", "switch_system_name",
	}
}

// networkInterface is what the data of an introspection tells of one, by field;
// one that is not known is null.
type networkInterface map[string]any

const aboutInterfaces = "What is told comes from the data of the node's last introspection. The fields that begin with switch_ are there if the\n" +
	"ramdisk collected LLDP (kernel parameter ipa-collect-lldp=1) and the hook lldp_basic is configured."

func interfaceList(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var fields []string
	var vlans []int
	var long, stale bool
	c := &cobra.Command{
		Use:     "list NODE",
		Short:   "List the network interfaces of a node",
		Long:    "List the network interfaces of a node.\n" + aboutInterfaces,
		Example: "trivet introspection interface list node-1\ntrivet introspection interface list node-1 --vlan 100",
	}
	c.Flags().IntSliceVar(&vlans, "vlan", nil, "only interfaces whose switch port has one of these VLANs, separated by commas")
	c.Flags().BoolVar(&long, "long", false, "show all fields")
	fieldsFlag(c, &fields)
	servers.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkFields(fields); err != nil {
			return err
		}
		switch {
		case fields != nil && long:
			return term.Usage("--fields: it does not go with --long")
		case fields != nil:
		case long, t.Format == "wide":
			fields = interfaceFields()
		default:
			fields = []string{FieldInterface, FieldMAC, fieldVLANs, "switch_chassis_id", "switch_port_id"}
		}
		all, err := interfaces(c.Context(), t, f, args[0], stale)
		if err != nil {
			return err
		}
		if vlans != nil {
			all = slices.DeleteFunc(all, func(i networkInterface) bool { return !i.has(vlans) })
		}
		return printInterfaces(t, all, fields)
	}
	return c
}

func interfaceShow(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var fields []string
	var stale bool
	c := &cobra.Command{
		Use:     "show NODE INTERFACE",
		Short:   "Show all that is known of a node's network interface",
		Long:    "Show all that is known of a node's network interface.\n" + aboutInterfaces,
		Example: "trivet introspection interface show node-1 eno1",
	}
	fieldsFlag(c, &fields)
	servers.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkFields(fields); err != nil {
			return err
		}
		if fields == nil {
			fields = interfaceFields()
		}
		all, err := interfaces(c.Context(), t, f, args[0], stale)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(i networkInterface) bool { return i[FieldInterface] == args[1] })
		if at < 0 {
			return term.Fail(term.ExitNotFound, "see 'trivet introspection interface list "+args[0]+"'", "%s: interface %s was not found on this node", args[0], term.Printable(args[1]))
		}
		return t.Fields(args[1], fields, all[at].only(fields))
	}
	return c
}

func fieldsFlag(c *cobra.Command, fields *[]string) {
	c.Flags().StringSliceVar(fields, "fields", nil, "show these fields, separated by commas: "+strings.Join(interfaceFields(), ", "))
	term.Complete(c, "fields", interfaceFields()...)
}

func checkFields(fields []string) error {
	for _, field := range fields {
		if !slices.Contains(interfaceFields(), field) {
			return term.Usage("--fields %s: it is one of %s", field, strings.Join(interfaceFields(), ", "))
		}
	}
	return nil
}

// interfaces reads the interfaces of a node, sorted by their names.
func interfaces(ctx context.Context, t *term.Terminal, f *servers.Flags, node string, stale bool) ([]networkInterface, error) {
	node, err := oneNode(t, node)
	if err != nil {
		return nil, err
	}
	web, err := f.Reader(stale)
	if err != nil {
		return nil, err
	}
	data, err := web.Data(ctx, node)
	if client.HasStatus(err, http.StatusNotFound) {
		return nil, term.Fail(term.ExitNotFound, "data is there once an introspection has worked on it: 'trivet introspection status "+node+"'", "%s: %w", node, err)
	}
	if err != nil {
		return nil, err
	}
	all, err := ParseInterfaces(node, data)
	if err != nil {
		return nil, fmt.Errorf("the data of %s: %w", node, err)
	}
	return all, nil
}

// ParseInterfaces reads the key all_interfaces, which the hook
// validate_interfaces adds to the data.
func ParseInterfaces(node string, data []byte) ([]networkInterface, error) {
	var document struct {
		All map[string]struct {
			MAC  any            `json:"mac"`
			LLDP map[string]any `json:"lldp_processed"`
		} `json:"all_interfaces"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("read all_interfaces: %w", err)
	}
	var out []networkInterface
	for _, name := range slices.Sorted(maps.Keys(document.All)) {
		one := document.All[name]
		i := make(networkInterface)
		for _, field := range interfaceFields() {
			i[field] = one.LLDP[field]
		}
		i[FieldInterface], i[FieldMAC], i[fieldNode], i[fieldVLANs] = name, one.MAC, node, vlanIDs(one.LLDP["switch_port_vlans"])
		out = append(out, i)
	}
	return out, nil
}

// vlanIDs takes the numbers out of a list of VLANs, each {"id": 100, "name": …}.
func vlanIDs(vlans any) any {
	list, ok := vlans.([]any)
	if !ok {
		return nil
	}
	ids := []any{}
	for _, vlan := range list {
		if one, ok := vlan.(map[string]any); ok {
			ids = append(ids, one["id"])
		}
	}
	return ids
}

// has reports whether the interface's switch port has one of the VLANs.
func (i networkInterface) has(vlans []int) bool {
	ids, _ := i[fieldVLANs].([]any)
	return slices.ContainsFunc(ids, func(id any) bool {
		return slices.ContainsFunc(vlans, func(vlan int) bool { return fmt.Sprint(id) == fmt.Sprint(vlan) })
	})
}

func (i networkInterface) only(fields []string) networkInterface {
	out := make(networkInterface)
	for _, field := range fields {
		out[field] = i[field]
	}
	return out
}

func printInterfaces(t *term.Terminal, all []networkInterface, fields []string) error {
	name := func(i networkInterface) string { return term.Printable(fmt.Sprint(i[FieldInterface])) }
	if t.Format == "json" || t.Format == "yaml" {
		for n := range all {
			all[n] = all[n].only(fields)
		}
	}
	return t.Show(all, term.Grid{
		Names: term.Each(all, name), Titles: term.Each(fields, strings.ToUpper),
		Rows: term.Each(all, func(i networkInterface) []string {
			return term.Each(fields, func(field string) string { return term.Value(i[field]) })
		}),
	})
}

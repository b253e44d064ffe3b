package node

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/internal/bounds"
)

func nodeDiffCommand(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var with string
	c := &cobra.Command{
		Use:   "diff NODE",
		Short: "Show what changed of a node's hardware since the inspection before",
		Long: "Show what came, went, moved or changed between the last two inspections of a node: disks, memory modules, cards, interfaces,\n" +
			"cables, firmware. With --with the last inspection is compared with a document in a file, which 'trivet introspection data save\n" +
			"--unprocessed' wrote. A part is known by its serial number, WWN or MAC; names, orders and rates are no change, nor is what one of\n" +
			"both does not tell.",
		Example: "trivet node diff node-1\ntrivet node diff node-1 --with node-1-at-delivery.json",
	}
	c.Flags().StringVar(&with, "with", "", "a document to compare with, in the place of the inspection before")
	c.RunE = func(c *cobra.Command, args []string) error {
		ref, err := oneNode(t, args[0])
		if err != nil {
			return err
		}
		web, err := f.Client()
		if err != nil {
			return err
		}
		compare := web.Hardware().Changes
		if with != "" {
			compare = func(ctx context.Context, node string) (client.Changes, error) {
				return changesSince(ctx, web, node, with)
			}
		}
		found, err := compare(c.Context(), ref)
		if err != nil {
			return err
		}
		return t.Show(found, func() error {
			switch {
			case !found.Compared:
				t.Say("one inspection of %s is stored; there is nothing to compare it with", term.Printable(ref))
			case len(found.Changes) == 0:
				t.Say("no hardware of %s changed", term.Printable(ref))
			}
			for _, c := range found.Changes {
				if _, err := fmt.Fprintln(t.Out, term.Printable(c.Text)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return c
}

// changesSince compares a node's last inspection with a document in a file.
func changesSince(ctx context.Context, web *client.Client, node, file string) (client.Changes, error) {
	older, err := os.ReadFile(file)
	if err != nil {
		return client.Changes{}, fmt.Errorf("read the document to compare with: %w", err)
	}
	was, err := hardware.Of(bounds.WithoutMark(older))
	if err != nil {
		return client.Changes{}, fmt.Errorf("%s: %w", file, err)
	}
	newer, err := web.UnprocessedData(ctx, node)
	if err != nil {
		return client.Changes{}, err
	}
	is, err := hardware.Of(newer)
	if err != nil {
		return client.Changes{}, fmt.Errorf("the document of node %s: %w", node, err)
	}
	out := client.Changes{Compared: true, Changes: []client.HardwareChange{}}
	for _, c := range hardware.Compare(was, is) {
		part := client.HardwarePart{Kind: c.Part.Kind, ID: c.Part.ID, Place: c.Part.Place, Facts: c.Part.Facts}
		out.Changes = append(out.Changes,
			client.HardwareChange{Change: c.What, Part: part, Fact: c.Fact, Was: c.Was, Is: c.Is, Text: c.String()})
	}
	return out, nil
}

// plugged is one interface of a node, and where it is plugged in.
type plugged struct {
	Node string `json:"node"`
	client.Cable
}

func nodeCablingCommand(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var asCSV bool
	c := servers.Verb[[]plugged]{
		Use:   "cabling [NODE]...",
		Short: "Show where the interfaces of nodes are plugged in",
		Long: "Show the switch, port and VLAN that each interface heard by LLDP at the node's last inspection, by Trivet or by Ironic, of the nodes\n" +
			"that are named or of all whose document is stored. What neither the ramdisk nor the switch said is shown as \"-\".",
		Example: "trivet node cabling node-1\ntrivet node cabling --csv > cabling.csv",
		Ask: func(ctx context.Context, web *client.Client, args []string) ([]plugged, error) {
			return readCabling(ctx, t, web, args)
		},
		Show: func(cables []plugged) error {
			if asCSV {
				rows := [][]string{{"node", "interface", "mac", "link", "speed_mbps", "switch", "switch_id", "port", "vlan"}}
				for _, c := range cables {
					rows = append(rows,
						[]string{c.Node, c.Interface, c.MAC, c.Link, c.SpeedMbps, c.Switch, c.SwitchID, c.Port, c.VLAN})
				}
				if err := csv.NewWriter(t.Out).WriteAll(rows); err != nil {
					return fmt.Errorf("write the cabling: %w", err)
				}
				return nil
			}
			type row struct {
				Node, Interface, MAC, Link, Speed, Switch, Port, VLAN string
				SwitchID                                              string `col:"wide"`
			}
			return t.Show(cables, term.Each(cables, func(c plugged) row {
				p := term.Printable
				return row{p(c.Node), p(c.Interface), p(c.MAC), p(c.Link), p(c.SpeedMbps), p(c.Switch), p(c.Port), p(c.VLAN),
					p(c.SwitchID)}
			}))
		},
	}.Command(f)
	c.Args = cobra.ArbitraryArgs
	c.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values")
	return c
}

// readCabling reads the cables of the nodes that are named, or of all that have a record
// or are in Ironic, which may have inspected them. Of all, those without a document are
// passed over.
func readCabling(ctx context.Context, t *term.Terminal, web *client.Client, nodes []string) ([]plugged, error) {
	named := len(nodes) > 0
	if !named {
		seen := make(map[string]bool)
		for record, err := range web.List(ctx, client.ListOptions{}) {
			if err != nil {
				return nil, err
			}
			seen[record.UUID] = true
		}
		inIronic, err := web.NodeNames(ctx)
		if err != nil {
			t.Warn("nodes without a record are missing: %s", term.Printable(err.Error()))
		}
		for _, n := range inIronic {
			seen[n.UUID] = true
		}
		nodes = slices.Sorted(maps.Keys(seen))
	}
	var all []plugged
	for _, node := range nodes {
		cables, err := web.Hardware().Cabling(ctx, node)
		switch {
		case client.HasStatus(err, 404) && !named:
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", term.Printable(node), err)
		}
		for _, cable := range cables {
			all = append(all, plugged{node, cable})
		}
	}
	return all, nil
}

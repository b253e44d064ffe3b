package rules

import (
	"encoding/json"
	"fmt"

	"github.com/trivet-ha/trivet/inspector/document"
)

// renamed is what openstacksdk calls a node's attributes that it does not call
// as Ironic does.
var renamed = map[string]string{
	"uuid": "id", "allocation_uuid": "allocation_id", "chassis_uuid": "chassis_id", "instance_uuid": "instance_id",
	"portgroups": "port_groups", "automated_clean": "is_automated_clean_enabled", "console_enabled": "is_console_enabled",
	"maintenance": "is_maintenance", "protected": "is_protected", "retired": "is_retired", "secure_boot": "is_secure_boot",
}

// kept is what openstacksdk calls as Ironic does, newer versions included. What
// stands in neither list it does not show.
var kept = [...]string{
	"owner", "boot_mode", "clean_step", "conductor", "conductor_group", "created_at", "deploy_step", "description",
	"driver",
	"driver_info", "driver_internal_info", "extra", "fault", "instance_info", "instance_name", "last_error", "lessee",
	"links",
	"maintenance_reason", "name", "parent_node", "ports", "power_state", "properties", "protected_reason",
	"provision_state",
	"retired_reason", "raid_config", "reservation", "resource_class", "runbook", "service_step", "shard", "states",
	"target_provision_state", "target_power_state", "target_raid_config", "traits", "updated_at",
	"bios_interface", "boot_interface", "console_interface", "deploy_interface", "firmware_interface", "inspect_interface",
	"management_interface", "network_interface", "power_interface", "raid_interface", "rescue_interface",
	"storage_interface",
	"vendor_interface",
}

// newer is what openstacksdk 0.101 does not know. Of the rest, what Ironic does not
// tell is null; of these it is not there.
var newer = map[string]bool{
	"description": true, "instance_name": true, "lessee": true, "parent_node": true, "runbook": true, "service_step": true,
	"shard": true, "firmware_interface": true,
}

// spelled makes the node as rules see it of what Ironic tells.
func spelled(whole map[string]any) (*document.Value, error) {
	node := make(map[string]any, len(kept)+len(renamed))
	for ironic, sdk := range renamed {
		node[sdk] = whole[ironic] // nil: null
	}
	for _, name := range kept {
		if told, there := whole[name]; there || !newer[name] {
			node[name] = told
		}
	}
	node["location"] = nil
	raw, err := json.Marshal(node) // in the order of names, so that it is the same on all peers
	if err != nil {
		return nil, fmt.Errorf("the node in Ironic: %w", err)
	}
	return document.Bounded(raw), nil
}

package inspectorconf

import (
	"errors"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// FuzzInspectorConf feeds files: no panic, every refusal with a place, and what
// is accepted becomes a configuration that Load accepts.
func FuzzInspectorConf(f *testing.F) {
	for _, seed := range []string{
		"[DEFAULT]\nauth_strategy = noauth\ntimeout = 3600\nclean_up_period = 60\nintrospection_delay = 0\napi_max_limit = 4\n[healthcheck]\nenabled = true\n",
		"[processing]\nprocessing_hooks = $default_processing_hooks,extra_hardware,\n  lldp_basic\nstore_data = database\nnode_not_found_hook = enroll\nadd_ports = all\nkeep_ports = present\npermit_active_introspection = True\n",
		"[capabilities]\nboot_mode = true\ncpu_flags = vmx:cpu_vt\n[port_physnet]\ncidr_map = 172.24.0.0/16:physnet_lab\n[pxe_filter]\ndriver = noop\nsync_period=900\n",
		"[ironic]\nauth_type = password\nauth_url = http://127.0.0.1/v3\nusername = u\npassword = p$$w\nproject_name = s\nendpoint_override: http://127.0.0.1:6385\n",
		"[pci_devices]\nalias = {\"vendor_id\": \"8086\", \"product_id\": \"0443\", \"name\": \"qat\"}\nalias = {}\n[DEFAULT]\nuse_ssl=1\nauth_strategy=http_basic\n[ssl]\ncert_file=/c\nkey_file=/k",
		"[a]\nx=$x\n[DEFAULT]\ntimeout=${a.x}\nlisten_address=$timeout\\$\n\x00", "; c\n[b]\nq: '\n  \"",
		"[DEFAULT]\nlisten_port=99999\nlisten_address=::1\ntimeout=-1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := Convert(Input{File: "f", Text: text, Hooks: hooks()})
		var problems config.Problems
		switch {
		case errors.As(err, &problems):
			for _, p := range problems {
				if p.What == "" || p.Where.Kind != config.FromFile {
					t.Fatalf("a problem says nothing: %+v", p)
				}
			}
			return
		case err != nil:
			t.Fatalf("%T: %v", err, err)
		}
		c, err := config.Load(config.Sources{File: "y", Text: out.YAML})
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, out.YAML)
		}
		for _, p := range out.Left {
			if p.What == "" || p.Key == "" {
				t.Fatalf("a loss says nothing: %+v", p)
			}
		}
		if c.API.AuthStrategy == "" {
			t.Fatalf("who may use the API is not said:\n%s", out.YAML)
		}
	})
}

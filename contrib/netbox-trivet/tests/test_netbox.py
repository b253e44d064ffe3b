"""The exporter against a small NetBox and a small Trivet (fakes.py)."""

import copy
import os
import socket
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fakes  # noqa: E402
import netbox_trivet  # noqa: E402

NODE = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10"
DOCUMENT = {"inventory": {
    "system_vendor": {"manufacturer": "Acme", "product_name": "M1", "serial_number": "SN-1"},
    "interfaces": [{"name": "eno1", "mac_address": "52:54:00:00:00:01"}, {"name": "eno2", "mac_address": "52:54:00:00:00:02"}],
    "disks": [{"name": "/dev/sda", "model": "SATA 1", "size": 480103981056, "rotational": False, "serial": "D1"},
              {"name": "/dev/sdb", "model": "SATA 2" * 20, "size": 8001563222016, "rotational": True, "wwn": "0x5000"}],
    "cpu": {"model_name": "Epyc", "count": 64, "architecture": "x86_64"},
}}


def cable(number, switch="sw1", port="Ethernet1"):
    return {"interface": f"eno{number}", "mac": f"52:54:00:00:00:0{number}", "link": "yes", "speed_mbps": "25000", "switch": switch,
            "switch_id": "", "port": port, "vlan": "7"}


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.netbox, self.trivet = fakes.NetBox(), fakes.Trivet()
        self.addCleanup(self.netbox.close)
        self.addCleanup(self.trivet.close)
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.files = {}
        for name, text in {"credentials": "admin:hummingbird", "token": fakes.TOKEN}.items():
            self.files[name] = os.path.join(where.name, name)
            with open(self.files[name], "w", encoding="utf-8") as file:
                file.write(text + "\n")
        self.device = self.netbox.put("dcim/devices", {"name": "node-1", "serial": ""})["id"]
        self.switch = self.netbox.put("dcim/devices", {"name": "sw1", "serial": "S"})["id"]
        self.ports = [self.netbox.put("dcim/interfaces", {"device": self.switch, "name": f"Ethernet{n}", "type": "25gbase-x-sfp28"})["id"]
                      for n in (1, 2, 3)]
        self.trivet.names[NODE] = "node-1"
        self.trivet.documents[NODE] = copy.deepcopy(DOCUMENT)
        self.trivet.cables[NODE] = [cable(1), cable(2, port="Ethernet2")]

    def export(self, *more, code=0):
        said = []
        got = netbox_trivet.main(["--server", "http://127.0.0.1:1," + self.trivet.url, "--credentials", self.files["credentials"],
                                  "--netbox", self.netbox.url, "--netbox-token-file", self.files["token"], *more], said.append)
        self.assertEqual(got, code, said)
        return said

    def things(self, kind, **fields):
        return [t for t in self.netbox.tables[kind].values() if all(t.get(k) == v for k, v in fields.items())]

    def test_second_run_changes_nothing(self):
        self.export()
        self.assertEqual(self.netbox.tables["dcim/devices"][self.device]["serial"], "SN-1")
        self.assertEqual([i["name"] for i in self.things("dcim/interfaces", device=self.device)], ["eno1", "eno2"])
        self.assertEqual([m["mac_address"] for m in self.things("dcim/mac-addresses")], ["52:54:00:00:00:01", "52:54:00:00:00:02"])
        self.assertEqual([i["name"] for i in self.things("dcim/inventory-items")], ["disk D1", "disk 0x5000", "CPU"])
        self.assertEqual(len(self.things("dcim/cables")), 2)
        before = len(self.netbox.writes)
        self.assertEqual(self.export()[-1], "0 changes, 0 errors")
        self.assertEqual(len(self.netbox.writes), before, "not idempotent")

    def test_dry_run_changes_nothing(self):
        said = self.export("--dry-run")
        self.assertEqual(self.netbox.writes, [])
        self.assertIn("would create interface eno1 of node-1", said)
        self.assertIn("would create cable between node-1 eno2 and sw1 Ethernet2", said)
        planned = len([line for line in said if line.startswith("would ")])
        self.export()
        self.assertEqual(len(self.netbox.writes), planned, "the dry run said something else")

    def test_what_others_made_stays(self):
        eno1 = self.netbox.put("dcim/interfaces", {"device": self.device, "name": "eno1", "type": "other"})["id"]
        self.netbox.put("dcim/mac-addresses", {"mac_address": "52:54:00:00:00:99", "assigned_object_type": "dcim.interface",
                                               "assigned_object_id": eno1})
        self.netbox.put("dcim/inventory-items", {"device": self.device, "name": "CPU", "serial": "", "part_id": "Old", "description": ""})
        idle = self.netbox.put("dcim/interfaces", {"device": self.device, "name": "mgmt", "type": "other"})["id"]
        end = lambda n: [{"object_type": "dcim.interface", "object_id": n}]  # noqa: E731
        self.netbox.put("dcim/cables", {"a_terminations": end(eno1), "b_terminations": end(self.ports[2])})
        before = copy.deepcopy(self.netbox.tables)
        said = "\n".join(self.export("--prune", code=1))
        for text in ("error: node-1: interface eno1: mac_address: NetBox has 52:54:00:00:00:99, the machine says 52:54:00:00:00:01; not changed",
                     "error: node-1: inventory item CPU: description, part_id differ, and Trivet did not make it; not changed",
                     "error: node-1: interface eno1: cable: NetBox has another cable there"):
            self.assertIn(text, said)
        for kind, table in before.items():
            for number, thing in table.items():
                if (kind, number) != ("dcim/devices", self.device):  # whose serial was empty
                    self.assertEqual(self.netbox.tables[kind].get(number), thing, "changed what others made")
        self.assertIn(idle, self.netbox.tables["dcim/interfaces"])

    def test_changes_of_the_machine(self):
        self.export()
        document = self.trivet.documents[NODE]["inventory"]
        document["interfaces"] = [{"name": "eno1", "mac_address": "52:54:00:00:00:0A"}]  # a card was replaced, and one is gone
        document["disks"].pop()
        self.trivet.cables[NODE] = [{**cable(1, port="Ethernet3"), "mac": "52:54:00:00:00:0a"}]
        said = self.export()
        self.assertIn("interface eno2 of node-1: the machine does not have it any more; --prune deletes it", said)
        eno1 = self.things("dcim/interfaces", device=self.device, name="eno1")[0]
        self.assertEqual([m["mac_address"] for m in self.things("dcim/mac-addresses", assigned_object_id=eno1["id"])], ["52:54:00:00:00:0A"])
        self.assertEqual(self.netbox.cable_of(eno1["id"])[1], [self.ports[2]])
        self.export("--prune")
        self.assertEqual([i["name"] for i in self.things("dcim/interfaces", device=self.device)], ["eno1"])
        self.assertEqual([i["name"] for i in self.things("dcim/inventory-items")], ["disk D1", "CPU"])
        self.assertEqual(self.export("--prune")[-1], "0 changes, 0 errors")

    def test_another_machine_is_not_written(self):
        self.netbox.tables["dcim/devices"][self.device]["serial"] = "SN-OTHER"
        said = self.export(code=1)
        self.assertIn("error: node-1: device: serial: NetBox has 'SN-OTHER', the machine says 'SN-1'; "
                      "it may be another machine, and nothing of it is written", said)
        self.assertEqual([w for w in self.netbox.writes if w[1] != "extras/tags"], [])
        self.netbox.tables["dcim/devices"][self.switch]["serial"] = "SN-1"  # the machine is called otherwise there
        self.export(code=1)
        self.assertEqual([w for w in self.netbox.writes if w[1] != "extras/tags"], [])

    def second(self, name="", serial="Default string"):
        """Another machine, with its own device of that name."""
        other = "7f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10"
        self.trivet.documents[other] = copy.deepcopy(DOCUMENT)
        inventory = self.trivet.documents[other]["inventory"]
        inventory["system_vendor"]["serial_number"] = serial
        inventory["interfaces"] = [{"name": "eno1", "mac_address": "52:54:00:00:00:f1"}]
        if name:
            self.trivet.names[other] = name
            return self.netbox.put("dcim/devices", {"name": name, "serial": ""})["id"]
        return None

    def test_a_serial_that_a_maker_wrote_twice(self):
        for serial in ("Default string", "To be filled by O.E.M.", "0000000000", "DUPLICATE-1"):
            with self.subTest(serial):
                self.setUp()
                self.trivet.documents[NODE]["inventory"]["system_vendor"]["serial_number"] = serial
                self.second(serial=serial)
                for _ in range(2):
                    self.assertIn("NetBox has 0 devices with the serial number", "\n".join(self.export(code=1)))
                self.assertEqual(self.things("dcim/devices", name="node-1")[0]["serial"], "")
                self.assertEqual(self.things("dcim/mac-addresses", mac_address="52:54:00:00:00:F1"), [], "one machine on the other's device")
                device = self.second("node-2", serial)
                self.export()
                self.assertEqual([i["name"] for i in self.things("dcim/interfaces", device=device)], ["eno1"])
                self.assertEqual(self.export()[-1], "0 changes, 0 errors")

    def test_two_machines_that_are_one_device(self):
        self.netbox.tables["dcim/devices"][self.device]["serial"] = "SN-1"
        self.second(serial="SN-1")
        said = self.export("7f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", code=1)  # alone, its like is not read
        self.assertIn("error: 7f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10: device: the serial number 'SN-1' is that of 'node-1' in NetBox, "
                      "which is the name of another node", said)
        self.trivet.names["7f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10"] = "node-1"
        said = self.export(code=1)
        self.assertIn("error: node-1 and node-1: device: each of them is 'node-1' in NetBox; nothing of them is written", said)
        self.assertEqual([w for w in self.netbox.writes if w[1] != "extras/tags"], [])

    def test_unknown_devices_switches_and_nodes(self):
        self.trivet.cables[NODE] = [cable(1, switch="sw9"), cable(2, port="Ethernet9"), cable(2, switch="")]
        self.trivet.documents["7f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10"] = {"inventory": {}}
        said = "\n".join(self.export(code=1))
        self.assertIn("error: node-1: interface eno1: cable: NetBox has no port 'Ethernet1' of a switch 'sw9'; not written", said)
        self.assertIn("error: node-1: interface eno2: cable: NetBox has no port 'Ethernet9' of a switch 'sw1'; not written", said)
        self.assertIn("error: 7f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10: device: NetBox has 0 devices", said)
        self.assertEqual(len(self.things("dcim/interfaces", device=self.device)), 2)
        self.assertIn("error: node-9: node: no finished inspection of it", "\n".join(self.export("node-9", code=1)))

    def test_failures_name_device_and_field(self):
        self.netbox.fail = ("POST", "dcim/interfaces")
        said = "\n".join(self.export(code=1))
        self.assertIn("error: node-1: interfaces: create interface eno1 of node-1: POST ", said)
        self.assertIn("planned", said)
        self.netbox.fail = None
        self.export()
        self.assertEqual(self.export()[-1], "0 changes, 0 errors")

    def test_documents_that_are_wrong(self):
        for wrong in ({}, {"inventory": []}, {"inventory": {"interfaces": ["eno1"]}}, {"inventory": {"disks": [{"size": "large"}]}}):
            self.trivet.documents[NODE] = wrong
            self.assertIn("error: node-1: ", "\n".join(self.export(code=1)))

    def test_dead_server_costs_its_time_once(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections and never answers
            url, asked = "http://127.0.0.1:%d" % silent.getsockname()[1], []
            with unittest.mock.patch.object(netbox_trivet, "TRY", 0.2):
                trivet = netbox_trivet.Trivet([url, self.trivet.url], {"Authorization": "Basic YWRtaW46aHVtbWluZ2JpcmQ="})
                opened = trivet.opener.open
                trivet.opener.open = lambda request, timeout: (asked.append((request.full_url.startswith(url), timeout)),
                                                               opened(request, timeout=timeout))[1]
                for _ in range(3):
                    self.assertEqual(len(list(trivet.nodes())), 1)
        self.assertEqual(asked, [(True, 0.2)] + [(False, 0.2)] * 6, "dead-server: asked (the dead one?, seconds)")

    def test_old_netbox_is_refused(self):
        self.netbox.version = "4.1.11"
        self.assertIn("NetBox 4.1.11: 4.2 or later is needed", "\n".join(self.export(code=1)))
        self.assertEqual(self.netbox.writes, [])


if __name__ == "__main__":
    unittest.main()

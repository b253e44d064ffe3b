"""A small NetBox and a small Trivet, which refuse what theirs would refuse.

The shapes are those of NetBox's public OpenAPI document, as of 4.4, for the few objects
that are written: fields that a request must have, may have, and nothing else.
"""

import http.server
import json
import threading
import urllib.parse

TOKEN = "0123456789abcdef0123456789abcdef01234567"

# kind: (fields that are required, fields that are allowed too, filters)
SHAPES = {
    "extras/tags": ({"name", "slug"}, {"color", "description"}, {"slug", "name"}),
    "dcim/devices": ({"name", "device_type", "role", "site"}, {"serial", "tags", "status"}, {"serial", "name", "id"}),
    "dcim/interfaces": ({"device", "name", "type"}, {"tags", "primary_mac_address", "enabled", "description"}, {"device_id", "name"}),
    "dcim/mac-addresses": ({"mac_address"}, {"assigned_object_type", "assigned_object_id", "tags", "description"}, {"mac_address"}),
    "dcim/inventory-items": ({"device", "name"}, {"serial", "part_id", "description", "discovered", "tags", "parent"}, {"device_id", "name"}),
    "dcim/cables": (set(), {"a_terminations", "b_terminations", "status", "tags", "label", "type"}, {"id"}),
}
LENGTHS = {"serial": 50, "part_id": 50, "name": 64, "description": 200}


class Invalid(Exception):
    pass


class Server:
    """A server of JSON on a port of its own."""

    def __init__(self):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                url = urllib.parse.urlsplit(self.path)
                try:
                    status, answer = fake.answer(self.command, url.path, dict(urllib.parse.parse_qsl(url.query)), body, self.headers)
                except Invalid as wrong:
                    status, answer = 400, {"detail": str(wrong)}
                text = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = serve

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class NetBox(Server):
    def __init__(self, version="4.4.2"):
        self.tables = {kind: {} for kind in SHAPES}
        self.version, self.next, self.writes = version, 100, []
        self.fail = None  # (method, kind) that is answered by 500
        super().__init__()

    def answer(self, method, path, query, body, headers):
        if headers.get("Authorization") != "Token " + TOKEN:
            return 403, {"detail": "Invalid token"}
        if path == "/api/status/":
            return 200, {"netbox-version": self.version}
        parts = path.strip("/").split("/")
        if parts[0] != "api" or not path.endswith("/") or "/".join(parts[1:3]) not in SHAPES:
            return 404, {"detail": "Not found."}
        kind, number = "/".join(parts[1:3]), int(parts[3]) if len(parts) > 3 else None
        if method == "GET":
            return self.read(kind, number, query)
        if self.fail == (method, kind):
            return 500, {"error": "planned"}
        if number is not None and number not in self.tables[kind]:
            return 404, {"detail": "Not found."}
        self.writes.append((method, kind, number, body))
        if method == "DELETE":
            self.delete(kind, number)
            return 204, None
        if method == "POST":
            self.validate(kind, body, whole=True)
            return 201, self.shown(kind, self.put(kind, body))
        self.validate(kind, body, whole=False, number=number)
        self.tables[kind][number].update(body)
        return 200, self.shown(kind, self.tables[kind][number])

    def put(self, kind, body):
        self.next += 1
        self.tables[kind][self.next] = {"id": self.next, **body}
        return self.tables[kind][self.next]

    def delete(self, kind, number):
        if kind == "dcim/mac-addresses":
            for one in self.tables["dcim/interfaces"].values():
                if one.get("primary_mac_address") == number:
                    raise Invalid("the MAC is primary; clear that first")
        del self.tables[kind][number]

    def validate(self, kind, body, whole, number=None):
        required, allowed, _ = SHAPES[kind]
        if unknown := set(body) - required - allowed:
            raise Invalid(f"{kind}: unknown fields {unknown}")
        if whole and (missing := required - set(body)):
            raise Invalid(f"{kind}: missing {missing}")
        for field, most in LENGTHS.items():
            if len(body.get(field) or "") > most:
                raise Invalid(f"{kind}: {field} is longer than {most}")
        for tag in body.get("tags", []):
            if not any(t["slug"] == tag["slug"] and t["name"] == tag["name"] for t in self.tables["extras/tags"].values()):
                raise Invalid(f"no tag {tag}")
        if kind == "dcim/interfaces" and "primary_mac_address" in body:
            if self.tables["dcim/mac-addresses"][body["primary_mac_address"]]["assigned_object_id"] != number:
                raise Invalid("primary_mac_address: it is not assigned to this interface")
        if kind in ("dcim/interfaces", "dcim/inventory-items") and whole:
            if body["device"] not in self.tables["dcim/devices"]:
                raise Invalid("device: no such object")
            if any(o["device"] == body["device"] and o["name"] == body["name"] for o in self.tables[kind].values()):
                raise Invalid("the fields device, name must make a unique set")
        if kind == "dcim/cables" and whole:
            for end in body["a_terminations"] + body["b_terminations"]:
                if end["object_type"] != "dcim.interface" or end["object_id"] not in self.tables["dcim/interfaces"]:
                    raise Invalid("termination: no such object")
                if self.cable_of(end["object_id"]):
                    raise Invalid("termination: it has a cable already")

    def cable_of(self, interface):
        for cable in self.tables["dcim/cables"].values():
            a, b = ([e["object_id"] for e in cable[side]] for side in ("a_terminations", "b_terminations"))
            if interface in a + b:
                return cable, b if interface in a else a
        return None

    def shown(self, kind, thing):
        out = dict(thing)
        if kind == "dcim/devices":
            out.setdefault("serial", "")
        if kind == "dcim/interfaces":
            out["type"] = {"value": thing["type"], "label": thing["type"]}
            out["mac_addresses"] = [{"id": m["id"], "mac_address": m["mac_address"]} for m in self.tables["dcim/mac-addresses"].values()
                                    if m.get("assigned_object_id") == thing["id"]]
            cable = self.cable_of(thing["id"])
            out["cable"] = {"id": cable[0]["id"]} if cable else None
            out["link_peers"] = [{"id": n} for n in cable[1]] if cable else []
        return out

    def read(self, kind, number, query):
        if number is not None:
            thing = self.tables[kind].get(number)
            return (200, self.shown(kind, thing)) if thing else (404, {"detail": "Not found."})
        query = dict(query)
        limit, offset = int(query.pop("limit")), int(query.pop("offset"))
        if unknown := set(query) - SHAPES[kind][2]:
            raise Invalid(f"{kind}: unknown filters {unknown}")
        found = [self.shown(kind, t) for t in self.tables[kind].values()
                 if all(str(t.get(k.replace("device_id", "device"), "")) == v for k, v in query.items())]
        page = found[offset:offset + min(limit, 2)]  # small pages, as a site may set MAX_PAGE_SIZE
        more = offset + len(page) < len(found)
        return 200, {"count": len(found), "next": "there are more" if more else None, "previous": None, "results": page}


class Trivet(Server):
    def __init__(self):
        self.names, self.documents, self.cables = {}, {}, {}
        super().__init__()

    def answer(self, method, path, query, body, headers):
        assert method == "GET", "the exporter only reads"
        if headers.get("Authorization") != "Basic YWRtaW46aHVtbWluZ2JpcmQ=":
            return 401, {"error": {"message": "who are you?"}}
        if path == "/v1/nodes":
            return 200, {"nodes": [{"uuid": u, "name": n} for u, n in self.names.items()]}
        if path == "/v1/introspection":
            assert query["state"] == "finished"
            uuids = sorted(self.documents)
            uuids = [u for u in uuids if u > query.get("marker", "")][:int(query["limit"])]
            return 200, {"introspection": [{"uuid": u, "finished": True, "state": "finished"} for u in uuids]}
        parts = path.split("/")
        table = {"data": self.documents, "cabling": self.cables}.get(parts[-1], {})
        if parts[3] not in table:
            return 404, {"error": {"message": "not found"}}
        return 200, table[parts[3]] if parts[-1] == "data" else {"cables": table[parts[3]]}

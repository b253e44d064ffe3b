package cli

import (
	"encoding/json"
	"net/http"
	"slices"
)

// serveRules answers for rules; id is what follows /v1/rules/, "" for nothing. Rules
// whose description is "bad" are refused.
func (f *fakeAPI) serveRules(w http.ResponseWriter, r *http.Request, id string) {
	at := slices.IndexFunc(f.rules, func(rule map[string]any) bool { return rule["uuid"] == id })
	switch {
	case r.Method == "POST" && id == "":
		f.createRule(w, r)
	case id != "" && at < 0:
		say(w, 404, "Rule "+id+" was not found")
	case r.Method == "DELETE":
		f.rules = slices.DeleteFunc(f.rules, func(rule map[string]any) bool { return id == "" || rule["uuid"] == id })
		w.WriteHeader(204)
	case id != "":
		answerJSON(w, 200, f.rules[at])
	default:
		heads := []map[string]any{}
		for _, rule := range f.rules {
			heads = append(heads, map[string]any{"uuid": rule["uuid"], "description": rule["description"],
				"scope": rule["scope"], "links": rule["links"]})
		}
		answerJSON(w, 200, map[string]any{"rules": heads})
	}
}

func (f *fakeAPI) createRule(w http.ResponseWriter, r *http.Request) {
	var rule map[string]any
	d := json.NewDecoder(r.Body)
	d.UseNumber()
	if err := d.Decode(&rule); err != nil || rule["description"] == "bad" {
		say(w, 400, "Validation failed for actions: [] is too short\n\nFailed validating")
		return
	}
	if slices.ContainsFunc(f.rules, func(other map[string]any) bool { return other["uuid"] == rule["uuid"] }) {
		say(w, 409, "Rule with UUID "+rule["uuid"].(string)+" already exists")
		return
	}
	// order-free: each on its own
	for key, absent := range map[string]any{"description": nil, "scope": nil, "conditions": []any{}} {
		if rule[key] == nil {
			rule[key] = absent
		}
	}
	rule["links"] = []any{map[string]any{"rel": "self", "href": "/v1/rules/" + rule["uuid"].(string)}}
	f.rules = append(f.rules, rule)
	answerJSON(w, 201, rule)
}

package ironic

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/trivet-ha/trivet/internal/redact"
)

// shortestSecret is how many bytes a value must have to be looked for: a shorter one stands
// in other words, too.
const shortestSecret = 4

// withoutSecrets returns an answer in which Ironic repeats nothing secret of a request: it
// quotes a patch that it cannot apply, and its words are shown to all who may read.
func (k call) withoutSecrets(answer []byte, sent *http.Request) []byte {
	secrets := []string{sent.Header.Get("X-Auth-Token"), sent.Header.Get("Authorization")}
	if _, password, ok := sent.BasicAuth(); ok {
		secrets = append(secrets, password)
	}
	if raw, err := json.Marshal(k.body); err == nil { // it was sent
		var v any
		if json.Unmarshal(raw, &v) == nil {
			secrets = append(secrets, secretsIn(v, false)...)
		}
	}
	for _, secret := range secrets {
		for range 4 { // as it is; in the request, which is JSON; in Ironic's words; and in those as JSON in JSON
			if len(secret) >= shortestSecret {
				answer = bytes.ReplaceAll(answer, []byte(secret), []byte(redact.Redacted))
			}
			quoted, err := json.Marshal(secret)
			if err != nil {
				break
			}
			secret = string(quoted[1 : len(quoted)-1])
		}
	}
	return answer
}

// secretsIn are the texts in a request that stand under the name of a secret.
func secretsIn(v any, named bool) (out []string) {
	switch v := v.(type) {
	case string:
		if named {
			out = append(out, v)
		}
	case []any:
		for _, one := range v {
			out = append(out, secretsIn(one, named)...)
		}
	case map[string]any:
		path, _ := v["path"].(string)
		for name, one := range v { // order-free: each on its own
			secret := redact.NamesSecret(name) || name == "value" && redact.NamesSecret(path)
			out = append(out, secretsIn(one, named || secret)...)
		}
	}
	return out
}

//go:build e2e

package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/failover/kube"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
)

// kubeRule is one of a role, as kubectl shows it.
type kubeRule struct {
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	Verbs           []string `json:"verbs"`
}

func (r kubeRule) String() string {
	return strings.Join(append(r.Resources, r.NonResourceURLs...), ",")
}

// kubeRights takes the rights of the manifest away, verb by verb: each time
// something fails, and the error names the verb and the resource.
func kubeRights(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	// What everybody may ask hides what we were given.
	k.Kubectl("delete", "clusterrolebinding", "system:public-info-viewer", "system:discovery", "--ignore-not-found")
	eventually(t, kubelab.Limit, "the manifest suffices", func() error { return useAll(t, kubeconfig) })
	for _, role := range [][]string{{"clusterrole/trivet-failover"}, {"role/trivet-failover", "-n", "kube-node-lease"},
		{"role/trivet-failover", "-n", "default"}} {
		rules := rulesOf(t, k, role)
		for i, rule := range rules {
			for _, verb := range rule.Verbs {
				t.Run(verb+" "+rule.String(), func(t *testing.T) { without(t, k.For(t), role, rules, i, verb, kubeconfig) })
			}
		}
	}
}

// without takes one verb away for a while.
func without(t *testing.T, k *kubelab.Cluster, role []string, rules []kubeRule, at int, verb, kubeconfig string) {
	t.Helper()
	fewer := withoutVerb(rules, at, verb)
	if len(fewer[at].Verbs) == 0 {
		fewer = slices.Delete(fewer, at, at+1)
	}
	setRules(t, k, role, fewer)
	defer setRules(t, k, role, rules)
	want := "let us " + verb + " " + strings.Join(append(rules[at].Resources, rules[at].NonResourceURLs...), "")
	eventually(t, kubelab.Limit, "an error says "+want, func() error {
		err := useAll(t, kubeconfig)
		if !errors.Is(err, failover.ErrForbidden) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
}

// rulesOf are those of a role.
func rulesOf(t testing.TB, k *kubelab.Cluster, role []string) (rules []kubeRule) {
	t.Helper()
	testenv.Must(t, json.Unmarshal([]byte(k.Get("{.rules}", role...)), &rules))
	return rules
}

// withoutVerb are rules of which one lacks a verb.
func withoutVerb(rules []kubeRule, at int, verb string) []kubeRule {
	fewer := slices.Clone(rules)
	fewer[at].Verbs = slices.DeleteFunc(slices.Clone(rules[at].Verbs), func(v string) bool { return v == verb })
	return fewer
}

// keepPods takes the right to delete pods away until give is called, or the test ends.
func (s *kubeSite) keepPods() (give func()) {
	s.t.Helper()
	t, k, role := s.t, s.kube, []string{"clusterrole/trivet-failover"}
	rules := rulesOf(t, k, role)
	at := slices.IndexFunc(rules, func(r kubeRule) bool {
		return slices.Contains(r.Resources, "pods") && slices.Contains(r.Verbs, "delete")
	})
	setRules(t, k, role, withoutVerb(rules, at, "delete"))
	give = sync.OnceFunc(func() { setRules(t, k, role, rules) })
	t.Cleanup(give)
	return give
}

func setRules(t testing.TB, k *kubelab.Cluster, role []string, rules []kubeRule) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"rules": rules})
	testenv.Must(t, err)
	k.Kubectl(append(append([]string{"patch"}, role...), "--type=merge", "-p", string(text))...)
}

// useAll does once everything that failover does with a cluster, and returns the
// errors of missing rights, joined.
func useAll(t testing.TB, kubeconfig string) error {
	ctx := t.Context()
	c := openKube(t, kubeconfig)
	n, errNode := c.Node(ctx, "node-1")
	if errNode != nil {
		n = failover.Node{Name: "node-1"}
	}
	_, errPods := c.Pods(ctx, n.Name)
	_, errAttachments := c.Attachments(ctx, n.Name)
	_, errDisrupted := c.Disrupted(ctx, nil, true)
	errDelete := c.DeletePod(ctx,
		failover.Pod{Namespace: "default", Name: "nobody", UID: "00000000-0000-0000-0000-000000000000"})
	if errors.Is(errDelete, failover.ErrGone) {
		errDelete = nil
	}
	errTell := c.Tell(ctx, n, "Normal", "TrivetRights", "tried")
	return errors.Join(errNode, markOnce(t, c, n), errPods, errAttachments, errDisrupted, errDelete, errTell,
		followOnce(t, c))
}

// markOnce writes a token that is greater than the last, and no taint.
func markOnce(t testing.TB, c *kube.Cluster, n failover.Node) error {
	if n.UID == "" {
		return nil // it could not be read, which is told already
	}
	var token uint64
	if _, err := fmt.Sscan(n.Annotations[kubeclient.AnnotationToken], &token); err != nil {
		token = 100
	}
	_, err := c.Mark(t.Context(), n, failover.Change{Token: token + 1})
	if errors.Is(err, failover.ErrConflict) {
		return nil // its status came between; the right was there
	}
	return err
}

// followOnce watches until all is told or something is refused.
func followOnce(t testing.TB, c *kube.Cluster) error {
	seen := watchKube(t, c)
	var last error
	eventually(t, kubelab.Limit, "all is told, or refused", func() error {
		last = c.Answers(t.Context())
		if errors.Is(last, failover.ErrForbidden) {
			return nil
		}
		_, renewals := seen.node("node-1")
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if last != nil || !seen.synced || renewals == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return last
}

//go:build e2e

package labtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kuberrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trivet-ha/trivet/lease/kubepolicy"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The API server refuses the writes of holders that have lost a lease and do not know
// it, however they write and whenever they were stopped. Without the comparison
// it stores some of them, so that the test would notice.
func TestKubernetesComparesTokens(t *testing.T) {
	k := kubelab.Start(t, "--fast")
	client := kubeObjects(t, k)
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	manifest, err := kubepolicy.Manifest(
		kubepolicy.Options{Lease: "backup", Selector: "app=backup", Resources: []string{"configmaps"}, Namespace: "default"})
	testenv.Must(t, err)
	k.Apply(string(manifest))
	awaitPolicy(t, maps)

	t.Run("forms", func(t *testing.T) { refusedForms(t, maps) })
	t.Run("takeovers", func(t *testing.T) {
		if n := staleWrites(t, maps, "guarded"); n > 0 {
			t.Errorf("older-token-refused: %d writes of an older token came after one of a newer token", n)
		}
	})
	t.Run("without the comparison", func(t *testing.T) {
		// The same objects, and a policy that demands a token and compares nothing.
		blind := strings.Replace(string(manifest), "variables.token >= variables.before", "true", 1)
		blind = strings.Replace(blind, "size(variables.token)\n      > size(variables.before)", "true", 1)
		if blind == string(manifest) {
			t.Fatal("the comparison is not in the manifest")
		}
		k.Apply(blind)
		eventually(t, kubelab.ReadyLimit, "the policy compares nothing", func() error {
			_, err := maps.Update(t.Context(), labelled("probe", "1"), meta.UpdateOptions{})
			return err
		})
		if n := staleWrites(t, maps, "blind"); n == 0 {
			t.Error("without the comparison no older token overtook a newer one: the test attacks nothing")
		}
	})
}

// kubeObjects is a client of an API server that does not hold back.
func kubeObjects(t *testing.T, k *kubelab.Cluster) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig())
	testenv.Must(t, err)
	config.QPS, config.Burst = 1000, 1000
	client, err := dynamic.NewForConfig(config)
	testenv.Must(t, err)
	return client
}

// labelled is an object that the policy selects.
func labelled(name, token string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"writer": token}}}
	out.SetName(name)
	out.SetLabels(map[string]string{"app": "backup"})
	if token != "" {
		out.SetAnnotations(map[string]string{kubepolicy.Annotation: token})
	}
	return out
}

// awaitPolicy waits until the API server evaluates the policy, which takes a moment
// after it was stored. It leaves the object probe, written under token 2.
func awaitPolicy(t *testing.T, maps dynamic.ResourceInterface) {
	t.Helper()
	if _, err := maps.Create(t.Context(), labelled("probe", "2"), meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, kubelab.ReadyLimit, "the policy is in force", func() error {
		if _, err := maps.Update(t.Context(), labelled("probe", "2"), meta.UpdateOptions{}); err != nil {
			return err
		}
		_, err := maps.Update(t.Context(), labelled("probe", "1"), meta.UpdateOptions{})
		if kuberrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("a write under an older token: %v", err)
	})
}

// refusedForms tries each way of writing with a token that is too old, missing or
// none, and with one that is right.
func refusedForms(t *testing.T, maps dynamic.ResourceInterface) {
	ctx := t.Context()
	if _, err := maps.Create(ctx, labelled("forms", "99999999999999999999"), meta.CreateOptions{}); err != nil {
		t.Fatalf("a token of 20 digits: %v", err)
	}
	patch := func(token string) error {
		_, err := maps.Patch(ctx, "forms", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}},"data":{"writer":"patch"}}`, kubepolicy.Annotation, token),
			meta.PatchOptions{})
		return err
	}
	applied := func(token string) error {
		force := true
		_, err := maps.Patch(ctx, "forms", types.ApplyPatchType,
			fmt.Appendf(nil,
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forms","labels":{"app":"backup"},"annotations":{%q:%q}}}`,
				kubepolicy.Annotation, token), meta.PatchOptions{FieldManager: "labtest", Force: &force})
		return err
	}
	update := func(token string) error {
		_, err := maps.Update(ctx, labelled("forms", token), meta.UpdateOptions{})
		return err
	}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"update, older":        {update("99999999999999999998"), "is older than 99999999999999999999"},
		"update, shorter":      {update("9"), "is older"},
		"update, missing":      {update(""), "must hold the fencing token"},
		"update, leading zero": {update("099999999999999999999"), "must hold"},
		"update, 21 digits":    {update("999999999999999999999"), "must hold"},
		"patch, older":         {patch(`"5"`), "is older"},
		"patch, removed":       {patch(`null`), "must hold"},
		"apply, older":         {applied("5"), "is older"},
		"create, missing": {func() error {
			_, err := maps.Create(ctx, labelled("forms-2", ""), meta.CreateOptions{})
			return err
		}(), "must hold"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("older-token-refused: %s: %v, want %q", name, c.err, c.says)
		}
	}
	for name, err := range map[string]error{"the same": update("99999999999999999999"),
		"patch, the same": patch(`"99999999999999999999"`), "apply, the same": applied("99999999999999999999")} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	loose := labelled("loose", "")
	loose.SetLabels(nil)
	if _, err := maps.Create(ctx, loose, meta.CreateOptions{}); err != nil {
		t.Errorf("an object that the policy does not select: %v", err)
	}
}

// takeovers is how often the lease is granted again in one run.
const takeovers = 1000

// staleWrites has each of many grants write one object, stopped for a random time
// between the grant and the write, so that newer ones overtake it. It returns how many writes
// of an older token the API server stored after a newer token, in the order of the
// object's versions.
func staleWrites(t *testing.T, maps dynamic.ResourceInterface, name string) (stale int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	created, err := maps.Create(ctx, labelled(name, "1"), meta.CreateOptions{})
	testenv.Must(t, err)
	watch, err := maps.Watch(ctx,
		meta.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: created.GetResourceVersion()})
	testenv.Must(t, err)
	defer watch.Stop()
	var refused, accepted atomic.Int64
	var holders sync.WaitGroup
	slots := make(chan struct{}, 16) // that are stopped or write at once
	for token := 2; token <= takeovers+1; token++ {
		testwait.Send(t, slots, struct{}{}, "one of the holders ends")
		stopped := rand.IntN(4) * rand.IntN(4)
		holders.Go(func() {
			defer func() { <-slots }()
			for range stopped { // as long as other requests take: a holder that is stopped
				if _, err := maps.Get(ctx, name, meta.GetOptions{}); err != nil {
					t.Error(err)
				}
			}
			_, err := maps.Update(ctx, labelled(name, strconv.Itoa(token)), meta.UpdateOptions{})
			switch {
			case err == nil:
				accepted.Add(1)
			case kuberrors.IsForbidden(err):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	holders.Wait()
	newest := 1
	for range accepted.Load() {
		select {
		case event := <-watch.ResultChan():
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("watch: %+v", event.Object)
			}
			token, err := strconv.Atoi(object.GetAnnotations()[kubepolicy.Annotation])
			testenv.Must(t, err)
			if token < newest {
				stale++
			}
			newest = max(newest, token)
		case <-ctx.Done():
			t.Fatalf("watch the writes of %s: %v", name, ctx.Err())
		}
	}
	t.Logf("%s: %d grants, %d writes stored, %d refused, %d of an older token after a newer one", name, takeovers,
		accepted.Load(), refused.Load(), stale)
	return stale
}

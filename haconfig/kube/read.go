package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/internal/pace"
)

// maxAutoscalers is how many a namespace may have. More is an error, since a part
// must not be taken for the whole.
const maxAutoscalers = 5_000

// How often the API server is asked when no other request goes to it, and when it
// counts as silent.
const (
	askEvery    = 2 * time.Second
	silentAfter = 10 * time.Second
)

// Run asks now and then, so that Ready knows, until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	for range pace.Every(ctx, askEvery) {
		ask(ctx, c)
	}
}

// askedNamespace is one that every cluster has, and that is never reviewed.
const askedNamespace = "kube-public"

// ask reads what a review needs, from no cache, and keeps whether the API server refuses it to us. What it
// refuses a review itself does not count: that may be of one namespace alone.
func ask(ctx context.Context, c *Cluster) {
	_, uncounted := countNodes(ctx, c)
	_, unread := c.namespace(ctx, askedNamespace)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range []error{uncounted, unread} {
		if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
			c.refused = err
			return
		}
	}
	if uncounted == nil && (unread == nil || kubeclient.Gone(unread)) {
		c.refused = nil
	}
}

// Ready implements haconfig.Cluster. It fails when the API server has not answered
// for ten seconds, though it was asked, and while it refuses us what a review needs.
func (c *Cluster) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := c.silence != nil && (c.heard.IsZero() || c.o.Now().Sub(c.heard) >= silentAfter)
	switch {
	case silent:
		return fmt.Errorf("the API server is silent: %w", c.silence)
	case c.refused != nil:
		return fmt.Errorf("the API server refuses this peer: %w", c.refused)
	}
	return nil
}

// Silent says what Ready says, but nil of an API server that was not asked yet.
func (c *Cluster) Silent() error {
	err := c.Ready()
	if errors.Is(err, errNotAsked) {
		return nil
	}
	return err
}

// Surroundings implements haconfig.Cluster. Namespace, autoscalers and nodes are
// asked for at the same time.
func (c *Cluster) Surroundings(ctx context.Context, source netip.Prefix, namespace string) (haconfig.Surroundings,
	error) {
	var nodes int
	var uncounted error
	var counting sync.WaitGroup
	counting.Go(func() { nodes, uncounted = c.Nodes(ctx) })
	around, err := c.namespaces.get(ctx, source, namespace, final,
		func(ctx context.Context) (haconfig.Surroundings, error) { return c.namespace(ctx, namespace) })
	counting.Wait()
	if err == nil {
		err = uncounted
	}
	around.Nodes = nodes
	return around, err
}

// final tells answers of the API server from its silence.
func final(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && status.ErrStatus.Code < http.StatusInternalServerError &&
		!apierrors.IsTooManyRequests(err) && kubeclient.Said(err)
}

// namespace reads a namespace and its autoscalers.
func (c *Cluster) namespace(ctx context.Context, name string) (around haconfig.Surroundings, err error) {
	var unlisted error
	var listing sync.WaitGroup
	listing.Go(func() { around.Autoscalers, unlisted = c.autoscalers(ctx, name) })
	bounded, cancel := c.within(ctx)
	defer cancel()
	var n corev1.Namespace
	err = c.core.Get().Resource("namespaces").Name(name).MaxRetries(0).Do(bounded).Into(&n)
	listing.Wait()
	if err = c.noteAnswer(bounded, "get namespaces "+name, err); err != nil {
		return haconfig.Surroundings{}, err
	}
	around.Annotations = n.Annotations
	return around, unlisted
}

func (c *Cluster) autoscalers(ctx context.Context, namespace string) (out []haconfig.Autoscaler, err error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	what := "list horizontalpodautoscalers.autoscaling of " + namespace
	options := metav1.ListOptions{Limit: pageSize}
	for {
		var page struct {
			Metadata metav1.ListMeta                    `json:"metadata"`
			Items    []haconfig.HorizontalPodAutoscaler `json:"items"`
		}
		request := c.autoscaling.Get().Namespace(namespace).Resource("horizontalpodautoscalers").VersionedParams(&options,
			metav1.ParameterCodec)
		if err := kubeclient.JSON(ctx, request, &page); err != nil {
			return nil, c.noteAnswer(ctx, what, err)
		}
		for _, hpa := range page.Items {
			out = append(out, hpa.Autoscaler())
		}
		if options.Continue = page.Metadata.Continue; options.Continue == "" {
			return out, c.noteAnswer(ctx, what, nil)
		}
		if len(out) > maxAutoscalers {
			return nil, fmt.Errorf("%s: more than %d", what, maxAutoscalers)
		}
	}
}

// Nodes implements haconfig.Workloads: two stand for more. They are read twice a second at the
// most, and so wait in no line.
func (c *Cluster) Nodes(ctx context.Context) (int, error) {
	return c.nodes.get(ctx, netip.Prefix{}, "", final,
		func(ctx context.Context) (int, error) { return countNodes(ctx, c) })
}

func countNodes(ctx context.Context, c *Cluster) (int, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	var page metav1.PartialObjectMetadataList
	request := c.core.Get().Resource("nodes").SetHeader("Accept", metadataOnly).VersionedParams(
		&metav1.ListOptions{Limit: 2}, metav1.ParameterCodec)
	err := c.noteAnswer(ctx, "list nodes", kubeclient.Read(ctx, request, &page))
	return len(page.Items), err
}

// metadataOnly asks for a list of objects without what they say.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

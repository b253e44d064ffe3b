package kubeclient

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Page is a page of a list to be read into.
type Page struct {
	Into any                           // a runtime.Object, or what is read of one as JSON
	Meta metav1.ListInterface          // of Into
	Take func() (count int, err error) // what was read
}

// Pages reads a list page by page. One of more objects than most is an error and is not cut:
// no caller may take a part for the whole. next makes a page, and read fills it.
func Pages(called string, most int, options metav1.ListOptions, next func() Page,
	read func(options *metav1.ListOptions, into any) error) error {
	for count := 0; ; {
		page := next()
		if err := read(&options, page.Into); err != nil {
			return err
		}
		taken, err := page.Take()
		if err != nil {
			return err
		}
		if count += taken; count > most {
			return fmt.Errorf("list %s: more than %d", called, most)
		}
		if options.Continue = page.Meta.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// Read sends a request once and decodes the answer into an object or, as JSON, into what is
// read of one.
func Read(ctx context.Context, r *rest.Request, into any) error {
	if object, ok := into.(runtime.Object); ok {
		return r.MaxRetries(0).Do(ctx).Into(object)
	}
	return JSON(ctx, r, into)
}

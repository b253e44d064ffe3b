// Command render prints what the chart makes of values, by Helm's own engine, without
// Helm: for tests. It judges the values by the chart's schema, as Helm does.
//
//	render -namespace trivet -values values.yaml ../chart
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	namespace := flag.String("namespace", "trivet", "of the release")
	values := flag.String("values", "", "file of values")
	flag.Parse()
	if err := render(flag.Arg(0), *values, *namespace); err != nil {
		fmt.Fprintf(os.Stderr, "render: error: %v\n", err)
		os.Exit(1)
	}
}

func render(dir, file, namespace string) error {
	c, err := loader.Load(dir)
	if err != nil {
		return fmt.Errorf("load the chart: %w", err)
	}
	var values chartutil.Values
	if file != "" {
		if values, err = chartutil.ReadValuesFile(file); err != nil {
			return fmt.Errorf("read values: %w", err)
		}
	}
	whole, err := chartutil.ToRenderValues(c, values,
		chartutil.ReleaseOptions{Name: "trivet", Namespace: namespace, Revision: 1, IsInstall: true},
		chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	made, err := engine.Render(c, whole)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if ext := path.Ext(name); (ext == ".yaml" || ext == ".yml") && strings.TrimSpace(made[name]) != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimSpace(made[name]))
		}
	}
	return nil
}

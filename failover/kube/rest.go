package kube

import "k8s.io/client-go/rest"

// RESTConfig is how others in this program reach the cluster of a kubeconfig, or
// with "" the one whose pod we are: with the same bounds of connections and
// answers as a Cluster. It reads files and sends nothing.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	conf, err := load(kubeconfig)
	if err != nil {
		return nil, err
	}
	harden(conf)
	return conf, nil
}

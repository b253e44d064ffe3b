// Command etcd is the etcd that the bench compares with, as upstream builds it, in a
// module of its own: nothing else needs what it requires.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }

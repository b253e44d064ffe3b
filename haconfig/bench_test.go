package haconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ordinary is a Deployment of a usual size: two containers with forty variables.
func ordinary() Object {
	var env []string
	for i := range 20 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"a value of some length, such as a URL"}`, i))
	}
	container := `{"name":"NAME","image":"registry.example.org/a/b:v1.2.3","env":[` + strings.Join(env, ",") + `],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}},
"livenessProbe":{"httpGet":{"path":"/healthz","port":8080}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}`
	return object("Deployment", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"demo","labels":{"PREFIXtype":"server"}},"spec":{"replicas":1,
"selector":{"matchLabels":{"app":"demo"}},"template":{"metadata":{"labels":{"app":"demo","tier":"x"}},"spec":{"containers":[`+
		strings.Replace(container, "NAME", "a", 1)+","+strings.Replace(container, "NAME", "b", 1)+
		`],"volumes":[{"name":"v","emptyDir":{}}]}}}}`)
}

// BenchmarkMutate is one decision about an ordinary Deployment that gets
// everything there is: at most 150 µs (issue 12).
func BenchmarkMutate(b *testing.B) {
	seconds := int64(60)
	c := Conventions{Names: conventions.Names, NotReadySeconds: &seconds, UnreachableSeconds: &seconds}
	o, s := ordinary(), around(3, "zones", "a,b,c", "failure-tolerance-type", "zone")
	b.SetBytes(int64(len(o.Raw)))
	b.ReportAllocs()
	before := used(b)
	for b.Loop() {
		if v, err := c.Mutate(o, s); err != nil || len(v.Patch) != 4 {
			b.Fatal(v, err)
		}
	}
	b.ReportMetric(float64((used(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// used is the processor time of this process up to now.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

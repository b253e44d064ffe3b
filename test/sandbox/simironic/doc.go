// Package simironic is an Ironic in memory that answers over real HTTP: nodes,
// ports, power, provisioning and traits as an inspector uses them, with Ironic's
// error bodies, page links and conflicts. Its nodes have no hardware; set
// Options.OnPower to simulate it.
//
// It serves development, demonstrations and benchmarks. It caches encoded answers, so
// that a read costs next to nothing. It departs from Ironic in three ways: there is
// no authentication, unknown list parameters are refused whatever the version, and
// its state ends with the process.
package simironic

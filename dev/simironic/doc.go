// Package simironic is an Ironic that lives in memory and answers over real
// HTTP: nodes, ports, power, provisioning and traits as an inspector uses
// them, with Ironic's error bodies, page links and conflicts. Nodes have no
// hardware; who wants to play it sets Options.OnPower.
//
// It is a stub to develop, demonstrate and measure against: what it has once
// encoded it keeps, so that a read costs next to nothing. It departs from
// Ironic in that there is no authentication, that unknown list parameters are
// refused whatever the version, and that it forgets everything at the end.
package simironic

// Package doctor judges how the hosts of a cluster are set up: DHCP pools that
// overlap, ports that another peer cannot reach, boot files that machines cannot
// fetch.
//
// doctor/host collects Facts on each host. Judge turns the facts of all hosts into
// Findings, each with what to do about it. Judge is a pure function, so that each
// check is tested with a fault that is written down.
//
// To add a check, write one file with a function from the facts of all hosts to
// findings, and a line in Checks. What it needs to know becomes a field of Facts.
package doctor

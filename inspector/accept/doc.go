// Package accept takes what clients ask of introspection: callbacks of ramdisks, starts,
// aborts, imports, rules, and questions about reports. Service answers them on any peer;
// what changes something ends in an entry of the log, which workers carry out
// (inspector/work).
package accept

// Package netns gives tests hosts of their own on one machine: network
// namespaces without a name, and cables between them. What is tested runs in a
// host by a function (Host.Do). A host is gone with its links when its test ends
// or the tester is killed. It takes root.
//
// Processes of their own need namespaces with names; those are test/labtest's.
package netns

// Package install makes a host the boot server that package pxe describes: it
// writes dnsmasq's file and the boot script, links iPXE's programs into the TFTP
// root, enables and starts dnsmasq, and takes all of that back.
//
// Both directions are idempotent. They look first and refuse before they change
// anything; when a later step fails, the steps before it are undone. A file is
// written under a temporary name, synced and renamed.
//
// What a host was before the first installation is written to RecordFile before
// the first change, so that Uninstall can restore it, even after a power loss in
// the middle of an installation.
package install

// Package ironic is Ironic as Trivet knows it: its nodes and ports, its errors, whether it can
// be reached (Health), and a client over HTTP (Client), of which each consumer declares the
// few methods that it needs.
//
// A call passes four layers: Client.do tries as often as configured; sessions log in, with
// gophercloud, when there is no session or Ironic refused it; transport asks the caller's
// guard directly before bytes leave and bounds the answer; conn carries one request at a
// time. Requests are built and answers decoded here: gophercloud's nodes have seventy fields
// and are decoded twice, and its way of sending takes half as much processor time again as
// the transport.
//
// gophercloud's own retries and re-authentication are not used. Its login is shared between
// callers and made in the context of one of them: the cancelled context, or the lost claim,
// of one worker would fail the calls of all.
//
// Rejected: with HTTP/2 one connection carries the requests of many callers, and the guard
// could not be asked at the write. Proxies of the environment are not used: Ironic is a
// neighbour, and its credentials must not reach a proxy.
package ironic

// Package ironic speaks to a real Ironic over HTTP: it implements
// inspector.Ironic.
//
// The flow of a call is: Client.do, which tries as often as configured;
// sessions, which log in with gophercloud when there is no session or Ironic
// refused it; transport, which asks the caller's guard right before bytes leave
// and bounds what comes back; conn, which carries one request at a time.
// Requests are built and answers decoded here: gophercloud's nodes have seventy
// fields and are decoded twice, and its way of sending takes the processor half
// as long again as the transport.
//
// gophercloud's own retries and re-authentication are not used. Its login is
// shared between callers and made in the context of one of them: another
// worker's cancelled context, or its lost claim, would fail everybody's calls.
//
// The road not taken is HTTP/2: one connection would carry many callers'
// requests, and a guard could no longer be asked at the write. Proxies of the
// environment are not used either: Ironic is a neighbour, and its credentials
// are nobody else's business.
package ironic

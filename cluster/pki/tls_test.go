package pki_test

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
)

const (
	clusterA = "0b6ff1c8-8f0e-4f5e-9a53-0d5b1e0f7a11"
	clusterB = "5d0c8c52-3c8e-4c5f-8d8b-5b8e7d9f4b22"
)

func newCA(t *testing.T, cluster string) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(cluster, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// credentials issues a certificate now, as a leader does.
func credentials(t *testing.T, ca *pki.CA, id pki.Identity) *pki.Credentials {
	t.Helper()
	return issue(t, ca, id, time.Now(), pki.PeerTTL)
}

func issue(t *testing.T, ca *pki.CA, id pki.Identity, at time.Time, ttl time.Duration) *pki.Credentials {
	t.Helper()
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Sign(rand.Reader, at, pki.Order{Identity: id, PublicKey: &key.PublicKey, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pki.NewCredentials(leaf, ca.CertPEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// end is one endpoint of a test and what its Refused heard.
type end struct {
	endpoint pki.Endpoint
	mu       sync.Mutex
	heard    []error
}

func newEnd(c *pki.Credentials, skew, tolerance time.Duration) *end {
	e := new(end)
	e.endpoint = pki.Endpoint{
		Credentials: func() *pki.Credentials { return c },
		Now:         func() time.Time { return time.Now().Add(skew) },
		Tolerance:   tolerance,
		Refused: func(err error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.heard = append(e.heard, err)
		},
	}
	return e
}

func (e *end) heardOf() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.heard...)
}

// talk runs a handshake and one byte each way over memory. The client has
// succeeded only when it read the server's byte: in TLS 1.3 its handshake ends
// before the server has judged it.
func talk(client, server *tls.Config) (clientErr, serverErr error) {
	a, b := newPipe()
	var wg sync.WaitGroup
	exchange := func(c *tls.Conn, into *error) {
		wg.Go(func() {
			defer c.Close()
			if *into = c.Handshake(); *into != nil {
				return
			}
			if _, *into = c.Write([]byte{1}); *into != nil {
				return
			}
			_, *into = io.ReadFull(c, make([]byte, 1))
		})
	}
	exchange(tls.Client(a, client), &clientErr)
	exchange(tls.Server(b, server), &serverErr)
	wg.Wait()
	return clientErr, serverErr
}

func protocols() []pki.Protocol {
	return []pki.Protocol{{Name: "trivet-raft"}, {Name: "h2", Operators: true, Anonymous: true}}
}

// meeting is who calls whom, and what each must say. A nil check means success;
// notTold is for the end that learns nothing but the other's alert.
type meeting struct {
	name           string
	client, server func(t *testing.T, w world) *end
	peer, protocol string
	clientSays     func(error) bool
	serverSays     func(error) bool
}

// world is what the ends of a meeting are made from.
type world struct{ ours, theirs, forged *pki.CA }

func is[E error](match func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && match(e)
	}
}

func notTold(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func peer(id string, incarnation uint64) func(*testing.T, world) *end {
	return skewed(id, incarnation, 0)
}

func skewed(id string, incarnation uint64, skew time.Duration) func(*testing.T, world) *end {
	return func(t *testing.T, w world) *end {
		return newEnd(credentials(t, w.ours, pki.PeerIdentity(clusterA, id, incarnation)), skew, 0)
	}
}

// aged is a peer whose certificate was issued some time ago, and the tolerance it grants others.
func aged(id string, ago, tolerance time.Duration) func(*testing.T, world) *end {
	return func(t *testing.T, w world) *end {
		return newEnd(issue(t, w.ours, pki.PeerIdentity(clusterA, id, 1), time.Now().Add(-ago), pki.PeerTTL), 0, tolerance)
	}
}

func operator(ago time.Duration) func(*testing.T, world) *end {
	return func(t *testing.T, w world) *end {
		return newEnd(issue(t, w.ours, pki.OperatorIdentity(clusterA, "ann"), time.Now().Add(-ago), pki.OperatorTTL), 0, 0)
	}
}

func apiOf(id string) func(*testing.T, world) *end {
	return func(t *testing.T, w world) *end {
		return newEnd(credentials(t, w.ours, pki.APIIdentity(clusterA, id)), 0, 0)
	}
}

func stranger(t *testing.T, w world) *end {
	return newEnd(credentials(t, w.theirs, pki.PeerIdentity(clusterB, "p2", 1)), 0, 0)
}

// impostor claims to be of our cluster, with a CA of its own making.
func impostor(t *testing.T, w world) *end {
	return newEnd(credentials(t, w.forged, pki.PeerIdentity(clusterA, "p2", 9)), 0, 0)
}

func expired(e *pki.ValidityError) bool { return e.Expired() }
func tooYoung(e *pki.ValidityError) bool {
	return !e.Expired()
}
func superseded(e *pki.IncarnationError) bool { return e.Superseded() && e.Theirs == 2 && e.Ours == 1 }
func leftOver(e *pki.IncarnationError) bool   { return !e.Superseded() && e.Theirs == 1 && e.Ours == 2 }
func unproven(e *pki.WrongClusterError) bool  { return e.Unproven && e.Theirs != e.Ours }
func anyWrongPeer(*pki.WrongPeerError) bool   { return true }
func unknownCA(err error) bool                { return errors.Is(err, pki.ErrUnknownCA) }

const hours = time.Hour

func meetings() []meeting {
	day := 24 * hours
	return []meeting{
		{name: "two peers", client: peer("p1", 1), server: peer("p2", 1), peer: "p2", protocol: "trivet-raft"},
		{name: "any peer will do", client: peer("p1", 1), server: peer("p2", 1), protocol: "h2"},
		{name: "an operator on h2", client: operator(0), server: peer("p2", 1), protocol: "h2"},
		{name: "an operator after a recover", client: operator(0), server: peer("p2", 5), protocol: "h2"},
		{name: "an operator speaks raft", client: operator(0), server: peer("p2", 1), protocol: "trivet-raft",
			clientSays: notTold, serverSays: is(anyWrongPeer)},
		{name: "another peer at the address", client: peer("p1", 1), server: peer("p3", 1), peer: "p2",
			protocol:   "trivet-raft",
			clientSays: is(func(e *pki.WrongPeerError) bool { return e.Theirs.Peer == "p3" && e.Want == "peer p2" }),
			serverSays: notTold},
		{name: "an operator at the address", client: peer("p1", 1), server: operator(0), peer: "p2", protocol: "h2",
			clientSays: is(func(e *pki.WrongPeerError) bool { return e.Theirs.Operator == "ann" }), serverSays: notTold},
		{name: "an operator for any peer", client: peer("p1", 1), server: operator(0), protocol: "h2",
			clientSays: is(anyWrongPeer), serverSays: notTold},
		{name: "an API at the address", client: peer("p1", 1), server: apiOf("p2"), peer: "p2", protocol: "trivet-raft",
			clientSays: is(anyWrongPeer), serverSays: notTold},
		{name: "an API for any peer", client: peer("p1", 1), server: apiOf("p2"), protocol: "h2",
			clientSays: is(anyWrongPeer), serverSays: notTold},
		{name: "another cluster at the address", client: peer("p1", 1), server: stranger, peer: "p2", protocol: "trivet-raft",
			clientSays: is(unproven), serverSays: notTold},
		{name: "another cluster calls", client: stranger, server: peer("p2", 1), protocol: "trivet-raft",
			clientSays: is(unproven), serverSays: notTold},
		{name: "a forged CA at the address", client: peer("p1", 1), server: impostor, peer: "p2", protocol: "trivet-raft",
			clientSays: unknownCA, serverSays: notTold},
		{name: "we were left behind, calling", client: peer("p1", 1), server: peer("p2", 2), peer: "p2",
			protocol: "trivet-raft", clientSays: is(superseded), serverSays: notTold},
		{name: "a left-over at the address", client: peer("p1", 2), server: peer("p2", 1), peer: "p2",
			protocol: "trivet-raft", clientSays: is(leftOver), serverSays: notTold},
		{name: "clocks hours apart", client: skewed("p1", 1, 5*hours), server: skewed("p2", 1, -5*hours), peer: "p2",
			protocol: "trivet-raft"},
		{name: "a clock a day and more behind", client: skewed("p1", 1, -25*hours), server: peer("p2", 1), protocol: "h2",
			clientSays: is(tooYoung), serverSays: notTold},
		{name: "a month ahead", client: skewed("p1", 1, 31*day), server: peer("p2", 1), protocol: "h2",
			clientSays: is(expired), serverSays: notTold},
		{name: "an expired server", client: peer("p1", 1), server: aged("p2", 31*day, 0), protocol: "h2",
			clientSays: is(expired), serverSays: notTold},
		{name: "an expired client", client: aged("p1", 31*day, 0), server: peer("p2", 1), protocol: "h2", clientSays: notTold,
			serverSays: is(expired)},
		{name: "all expired, within the tolerance", client: aged("p1", 60*day, 90*day), server: aged("p2", 60*day, 90*day),
			peer: "p2", protocol: "trivet-raft"},
		{name: "an expired operator, within the tolerance", client: operator(91 * day), server: aged("p2", 0, 90*day),
			protocol: "h2", clientSays: notTold, serverSays: is(expired)},
		{name: "an expired client, beyond the tolerance", client: aged("p1", 121*day, 90*day), server: aged("p2", 0, 90*day),
			protocol: "h2", clientSays: notTold, serverSays: is(expired)},
		{name: "all of the future, within the tolerance", client: aged("p1", -60*day, 90*day),
			server: aged("p2", -60*day, 90*day), peer: "p2", protocol: "trivet-raft"},
		{name: "a client of the future, without tolerance", client: aged("p1", -60*day, 0), server: aged("p2", 0, 0),
			protocol: "h2", clientSays: notTold, serverSays: is(tooYoung)},
		{name: "a server of the future, beyond the tolerance", client: aged("p1", 0, 90*day),
			server: aged("p2", -92*day, 90*day), protocol: "h2", clientSays: is(tooYoung), serverSays: notTold},
		{name: "an operator of the future, within the tolerance", client: operator(-60 * day), server: aged("p2", 0, 90*day),
			protocol: "h2", clientSays: notTold, serverSays: is(tooYoung)},
	}
}

func TestMeetings(t *testing.T) {
	for _, m := range meetings() {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { m.run(t) })
		})
	}
}

func (m meeting) run(t *testing.T) {
	w := world{ours: newCA(t, clusterA), theirs: newCA(t, clusterB), forged: newCA(t, clusterA)}
	client, server := m.client(t, w), m.server(t, w)
	clientErr, serverErr := talk(
		pki.ClientTLS(client.endpoint, m.peer, m.protocol),
		pki.ServerTLS(server.endpoint, protocols()...))
	m.judge(t, "client", clientErr, client.heardOf(), m.clientSays)
	m.judge(t, "server", serverErr, server.heardOf(), m.serverSays)
}

// judge compares what one end returned, and told Refused, with what it must.
func (m meeting) judge(t *testing.T, who string, err, heard error, says func(error) bool) {
	t.Helper()
	if says == nil {
		if err != nil || heard != nil {
			t.Errorf("%s: %v, Refused heard %v", who, err, heard)
		}
		return
	}
	if !says(err) {
		t.Errorf("%s says: %v", who, err)
	}
	switch {
	case notTold(err) && heard != nil:
		t.Errorf("%s: Refused heard %v of what the other end refused", who, heard)
	case !notTold(err) && !says(heard):
		t.Errorf("%s: Refused heard %v, the handshake returned %v", who, heard, err)
	}
}

// TestServerJudgesHigherIncarnation builds the case that ClientTLS would end
// first: a newer peer calls us, whatever it thinks of our certificate.
func TestServerJudgesHigherIncarnation(t *testing.T) {
	ca := newCA(t, clusterA)
	caller := credentials(t, ca, pki.PeerIdentity(clusterA, "p1", 2))
	config := pki.ClientTLS(newEnd(caller, 0, 0).endpoint, "", "h2")
	config.VerifyConnection = nil
	server := newEnd(credentials(t, ca, pki.PeerIdentity(clusterA, "p2", 1)), 0, 0)
	_, err := talk(config, pki.ServerTLS(server.endpoint, protocols()...))
	if !is(superseded)(err) || !is(superseded)(server.heardOf()) {
		t.Errorf("server says %v, Refused heard %v", err, server.heardOf())
	}
}

// What a peer shows to the world opens nothing among peers, neither as a member
// nor as an operator.
func TestServerRefusesAPIs(t *testing.T) {
	ca := newCA(t, clusterA)
	for _, protocol := range []string{"h2", "trivet-raft"} {
		config := pki.ClientTLS(newEnd(credentials(t, ca, pki.APIIdentity(clusterA, "p1")), 0, 0).endpoint, "", protocol)
		config.VerifyConnection = nil
		server := newEnd(credentials(t, ca, pki.PeerIdentity(clusterA, "p2", 1)), 0, 0)
		if _, err := talk(config, pki.ServerTLS(server.endpoint, protocols()...)); !is(anyWrongPeer)(err) {
			t.Errorf("%s: server says %v", protocol, err)
		}
	}
}

// TestServerJudgesStrangers lets callers through their own checks, to see the server's.
func TestServerJudgesStrangers(t *testing.T) {
	w := world{ours: newCA(t, clusterA), theirs: newCA(t, clusterB), forged: newCA(t, clusterA)}
	for name, test := range map[string]struct {
		caller func(*testing.T, world) *end
		says   func(error) bool
	}{
		"another cluster": {stranger, is(unproven)},
		"a forged CA":     {impostor, unknownCA},
	} {
		config := pki.ClientTLS(test.caller(t, w).endpoint, "", "h2")
		config.VerifyConnection = nil
		server := peer("p2", 1)(t, w)
		if _, err := talk(config, pki.ServerTLS(server.endpoint, protocols()...)); !test.says(err) ||
			!test.says(server.heardOf()) {
			t.Errorf("%s: server says %v, Refused heard %v", name, err, server.heardOf())
		}
	}
}

func TestClientWithoutCertificate(t *testing.T) {
	ca := newCA(t, clusterA)
	server := newEnd(credentials(t, ca, pki.PeerIdentity(clusterA, "p2", 1)), 0, 0)
	for protocol, want := range map[string]error{"h2": nil, "trivet-raft": pki.ErrNoCertificate} {
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
		_, err := talk(config, pki.ServerTLS(server.endpoint, protocols()...))
		if !errors.Is(err, want) {
			t.Errorf("%s: server says %v, want %v", protocol, err, want)
		}
	}
}

func TestProtocolAndVersion(t *testing.T) {
	ca := newCA(t, clusterA)
	c := credentials(t, ca, pki.PeerIdentity(clusterA, "p1", 1))
	server := pki.ServerTLS(newEnd(c, 0, 0).endpoint, protocols()...)
	for name, change := range map[string]func(*tls.Config){
		"no protocol":      func(c *tls.Config) { c.NextProtos = nil },
		"another protocol": func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
		"TLS 1.2":          func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
	} {
		config := pki.ClientTLS(newEnd(c, 0, 0).endpoint, "", "h2")
		config.VerifyConnection = nil
		change(config)
		if _, err := talk(config, server); err == nil {
			t.Errorf("%s: the server accepted", name)
		}
	}
	silent := server.Clone()
	silent.NextProtos = nil
	for name, config := range map[string]*tls.Config{
		"client":  pki.ClientTLS(newEnd(c, 0, 0).endpoint, "", "h2"),
		"inquiry": pki.InquiryTLS(newEnd(c, 0, 0).endpoint, "h2", func(id pki.Identity) { t.Errorf("inquiry found %v", id) }),
	} {
		if err, _ := talk(config, silent); err == nil {
			t.Errorf("%s accepted a server without the protocol", name)
		}
	}
}

// TestRenewedCertificateServesTheNextConnection replaces the credentials
// between two connections of the same configurations.
func TestRenewedCertificateServesTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t, clusterA)
		current := credentials(t, ca, pki.PeerIdentity(clusterA, "p1", 1))
		endpoint := newEnd(nil, 0, 0).endpoint
		endpoint.Credentials = func() *pki.Credentials { return current }
		client, server := pki.ClientTLS(endpoint, "p1", "trivet-raft"), pki.ServerTLS(endpoint, protocols()...)
		for range 3 {
			if c, s := talk(client, server); c != nil || s != nil {
				t.Fatal(c, s)
			}
			time.Sleep(pki.PeerTTL - time.Hour) // in a bubble
			current = credentials(t, ca, pki.PeerIdentity(clusterA, "p1", 1))
		}
		time.Sleep(pki.PeerTTL + time.Hour) // in a bubble
		if c, _ := talk(client, server); !is(expired)(c) {
			t.Errorf("client says %v", c)
		}
	})
}

func TestJoiner(t *testing.T) {
	w := world{ours: newCA(t, clusterA), theirs: newCA(t, clusterB), forged: newCA(t, clusterA)}
	token, err := pki.NewJoinToken(w.ours.Hash(), time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * hours
	tests := []struct {
		name   string
		server func(*testing.T, world) *end
		skew   time.Duration
		says   func(error) bool
	}{
		{"the cluster", peer("p1", 7), 0, nil},
		{"a clock hours off", peer("p1", 7), -5 * hours, nil},
		{"another cluster", stranger, 0, func(err error) bool { return errors.Is(err, pki.ErrCAHash) }},
		{"a forged CA", impostor, 0, func(err error) bool { return errors.Is(err, pki.ErrCAHash) }},
		{"an expired peer", aged("p1", 31*day, 0), 0, is(expired)},
		{"an operator's certificate", operator(0), 0, is(anyWrongPeer)},
		{"a clock years behind", peer("p1", 1), -3000 * day, is(tooYoung)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := test.server(t, w)
			client := pki.JoinerTLS(token, func() time.Time { return time.Now().Add(test.skew) }, "h2")
			clientErr, serverErr := talk(client, pki.ServerTLS(server.endpoint, protocols()...))
			if test.says == nil {
				if clientErr != nil || serverErr != nil {
					t.Errorf("joiner says %v, server %v", clientErr, serverErr)
				}
				return
			}
			if !test.says(clientErr) {
				t.Errorf("joiner says %v", clientErr)
			}
		})
	}
}

// TestJoinerIsNotFooledByTheHashAlone: a server that shows the right CA beside
// a leaf that this CA never signed.
func TestJoinerIsNotFooledByTheHashAlone(t *testing.T) {
	ours, forged := newCA(t, clusterA), newCA(t, clusterA)
	token, err := pki.NewJoinToken(ours.Hash(), time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	fake := credentials(t, forged, pki.PeerIdentity(clusterA, "p1", 1))
	server := pki.ServerTLS(newEnd(fake, 0, 0).endpoint, protocols()...)
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{fake.Leaf.Raw, ours.Certificate().Raw}, PrivateKey: fake.Key}, nil
	}
	if err, _ := talk(pki.JoinerTLS(token, time.Now, "h2"), server); !unknownCA(err) {
		t.Errorf("joiner says %v", err)
	}
}

// TestNothingIsResumed offers a session cache, which would let a client skip
// showing its present certificate.
func TestNothingIsResumed(t *testing.T) {
	ca := newCA(t, clusterA)
	end := newEnd(credentials(t, ca, pki.PeerIdentity(clusterA, "p1", 1)), 0, 0)
	client, server := pki.ClientTLS(end.endpoint, "p1", "h2"), pki.ServerTLS(end.endpoint, protocols()...)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	client.ServerName = "p1"
	client.VerifyConnection = func(cs tls.ConnectionState) error {
		if cs.DidResume {
			return errors.New("resumed")
		}
		return nil
	}
	for range 3 {
		if c, s := talk(client, server); c != nil || s != nil {
			t.Fatal(c, s)
		}
	}
}

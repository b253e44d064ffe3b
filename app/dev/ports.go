package dev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// The ports of the peers lie below those that the kernel gives to outgoing
// connections: a peer that was killed must find its own free again.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// freePorts returns n addresses on loopback that were free for TCP and UDP a
// moment ago. The search begins at a random one, so that two runs at the same
// time do not choose the same.
func freePorts(n int, random io.Reader) ([]string, error) {
	var seed [4]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("read randomness: %w", err)
	}
	const span = highestPort - lowestPort
	first := int(binary.LittleEndian.Uint32(seed[:]) % span)
	var out []string
	for i := range span {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+(first+i)%span))
		if free(address) == nil {
			out = append(out, address)
		}
		if len(out) == n {
			return out, nil
		}
	}
	return nil, fmt.Errorf("fewer than %d ports from %d to %d are free on 127.0.0.1", n, lowestPort, highestPort)
}

func free(address string) error {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return errors.Join(err, tcp.Close())
	}
	return errors.Join(tcp.Close(), udp.Close())
}

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// webLimit bounds one request with its answer. A callback is held for up to
// 25 s.
const webLimit = 60 * time.Second

// maxWebAnswer bounds an answer, in bytes: a page of 1,000 records has 300 KB.
const maxWebAnswer = 8 << 20

// webConn is a client with one connection that stays open. It speaks as much
// of HTTP/1.1 as the measured API answers with. A request by net/http costs as
// much as answering it: half of the machine would measure the client. It
// belongs to one goroutine.
type webConn struct {
	conn   net.Conn
	in     *bufio.Reader
	host   string
	out    []byte // the request, kept for its room
	answer []byte // the body of the newest answer
}

func dialWeb(address string) (*webConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &webConn{conn: conn, in: bufio.NewReader(conn), host: address}, nil
}

func (c *webConn) close() error { return c.conn.Close() }

// do makes one request. The body of the answer stays valid until the next.
func (c *webConn) do(method, path string, body []byte) (status int, answer []byte, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(webLimit)); err != nil {
		return 0, nil, err
	}
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", method, path, c.host,
		len(body))
	c.out = append(c.out, body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if status, err = c.read(); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return status, c.answer, nil
}

// read takes one answer.
func (c *webConn) read() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	const version = "HTTP/1.1 "
	if !bytes.HasPrefix(line, []byte(version)) || len(line) < len(version)+3 {
		return 0, fmt.Errorf("not an answer: %q", line)
	}
	if status, err = strconv.Atoi(string(line[len(version) : len(version)+3])); err != nil {
		return 0, fmt.Errorf("not a status: %q", line)
	}
	length := -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("length of the answer: %w", err)
			}
		}
	}
	if status == http.StatusNoContent {
		length = 0 // which need not be said
	}
	if length < 0 || length > maxWebAnswer {
		return 0, fmt.Errorf("an answer without a usable length, status %d", status)
	}
	if cap(c.answer) < length {
		c.answer = make([]byte, length)
	}
	c.answer = c.answer[:length]
	_, err = io.ReadFull(c.in, c.answer)
	return status, err
}

package host

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// Fetch reports why a file cannot be fetched over HTTP or TFTP, within 3 seconds.
func Fetch(ctx context.Context, url string) error {
	_, size, err := fetchHead(ctx, url)
	if err == nil && size == 0 {
		err = errors.New("it is empty")
	}
	return err
}

// fetchHead fetches the beginning of a file, or a script whole, and how large the
// file is; where the server does not say, how much was read.
func fetchHead(ctx context.Context, text string) (head []byte, size int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	u, err := url.Parse(text)
	if err != nil {
		return nil, 0, err
	}
	switch u.Scheme {
	case "tftp":
		head, size, err = tftpGet(ctx, u)
	case "http", "https":
		head, size, err = httpGet(ctx, text)
	default:
		return nil, 0, fmt.Errorf("%q is not looked at: neither tftp nor http", u.Scheme)
	}
	if err != nil && ctx.Err() != nil {
		return nil, 0, fmt.Errorf("no answer within %v", fetchLimit)
	}
	return head, size, err
}

// isEnough reports whether enough of a file was read.
func isEnough(head []byte) bool {
	if doctor.IsScript(head) {
		return len(head) >= maxScript
	}
	return len(head) >= enough
}

// httpGet asks for the first bytes. Whether iPXE trusts a certificate is not
// known here and not asked: nothing is sent that a stranger might not read, and
// nothing that comes is used but its size.
func httpGet(ctx context.Context, text string) (head []byte, size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=0-%d", maxScript-1))
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, 0, errors.Unwrap(err) // without the URL, which is told anyway
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return nil, 0, fmt.Errorf("the server answers %s", resp.Status)
	}
	buffer := make([]byte, enough)
	for !isEnough(head) && err == nil {
		var n int
		n, err = resp.Body.Read(buffer)
		head = append(head, buffer[:n]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if bounds.IsPage(resp) && bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")) { // some servers call any file HTML
		return nil, 0, fmt.Errorf("the server answers %s with a page of HTML", resp.Status)
	}
	whole := resp.ContentLength // -1 if the server does not say
	if _, text, ok := strings.Cut(resp.Header.Get("Content-Range"), "/"); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			whole = n
		}
	}
	return head, max(int64(len(head)), whole), nil
}

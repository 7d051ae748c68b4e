package httpsink

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A consumer that sends back all that it got tells no secret, wherever its text is cut, nor does one that does not answer in HTTP.
func TestNoSecretIsShown(t *testing.T) {
	const plain = "hunter2-user:hunter2-password"
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(plain))
	for authorization, parts := range map[string][]string{
		"Bearer hunter2-token": {"hunter2-token"}, basic: {plain, "hunter2-password", basic[6:]},
	} {
		secrets := slices.Concat(parts, []string{"hunter2-path", "/hunter2-path", "hunter2-query", "hunter2-key", authorization})
		for _, before := range []int{0, 1, 100, maxExcerpt - 12, maxExcerpt - 1, maxExcerpt} {
			echo := serve(t, func(w http.ResponseWriter, req *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, strings.Repeat(".", before), strings.Join(append(secrets, req.RequestURI), " "))
			})
			noHTTP := raw(t, func(_ int, c net.Conn, in *bufio.Reader) {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				fmt.Fprintf(c, "%s hunter2-key %s\r\n\r\n", strings.Repeat(".", before), strings.Join(req.Header["Authorization"], ""))
			})
			for _, url := range []string{echo.URL, noHTTP, "http://127.0.0.1:1"} {
				sink := newSink(t, Config{
					URL: url + "/hunter2-path?token=hunter2-query", Header: http.Header{"X-Key": {"hunter2-key"}},
					Authorization: func(context.Context) (string, error) { return authorization, nil },
				})
				err := sink.Deliver(t.Context(), trigger())
				text := fmt.Sprintf("%v %v %+v %#v", err, sink, sink, sink)
				if err == nil || strings.Contains(text, "hunter2") || strings.Contains(text, basic[6:14]) || len(err.Error()) > 1000 {
					t.Errorf("%d bytes before: got %s", before, text)
				}
				if !strings.Contains(text, strings.TrimPrefix(url, "http://")) {
					t.Errorf("the host is not in %s", text)
				}
			}
		}
	}
}

// What else the consumer says is kept, to a bound, and quoted.
func TestExcerpt(t *testing.T) {
	for said, want := range map[string]string{
		"":                           "answered 400 Bad Request",
		"no such order":              `400 Bad Request: "no such order"`,
		"\x1b[2J\nx":                 `"\x1b[2J\nx"`,
		"\xff":                       `"�"`,
		strings.Repeat("x", 1000):    `"` + strings.Repeat("x", maxExcerpt) + `"`,
		"a\x00" + "b":                `"a\x00b"`,
		strings.Repeat("é", 200)[1:]: `"�` + strings.Repeat("é", 127) + `�"`,
	} {
		s := serve(t, status(400, said))
		if err := newSink(t, Config{URL: s.URL}).Deliver(t.Context(), trigger()); !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", said, err, want)
		}
	}
}

// Nor is a part of a secret shown: what follows the scheme in a header, a cookie's value, a value of the query as it was sent.
func TestNoPartOfASecretIsShown(t *testing.T) {
	for _, said := range []string{"hunter2-token", "hunter2-cookie", "hunter2%2Fquery", "hunter2%2fQUERY", "hunter2/query", "hunter2%2Fpath"} {
		s := serve(t, status(400, "no: "+said+" is wrong"))
		sink := newSink(t, Config{
			URL:    s.URL + "/a/hunter2%2Fpath?x=1&token=hunter2%2Fquery&other=hunter2%2fQUERY",
			Header: http.Header{"X-Auth": {"Token hunter2-token"}, "Cookie": {"lang=en; session=hunter2-cookie"}},
		})
		if err := sink.Deliver(t.Context(), trigger()); strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}

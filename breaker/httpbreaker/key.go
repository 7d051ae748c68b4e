package httpbreaker

import (
	"net"
	"net/http"
	"strings"
)

// Host is the default key: the host that a request goes to, in lower case without a final dot,
// and its port, with the default port of http and https filled in: "api.example.com:443".
// Of the URL nothing else is in it, no user and no password.
func Host(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(req.URL.Hostname(), "."))
	port := req.URL.Port()
	if port == "" {
		port = defaultPort(req.URL.Scheme)
	}
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

func defaultPort(scheme string) string {
	switch strings.ToLower(scheme) {
	case "http":
		return "80"
	case "https":
		return "443"
	default:
		return ""
	}
}

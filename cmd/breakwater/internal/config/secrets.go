package config

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// A Secret is a text that is never shown.
type Secret string

// String hides it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "…"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// leastSecret is the length from which on a text is looked for in what is shown, in bytes: shorter ones are in every word.
const leastSecret = 4

// secret notes a text that must never be shown.
func (r *reader) secret(text string) {
	if len(text) >= leastSecret {
		r.secrets = append(r.secrets, text)
	}
}

// shown is a field whose value holds no secret, in a mapping whose others may.
func shown(f field) field {
	read := f.read
	f.read = func(r *reader, at place) {
		at.secret = false
		read(r, at)
	}
	return f
}

// required tells that a key is missing.
func (r *reader) required(at place, given map[string]place, key, mend string) {
	if _, ok := given[key]; !ok {
		r.fault(place{at.path + "." + key, at.node, true}, "is missing: %s", mend)
	}
}

// least and most bytes of a bearer token. A shorter one can be guessed.
const (
	leastToken = 16
	mostToken  = 4096
)

// token is a bearer token out of the environment or a file, "" where there is none, or one with a fault.
func (r *reader) token(given map[string]place, env, file string) Secret {
	inFile, hasFile := given["bearer_token_file"]
	inEnv, hasEnv := given["bearer_token_env"]
	var token string
	at := inEnv
	switch {
	case hasFile && hasEnv:
		r.fault(inFile, "is given beside bearer_token_env: keep one of the two")
		return ""
	case hasEnv && env != "":
		token = r.environment(inEnv, env, "the token")
	case hasFile && file != "":
		at = inFile
		token = strings.TrimRight(r.content(inFile, file), "\r\n")
	}
	if token == "" {
		return ""
	}
	r.secret(token)
	if len(token) < leastToken || len(token) > mostToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' || !unicode.IsPrint(c) }) {
		r.fault(at, "leads to a token that is not 16 to 4096 visible ASCII characters: make one, by openssl rand -hex 32 for one")
		return ""
	}
	return Secret(token)
}

// content is that of a file that the configuration names, "" where it cannot be had. The file is watched as the configuration is.
func (r *reader) content(at place, name string) string {
	name = r.beside(name)
	text, err := ReadFile(name)
	r.files[name] = sum(text)
	switch {
	case err != nil:
		r.fault(at, "names a file that %v", unreadable(err))
	case len(text) > maxSize:
		r.fault(at, "names a file of over 1 MiB: name another one")
	case len(text) == 0:
		r.fault(at, "names a file that is empty: name one that is not")
	default:
		return string(text)
	}
	return ""
}

// beside is a path that is told from the directory of the configuration file.
func (r *reader) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(r.file), name)
}

// address is a host with its port; loopback tells whether only this machine reaches it.
func address(text string) (loopback bool, err error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false, errors.New("no host:port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, errors.New("no port")
	}
	ip := net.ParseIP(host)
	switch {
	case host == "localhost":
		return true, nil
	case host == "":
		return false, nil
	case ip == nil:
		return false, errors.New("no address")
	}
	return ip.IsLoopback(), nil
}

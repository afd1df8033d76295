package httpserver

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// RefuseForeign returns a handler that answers 403 to requests of web pages of other servers, and passes all
// others to next. A browser on this machine makes such requests in two ways. The page names this server: then
// the Origin is another one than the Host. Or the page's own name was given the address of this server (DNS
// rebinding): then the Host is that name, which is neither an address of the loopback interface, nor localhost,
// nor one of names. Any port is allowed, because ports can be forwarded.
//
// It is for servers that listen on a loopback address.
func RefuseForeign(next http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		switch {
		case !isLocal(r.Host, names):
			http.Error(w, fmt.Sprintf("access denied: this server is not %q: use 127.0.0.1 or localhost", r.Host), http.StatusForbidden)
		case slices.ContainsFunc(origins, func(origin string) bool { return !isOrigin(origin, r.Host) }):
			http.Error(w, fmt.Sprintf("access denied: a page of %q may not use this server", strings.Join(origins, ", ")), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOrigin reports whether an Origin is that of pages of a host. A proxy may have added TLS.
func isOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// isLocal reports whether a host is this machine's loopback interface, or has one of the names.
func isLocal(host string, names []string) bool {
	name := hostname(host)
	return IsLoopback(name) || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hostname returns a host without its port.
func hostname(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return name
}

// IsLoopback reports whether a host without a port names the loopback interface.
func IsLoopback(name string) bool {
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

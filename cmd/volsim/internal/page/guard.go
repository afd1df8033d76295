package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"sync"
)

// contentSecurityPolicy is what a browser may do with the page: nothing but what comes from here, and no script or style within it.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard lets in who has a cookie, and gives one to who comes with the token of the present link, once: then there is
// another one.
type guard struct {
	next       http.Handler
	cookie     string             // its name
	secret     string             // its value
	onNewToken func(token string) // says that there is another token

	mu    sync.Mutex
	token string // guarded by mu: of the link that nobody has opened yet
}

func newGuard(next http.Handler, cookie string, relink func(token string)) *guard {
	return &guard{next: next, cookie: cookie, secret: newSecret(), onNewToken: relink, token: newSecret()}
}

// newSecret is one that nobody guesses.
func newSecret() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// current is the token of the link that nobody has opened yet.
func (g *guard) current() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token
}

// ServeHTTP answers whoever may look.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	given := r.URL.Query().Get("token")
	switch {
	case !isLoopback(r.Host):
		http.Error(w, "this page is for this machine only: open it as 127.0.0.1 or localhost", http.StatusForbidden)
	case g.hasCookie(r) && given == "":
		g.next.ServeHTTP(w, r)
	case g.hasCookie(r):
		g.sendToPage(w)
	case r.Method == http.MethodGet && given != "" && g.redeem(given):
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		g.sendToPage(w)
	default:
		http.Error(w, "this page is for whoever opens the link that volsim serve has printed last; each link opens it in one browser, and is of one run",
			http.StatusForbidden)
	}
}

// sendToPage has the browser go on to the page. It goes by itself, so that its cookie counts as the page's own wherever the link
// was opened from; a redirect would be the work of whoever the link was opened from.
func (g *guard) sendToPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!doctype html><meta http-equiv="refresh" content="0;url=/"><link rel="icon" href="data:,"><title>volsim</title><a href="/">volsim</a>`))
}

// hasCookie tells whether a request has the cookie.
func (g *guard) hasCookie(r *http.Request) bool {
	for _, c := range r.CookiesNamed(g.cookie) {
		if equalSecrets(c.Value, g.secret) {
			return true
		}
	}
	return false
}

// redeem uses the token up, if it is that of the present link.
func (g *guard) redeem(given string) bool {
	g.mu.Lock()
	taken := equalSecrets(given, g.token)
	if taken {
		g.token = newSecret()
	}
	next := g.token
	g.mu.Unlock()
	if taken && g.onNewToken != nil {
		g.onNewToken(next)
	}
	return taken
}

func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// isLoopback tells whether a request is for this machine by its own name. A name that somebody else gave it, so that his page
// counts as this one's, is none of these. Ports may differ: they can be forwarded.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

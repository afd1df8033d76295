package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"sync"

	"github.com/volsim/volsim/internal/httpserver"
)

// contentSecurityPolicy allows only resources of this server, and no inline scripts or styles.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A guard admits requests with a cookie. It sets the cookie for the first request with the current
// token, then replaces the token.
type guard struct {
	next       http.Handler
	admit      http.Handler       // admits requests of this machine's pages
	cookie     string             // its name
	secret     string             // its value
	onNewToken func(token string) // called after the token was replaced

	mu    sync.Mutex
	token string // guarded by mu: token of the unused link
}

// newGuard returns a guard of a page that is also reached by other names than loopback addresses.
func newGuard(next http.Handler, names []string, cookie string, relink func(token string)) *guard {
	g := &guard{next: next, cookie: cookie, secret: newSecret(), onNewToken: relink, token: newSecret()}
	g.admit = httpserver.RefuseForeign(http.HandlerFunc(g.serve), names...)
	return g
}

// newSecret returns a random secret.
func newSecret() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// current returns the token of the unused link.
func (g *guard) current() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token
}

// ServeHTTP checks access and forwards the request.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	g.admit.ServeHTTP(w, r)
}

// serve forwards a request with the cookie, and sets it for the current token.
func (g *guard) serve(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("token")
	switch {
	case g.hasCookie(r) && token == "":
		g.next.ServeHTTP(w, r)
	case g.hasCookie(r):
		g.sendToPage(w)
	case r.Method == http.MethodGet && token != "" && g.redeem(token):
		http.SetCookie(w,
			&http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		g.sendToPage(w)
	default:
		http.Error(w, "access denied: open the latest link printed by volsim serve; each link opens the page in one browser",
			http.StatusForbidden)
	}
}

// sendToPage responds with a document that redirects to the page. An HTTP redirect would count as a
// cross-site navigation if another site had opened the link, and the browser would not send the
// cookie.
func (g *guard) sendToPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!doctype html><meta http-equiv="refresh" content="0;url=/"><link rel="icon" href="data:,"><title>volsim</title><a href="/">volsim</a>`))
}

// hasCookie reports whether a request has the cookie.
func (g *guard) hasCookie(r *http.Request) bool {
	for _, c := range r.CookiesNamed(g.cookie) {
		if equalSecrets(c.Value, g.secret) {
			return true
		}
	}
	return false
}

// redeem reports whether the token is the current one, and replaces it if so.
func (g *guard) redeem(token string) bool {
	g.mu.Lock()
	taken := equalSecrets(token, g.token)
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

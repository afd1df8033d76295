package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clientrest "k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volsim/volsim/internal/httpserver"
	"github.com/volsim/volsim/internal/rbac"
)

const (
	// headerBytesMax is the maximum size of a request's line and headers, and so of its URL. A longer
	// one is answered with 431.
	headerBytesMax = 1 << 20
	// requestTimeout is the time in which a request must be read and answered, unless it is
	// long-running. The client may take stallMax more to read the answer.
	requestTimeout = time.Minute
)

// ListenConfig configures Listen.
type ListenConfig struct {
	Handler   http.Handler
	Addr      string     // "": a free port of 127.0.0.1
	Authority *Authority // signs the server's certificate, and those of clients. nil: a new one
	// Token returns the user of a bearer token other than the listener's own, such as
	// fake.Server.AuthenticateToken. Its error is not shown to the client. nil: no other token is valid.
	Token func(token string, audiences ...string) (user authenticationv1.UserInfo, matched []string, err error)
}

// Listener serves a handler by HTTPS with a new certificate and a new bearer token. The requests are those
// of the user of a client certificate (Authority.NewClient), of the handler's own client with the
// listener's token, or of the user of another token (ListenConfig.Token). Others are answered
// with 401 Unauthorized, except health checks and the version, which are the anonymous user's.
type Listener struct {
	addr   *net.TCPAddr
	url    string
	ca     []byte // PEM
	token  string
	server *httpserver.Server
}

// Listen starts to serve. The caller must call Close. The error is that of the socket, or of making
// keys.
func Listen(cfg ListenConfig) (*Listener, error) {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	socket, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Addr, err)
	}
	addr := socket.Addr().(*net.TCPAddr)
	if cfg.Authority == nil {
		if cfg.Authority, err = NewAuthority(); err != nil {
			return nil, errors.Join(err, socket.Close())
		}
	}
	cert, err := cfg.Authority.newCertificate(addr.IP)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create certificate: %w", err), socket.Close())
	}
	token, err := newToken()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &Listener{
		addr: addr, url: urlOf(addr), ca: cfg.Authority.PEM(), token: token,
		server: httpserver.Serve(socket, httpserver.Config{
			Handler: withAuditID(limitTime(cfg.authenticate(token))), HeaderBytesMax: headerBytesMax,
			TLS: &tls.Config{
				Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
				ClientAuth: tls.RequestClientCert, // authenticate verifies it
			},
		}),
	}, nil
}

// URL returns the server's URL, such as "https://127.0.0.1:40321".
func (l *Listener) URL() string { return l.url }

// Config returns a client configuration with the server's URL, certificate authority and token.
func (l *Listener) Config() *clientrest.Config {
	return &clientrest.Config{
		Host: l.url, BearerToken: l.token, TLSClientConfig: clientrest.TLSClientConfig{CAData: l.ca}, QPS: -1,
	}
}

// Kubeconfig returns the same as a kubeconfig. Its cluster, user and context have the given name.
func (l *Listener) Kubeconfig(name string) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: l.url, CertificateAuthorityData: l.ca}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: l.token}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}

// Done returns a channel that yields the error, if any, with which serving ended before Close.
func (l *Listener) Done() <-chan error { return l.server.Done() }

// Close ends watches, waits a moment for requests in flight, and closes all connections.
func (l *Listener) Close() error { return l.server.Close() }

// urlOf returns the URL that clients on this machine use.
func urlOf(addr *net.TCPAddr) string {
	ip := addr.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return "https://" + net.JoinHostPort(ip.String(), strconv.Itoa(addr.Port))
}

// limitTime returns a handler that ends requests at their deadline. It is that of the timeout
// parameter, and requestTimeout at most. Watches have none. A client that does not read the answer
// is disconnected after stallMax.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithRequestDeadline, pkg/server/filters
// WithTimeoutForNonLongRunningRequests.
func limitTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout := requestTimeout
		if asked, err := timeoutOf(r.URL.Query()); err == nil && asked > 0 {
			timeout = min(timeout, asked)
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		deadline, _ := ctx.Deadline()
		connection := http.NewResponseController(w)
		if isLongRunning(r) {
			if r.ProtoMajor == 1 && r.ContentLength != 0 {
				w.Header().Set("Connection", "close") // the answer must not wait for the body, which is not read
			}
			_ = connection.SetWriteDeadline(deadline.Add(stallMax)) // a stream extends it
			next.ServeHTTP(w, r)
			_ = connection.SetReadDeadline(deadline)
			return
		}
		_ = connection.SetReadDeadline(deadline) // the server resets it for the next request
		_ = connection.SetWriteDeadline(deadline.Add(stallMax))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// publicPaths are the paths that need no token, as on the real server.
var publicPaths = []string{"/healthz", "/livez", "/readyz", "/version"}

// authenticate returns a handler that passes the requests of users to cfg.Handler, and answers others with 401.
//
// Upstream: k8s.io/apiserver/pkg/authentication/request/{x509,bearertoken,anonymous}.
func (cfg ListenConfig) authenticate(token string) http.Handler {
	want, clients, refuse := []byte(token), cfg.Authority.clients(), cfg.refusing()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := bearerToken(r)
		if user, ok := clients.user(r.TLS); ok {
			cfg.Handler.ServeHTTP(w, withUser(r, user))
			return
		}
		switch {
		case subtle.ConstantTimeCompare([]byte(sent), want) == 1:
			cfg.Handler.ServeHTTP(w, r)
			return
		case sent != "" && cfg.Token != nil:
			if user, _, err := cfg.Token(sent); err == nil {
				cfg.Handler.ServeHTTP(w, withUser(r, user))
				return
			}
		case sent == "" && isPublic(r.URL.Path):
			anonymous := authenticationv1.UserInfo{Username: rbac.AnonymousUser, Groups: []string{rbac.UnauthenticatedGroup}}
			cfg.Handler.ServeHTTP(w, withUser(r, anonymous))
			return
		}
		refuse(w, r)
	})
}

// refusing returns the function that answers a request that is not authenticated: the handler's own if it has
// one, so that the audit log has the request.
func (cfg ListenConfig) refusing() func(http.ResponseWriter, *http.Request) {
	if own, ok := cfg.Handler.(interface {
		ServeUnauthorized(w http.ResponseWriter, r *http.Request)
	}); ok {
		return own.ServeUnauthorized
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
			`"message":"Unauthorized","reason":"Unauthorized","code":401}`+"\n")
	}
}

// bearerToken returns the bearer token of a request, or "".
//
// Upstream: k8s.io/apiserver/pkg/authentication/request/bearertoken.
func bearerToken(r *http.Request) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	token, _, _ := strings.Cut(rest, " ")
	return token
}

func isPublic(path string) bool {
	for _, p := range publicPaths {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

func newToken() (string, error) {
	b := make([]byte, 24)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("create token: %w", err)
	}
	return hex.EncodeToString(b), nil
}

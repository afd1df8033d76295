package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	clientrest "k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volsim/volsim/internal/httpserver"
)

const (
	headerBytesMax = 1 << 20
	// requestTimeout is the time in which a request must be read and answered, unless it is
	// long-running.
	requestTimeout = time.Minute
)

// Authority is a certificate authority.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a new key and a self-signed certificate.
func NewAuthority() (*Authority, error) {
	cert, key, err := newSigned(&x509.Certificate{
		Subject: pkix.Name{CommonName: "volsim-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("create certificate authority: %w", err)
	}
	return &Authority{cert, key}, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// ListenConfig configures Listen.
type ListenConfig struct {
	Handler   http.Handler
	Addr      string     // "": a free port of 127.0.0.1
	Authority *Authority // signs the server's certificate. nil: a new one
}

// Listener serves a handler by HTTPS with a new certificate and a new bearer token. Requests
// without the token are answered with 401 Unauthorized, except health checks and the version.
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
			Handler: limitTime(authenticate(token, cfg.Handler)), HeaderBytesMax: headerBytesMax,
			TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
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
// parameter, and requestTimeout at most. Watches have none.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithRequestDeadline.
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
			next.ServeHTTP(w, r)
			_ = connection.SetReadDeadline(deadline)
			return
		}
		_ = connection.SetReadDeadline(deadline) // the server resets it for the next request
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// publicPaths are the paths that need no token, as on the real server.
var publicPaths = []string{"/healthz", "/livez", "/readyz", "/version"}

// authenticate returns a handler that passes requests with the token to next and answers others
// with 401.
func authenticate(token string, next http.Handler) http.Handler {
	want := []byte(token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(bearerToken(r)), want) == 1 || isPublic(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
			`"message":"Unauthorized","reason":"Unauthorized","code":401}`+"\n")
	})
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

// newCertificate returns a server certificate for ip. It is valid for a century.
func (a *Authority) newCertificate(ip net.IP) (tls.Certificate, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "volsim"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if name, err := os.Hostname(); err == nil {
		template.DNSNames = append(template.DNSNames, name)
	}
	template.IPAddresses = append(template.IPAddresses, addressesFor(ip)...)
	cert, key, err := newSigned(template, a)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key}, nil
}

// addressesFor returns the addresses at which a socket on ip can be reached: all of this machine's
// if ip is unspecified.
func addressesFor(ip net.IP) []net.IP {
	if !ip.IsUnspecified() {
		return []net.IP{ip}
	}
	var all []net.IP
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the certificate has the loopback addresses anyway
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			all = append(all, n.IP)
		}
	}
	return all
}

// newSigned returns a certificate and its key, signed by the authority by, or self-signed if by is
// nil.
func newSigned(template *x509.Certificate, by *Authority) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if by == nil {
		by = &Authority{cert: template, key: key}
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	template.NotAfter = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
	raw, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return cert, key, err
}

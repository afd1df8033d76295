package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
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

// NewClient returns a certificate and its key, in PEM, with which a client is a user in groups. They are valid
// for a century.
func (a *Authority) NewClient(user string, groups ...string) (cert, key []byte, err error) {
	signed, private, err := newSigned(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a)
	if err != nil {
		return nil, nil, fmt.Errorf("create certificate of user %q: %w", user, err)
	}
	if cert, key, err = encoded(signed, private); err != nil {
		return nil, nil, fmt.Errorf("create certificate of user %q: %w", user, err)
	}
	return cert, key, nil
}

// NewServer returns a certificate and its key, in PEM, for a server with the given names and addresses, such as one of
// webhooks. They are valid for a century.
func (a *Authority) NewServer(hosts ...string) (cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "volsim"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if host != "" {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	signed, private, err := newSigned(template, a)
	if err == nil {
		cert, key, err = encoded(signed, private)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("create certificate of server %q: %w", hosts, err)
	}
	return cert, key, nil
}

// encoded returns a certificate and its key in PEM.
func encoded(signed *x509.Certificate, private *ecdsa.PrivateKey) (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// clientVerifier verifies the certificates of clients.
type clientVerifier struct{ options x509.VerifyOptions }

func (a *Authority) clients() clientVerifier {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return clientVerifier{x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}}
}

// user returns the user of a connection's certificate. The bool is false without a valid one.
//
// Upstream: k8s.io/apiserver/pkg/authentication/request/x509 CommonNameUserConversion.
func (v clientVerifier) user(state *tls.ConnectionState) (authenticationv1.UserInfo, bool) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return authenticationv1.UserInfo{}, false
	}
	cert := state.PeerCertificates[0]
	if _, err := cert.Verify(v.options); err != nil || cert.Subject.CommonName == "" {
		return authenticationv1.UserInfo{}, false
	}
	user := authenticationv1.UserInfo{Username: cert.Subject.CommonName, Groups: slices.Clone(cert.Subject.Organization)}
	user.Groups = withImplied(user)
	return user, true
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

package kubeletserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The protocols of SPDY besides protocolV4, and what they are negotiated by.
//
// Upstream: k8s.io/apimachinery/pkg/util/remotecommand StreamProtocolV2Name and its like, k8s.io/streaming/pkg/httpstream
// HeaderProtocolVersion, HeaderAcceptedProtocolVersions.
const (
	protocolV3      = "v3.channel.k8s.io"
	protocolV2      = "v2.channel.k8s.io"
	protocolHeader  = "X-Stream-Protocol-Version"
	protocolsHeader = "X-Accepted-Stream-Protocol-Versions"
)

// spdyVersion is the protocol that a client upgrades to.
//
// Upstream: k8s.io/streaming/pkg/httpstream/spdy HeaderSpdy31.
const spdyVersion = "SPDY/3.1"

var spdyProtocols = []string{protocolV4, protocolV3, protocolV2}

// isSPDYUpgrade reports whether a request asks for SPDY.
//
// Upstream: k8s.io/streaming/pkg/httpstream/spdy ResponseUpgrader (v1.36).
func isSPDYUpgrade(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") &&
		strings.Contains(strings.ToLower(r.Header.Get("Upgrade")), strings.ToLower(spdyVersion))
}

// negotiate returns the first protocol of a client that is supported, or "" after an answer.
//
// Differs: the oldest protocol, channel.k8s.io, is not supported.
//
// Upstream: k8s.io/streaming/pkg/httpstream Handshake (v1.36).
func negotiate(w http.ResponseWriter, r *http.Request) string {
	values, found := r.Header[http.CanonicalHeaderKey(protocolHeader)]
	if !found {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("unable to upgrade: header %s does not exist in request with %d headers",
			protocolHeader, len(r.Header)))
		return ""
	}
	var wanted []string
	for _, value := range values {
		for p := range strings.SplitSeq(value, ",") {
			if p = strings.TrimSpace(p); p != "" {
				wanted = append(wanted, p)
			}
		}
	}
	if len(wanted) == 0 {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("unable to upgrade: header %s contains %s, but no valid protocols",
			protocolHeader, values))
		return ""
	}
	i := slices.IndexFunc(wanted, func(p string) bool { return slices.Contains(spdyProtocols, p) })
	if i < 0 {
		w.Header()[protocolsHeader] = slices.Clone(spdyProtocols)
		refuse(w, http.StatusForbidden, fmt.Sprintf("unable to upgrade: unable to negotiate protocol: client supports %v, server accepts %v",
			wanted, spdyProtocols))
		return ""
	}
	return wanted[i]
}

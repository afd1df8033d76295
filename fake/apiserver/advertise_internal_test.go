package apiserver

import (
	"net"
	"testing"
)

func TestAdvertisedAddress(t *testing.T) {
	for ip, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "203.0.113.7": "203.0.113.7", "::ffff:10.1.2.3": "10.1.2.3",
		"127.0.0.1": "", "127.8.0.1": "", "::1": "", "169.254.1.1": "", "224.0.0.1": "", "2001:db8::1": "", "fe80::1": "",
	} {
		if got := advertisedAddress(net.ParseIP(ip)); got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
	for _, all := range []string{"0.0.0.0", "::"} { // the result depends on the host
		if got := net.ParseIP(advertisedAddress(net.ParseIP(all))); got != nil && (got.To4() == nil || !got.IsGlobalUnicast()) {
			t.Errorf("%s: %v", all, got)
		}
	}
}

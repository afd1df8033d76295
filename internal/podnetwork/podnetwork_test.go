package podnetwork_test

import (
	"net/netip"
	"testing"

	"github.com/volsim/volsim/internal/podnetwork"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestOf: no two nodes share an address or a network, and the last ones have none.
func TestOf(t *testing.T) {
	t.Parallel()
	for i, want := range map[int]string{
		0: "10.243.0.1 10.244.1.0/24", 254: "10.243.0.255 10.244.255.0/24", 255: "10.243.1.0 10.245.0.0/24",
		3070: "10.243.11.255 10.255.255.0/24", 3071: "invalid IP invalid Prefix", 1 << 20: "invalid IP invalid Prefix",
	} {
		node, pods := podnetwork.Of(i)
		testcheck.Equal(t, "addresses", want, node.String()+" "+pods.String())
	}
	seen := map[netip.Addr]bool{}
	for i := range 3071 {
		node, pods := podnetwork.Of(i)
		for _, address := range []netip.Addr{node, pods.Addr()} {
			if seen[address] {
				t.Fatalf("node %d: %s twice", i, address)
			}
			seen[address] = true
		}
	}
}

package vmdiff

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// calls are the plugin's calls for one disk, in order.
type calls []call

type call struct {
	verb string
	pod  types.UID // "": for the node
	err  error
}

func (c call) what() string { return strings.TrimSpace(c.verb + " " + string(c.pod)) }

// describe returns the call in words, without the pod of a failed call if pods share the disk.
// Upstream tries pods in any order, and all of them wait when one has failed.
func (c call) describe(shared bool) string {
	switch {
	case c.err == nil:
		return c.what()
	case shared:
		return "(" + c.verb + ": " + c.err.Error() + ")"
	default:
		return "(" + c.what() + ": " + c.err.Error() + ")"
	}
}

// describe returns the calls in a canonical order. Calls for different pods commute; a call for the
// node commutes with none. Between two successful calls, equal failures are listed once.
func (all calls) describe(shared bool) []string {
	var words []string
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(c call) bool { return c.pod == "" && c.err == nil })
		if n < 0 {
			n = len(all)
		}
		words = append(words, all[:n].describeByPod(shared)...)
		if n < len(all) {
			words, n = append(words, all[n].describe(shared)), n+1
		}
		all = all[n:]
	}
	return words
}

// describeByPod returns the calls between two successful ones for the node: those of each pod, then
// failures for the node.
func (all calls) describeByPod(shared bool) []string {
	pods := map[types.UID]calls{}
	var failed []string
	for _, c := range all {
		if c.pod == "" || c.err != nil && shared {
			failed = append(failed, c.describe(shared))
		} else {
			pods[c.pod] = append(pods[c.pod], c)
		}
	}
	var words []string
	for _, pod := range slices.Sorted(maps.Keys(pods)) {
		var failed []string
		for _, c := range pods[pod] {
			if c.err != nil {
				failed = append(failed, c.describe(shared))
				continue
			}
			words = append(append(words, unique(failed)...), c.describe(shared))
			failed = nil
		}
		words = append(words, unique(failed)...)
	}
	return append(words, unique(failed)...)
}

// unique sorts words and removes duplicates.
func unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// TestCallsOfDifferentPodsCommute checks the canonical order of calls.
func TestCallsOfDifferentPodsCommute(t *testing.T) {
	var (
		stage, unstage = call{verb: "MountDevice"}, call{verb: "UnmountDevice"}
		up, down       = call{verb: "SetUp", pod: "a"}, call{verb: "TearDown", pod: "a"}
		other          = call{verb: "SetUp", pod: "b"}
		fails          = call{verb: "SetUp", pod: "a", err: errors.New("full")}
		nodeFails      = call{verb: "MountDevice", err: errors.New("full")}
	)
	tests := []struct {
		name   string
		shared bool
		calls  calls
		want   string
	}{
		{"two pods", false, calls{stage, other, up}, "MountDevice, SetUp a, SetUp b"},
		{"one pod", false, calls{down, up}, "TearDown a, SetUp a"},
		{"one pod and the node", false, calls{up, stage, down, unstage}, "SetUp a, MountDevice, TearDown a, UnmountDevice"},
		{"two pods and the node", false, calls{other, stage, up}, "SetUp b, MountDevice, SetUp a"},
		{"one pod, interleaved with another", false, calls{up, other, down}, "SetUp a, TearDown a, SetUp b"},
		{"repeated failures", false, calls{fails, other, fails, up}, "(SetUp a: full), SetUp a, SetUp b"},
		{"failure after a success", false, calls{fails, up, fails}, "(SetUp a: full), SetUp a, (SetUp a: full)"},
		{"failures of a shared disk", true, calls{fails, other, fails, up, fails}, "SetUp a, SetUp b, (SetUp: full)"},
		{"failures for the node", false, calls{nodeFails, nodeFails, stage, up, nodeFails}, "(MountDevice: full), MountDevice, SetUp a, (MountDevice: full)"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, strings.Join(tt.calls.describe(tt.shared), ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

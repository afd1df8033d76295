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

// calls are the plugin's, for one disk, in their order.
type calls []call

type call struct {
	verb string
	pod  types.UID // "": it is for the node
	err  error
}

func (c call) what() string { return strings.TrimSpace(c.verb + " " + string(c.pod)) }

// word is how the call is told. Of a disk that pods share it is no matter for which of them it failed: upstream tries them in any
// order, and all of them wait when one has failed.
func (c call) word(shared bool) string {
	switch {
	case c.err == nil:
		return c.what()
	case shared:
		return "(" + c.verb + ": " + c.err.Error() + ")"
	default:
		return "(" + c.what() + ": " + c.err.Error() + ")"
	}
}

// words are the calls in the one order that stands for all in which they might as well have been made. What is done for one pod
// commutes with what is done for another, and with nothing that is done for the node. Of what failed between two calls that
// succeeded, each is told once.
func (all calls) words(shared bool) []string {
	var words []string
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(c call) bool { return c.pod == "" && c.err == nil })
		if n < 0 {
			n = len(all)
		}
		words = append(words, all[:n].ofPods(shared)...)
		if n < len(all) {
			words, n = append(words, all[n].word(shared)), n+1
		}
		all = all[n:]
	}
	return words
}

// ofPods are the words of calls between two that succeeded for the node, pod by pod; then those of what failed for the node.
func (all calls) ofPods(shared bool) []string {
	pods := map[types.UID]calls{}
	var failed []string
	for _, c := range all {
		if c.pod == "" || c.err != nil && shared {
			failed = append(failed, c.word(shared))
		} else {
			pods[c.pod] = append(pods[c.pod], c)
		}
	}
	var words []string
	for _, pod := range slices.Sorted(maps.Keys(pods)) {
		var failed []string
		for _, c := range pods[pod] {
			if c.err != nil {
				failed = append(failed, c.word(shared))
				continue
			}
			words = append(append(words, once(failed)...), c.word(shared))
			failed = nil
		}
		words = append(words, once(failed)...)
	}
	return append(words, once(failed)...)
}

// once has each word once, sorted.
func once(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// TestWordsOfCalls: calls for different pods commute, and no others do.
func TestWordsOfCalls(t *testing.T) {
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
		{"of two pods", false, calls{stage, other, up}, "MountDevice, SetUp a, SetUp b"},
		{"of one pod", false, calls{down, up}, "TearDown a, SetUp a"},
		{"of a pod and the node", false, calls{up, stage, down, unstage}, "SetUp a, MountDevice, TearDown a, UnmountDevice"},
		{"of two pods and the node", false, calls{other, stage, up}, "SetUp b, MountDevice, SetUp a"},
		{"of one pod beside another's", false, calls{up, other, down}, "SetUp a, TearDown a, SetUp b"},
		{"failures, often", false, calls{fails, other, fails, up}, "(SetUp a: full), SetUp a, SetUp b"},
		{"failures again", false, calls{fails, up, fails}, "(SetUp a: full), SetUp a, (SetUp a: full)"},
		{"failures, of a disk that is shared", true, calls{fails, other, fails, up, fails}, "SetUp a, SetUp b, (SetUp: full)"},
		{"failures of the node", false, calls{nodeFails, nodeFails, stage, up, nodeFails}, "(MountDevice: full), MountDevice, SetUp a, (MountDevice: full)"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, strings.Join(tt.calls.words(tt.shared), ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

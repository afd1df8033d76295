package attachdetach_test

import (
	"testing"

	"github.com/volsim/volsim/internal/casefile"
)

// TestMalformedCasesAreReported has cases that are malformed or fail, each with its error and
// position.
func TestMalformedCasesAreReported(t *testing.T) {
	t.Parallel()
	const pod = "before\n  node n1\n  disk v1\n  pod p n1 claims=v1\n"
	tests := []casefile.Defect{
		{"head", "=== 1 one\nbefore\nsink node n1\n", `f.txt:3: unexpected paragraph "sink node n1"`},
		{"kind", "=== 1 one\nbefore\n  cloud c\nsettle\n", `f.txt:3: "cloud c": want node NAME`},
		{"too little", "=== 1 one\nbefore\n  pod p\nsettle\n", `f.txt:3: "pod p": want node NAME`},
		{"word of a node", "=== 1 one\nbefore\n  node n big\nsettle\n", `f.txt:3: node n: unknown word "big"`},
		{"word of a volume", "=== 1 one\nbefore\n  disk v big\nsettle\n", `f.txt:3: volume v: unknown word "big"`},
		{"word of a claim", "=== 1 one\nbefore\n  claim c Bound big\nsettle\n", `f.txt:3: claim c: unknown word "big"`},
		{"word of a pod", "=== 1 one\nbefore\n  pod p n big=1\nsettle\n", `f.txt:3: pod p: unknown word "big=1"`},
		{
			"word of an attachment", "=== 1 one\nbefore\n  attachment v n big\nsettle\n",
			`f.txt:3: attachment v n: unknown word "big"`,
		},
		{"word of a driver", "=== 1 one\nbefore\n  driver big\nsettle\n", `f.txt:3: driver: unknown word "big"`},
		{
			"order of words", "=== 1 one\nbefore\n  node n in-use=v attached=v\nsettle\n",
			`f.txt:3: "node n in-use=v attached=v": write it as`,
		},
		{"object exists twice", "=== 1 one\nbefore\n  node n\n  node n\nsettle\n", `nodes "n" already exists`},
		{"duration", "=== 1 one\nwait long\n", `f.txt:2: time: invalid duration`},
		{"call", "=== 1 one\nattacher\n  mount v n -> ok\nsettle\n", `f.txt:3: want attach VOLUME NODE -> ANSWER`},
		{"answer", "=== 1 one\nattacher\n  attach v n -> maybe\nsettle\n", `f.txt:3: "maybe": want ok`},
		{"missing object", "=== 1 one\ndelete pod p\nsettle\n", `f.txt:2: pods "p" not found`},
		{"set a missing object", "=== 1 one\nset node n\nsettle\n", `f.txt:2: there is no nodes n`},
		{"nothing to relist", "=== 1 one\nrelist pods\nsettle\n", `f.txt:2: the cache of pods is not stale`},
		{
			"unused line of the attacher", "=== 1 one\nattacher\n  attach v n -> ok\nsettle\n",
			`f.txt:3: the attacher did not make this call`,
		},
		{
			"no such request to fail", "=== 1 one\nfail get node n1 2 times: no\nsettle\n",
			`f.txt:2: faults not injected: 2`,
		},
		{
			"no such request to wait for", "=== 1 one\nwhen get node n1\n  delete pod p\nsettle\n",
			`f.txt:2: there was no such request`,
		},
		{
			"attached to two nodes", "=== 1 one\nbefore\n  node n1 in-use=v\n  node n2 in-use=v\n  disk v\n  attachment v n1 attached\n  attachment v n2\nsettle\n",
			"v is attached to n2 while it is attached to n1",
		},
		{
			"detached from a node that uses it", "=== 1 one\n" + pod +
				"when delete attachment v1 n1\n  set node n1 in-use=v1\nsettle\ndelete pod p\nsettle\n",
			"v1 is detached from n1, which is ready and uses it",
		},
		{
			"detached from a node with it in its status", "=== 1 one\n" + pod +
				"when delete attachment v1 n1\n  set node n1 attached=v1\nsettle\ndelete pod p\nsettle\n",
			"v1 is detached from n1, whose status lists it as attached",
		},
	}
	book.TestDefects(t, tests)
}

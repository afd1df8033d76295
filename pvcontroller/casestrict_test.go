package pvcontroller

import (
	"testing"

	"github.com/volsim/volsim/internal/casefile"
)

// TestMalformedCasesAreReported has cases that are malformed or fail, each with its error and
// position.
func TestMalformedCasesAreReported(t *testing.T) {
	const volume = "before\n  volume v 1Gi Bound Delete claimRef=c/u\n"
	tests := []casefile.Defect{
		{"head", "=== 1 one\nbefore\nsink claim c\n", `f.txt:3: unexpected paragraph "sink claim c"`},
		{"kind", "=== 1 one\nbefore\n  disk d\nsettle\n", `f.txt:3: "disk d": want volume NAME SIZE PHASE`},
		{
			"word", "=== 1 one\nbefore\n  volume v 1Gi Available green\nsettle\n",
			`f.txt:3: volume v: unknown word "green"`,
		},
		{
			"word of a claim", "=== 1 one\nbefore\n  claim c 1Gi Pending uid=u csi=d\nsettle\n",
			`f.txt:3: claim c: unknown word "csi=d"`,
		},
		{
			"status of a claim", "=== 1 one\nbefore\n  claim c 1Gi Bound uid=u has=much\nsettle\n",
			`f.txt:3: claim c: unknown word "has=much"`,
		},
		{"size", "=== 1 one\nbefore\n  volume v big Available\nsettle\n", `f.txt:3: size "big"`},
		{
			"order of the words", "=== 1 one\nbefore\n  claim c 1Gi Pending volume=v uid=u\nsettle\n",
			`write it as "claim c 1Gi Pending uid=u volume=v"`,
		},
		{
			"quotes", "=== 1 one\nbefore\n  volume v 1Gi Failed message=\"no end\nsettle\n",
			`f.txt:3: message: unterminated quote`,
		},
		{"no steps", "=== 1 one\nbefore\n", `f.txt:1: case 1 has no steps`},
		{"setup after acts", "=== 1 one\nsettle\nbefore\n", `f.txt:3: unexpected paragraph "before"`},
		{"paragraph outside of a case", "settle\n", `f.txt:1: unexpected paragraph "settle"`},
		{
			"object exists twice", "=== 1 one\nbefore\n  node n\n  node n\nsettle\n",
			`f.txt:4: object 0: nodes "n" already exists`,
		},
		{"script", "=== 1 one\nplugin\n  delete v -> maybe\nsettle\n", `f.txt:3: want CALL -> ok`},
		{"missing object", "=== 1 one\ndelete claim c\n", `f.txt:2: persistentvolumeclaims "c" not found`},
		{
			"unused line of the plugin", "=== 1 one\nplugin\n  delete v -> ok\nsettle\n",
			`f.txt:3: the plugin was not called`,
		},
		{
			"other call of the plugin", "=== 1 one\nplugin\n  recycle v -> ok\n" + volume + "sync volume v\n",
			`f.txt:3: the plugin is asked: delete v`,
		},
		{
			"extra call of the plugin", "=== 1 one\nplugin\n" + volume + "sync volume v\n",
			`the plugin is asked: delete v`,
		},
		{
			"no such request to fail", "=== 1 one\nfail get claim c 2 times: no\n" + volume + "sync volume v\n",
			`f.txt:2: faults not injected: 1`,
		},
		{
			"no such request to wait for", "=== 1 one\nwhen get claim d\n  delete volume v\n" + volume + "sync volume v\n",
			`f.txt:2: there was no such request`,
		},
	}
	book.TestDefects(t, tests)
}

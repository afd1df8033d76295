package localstorage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
)

// TestClassParameters says what is wrong with the parameters of a class, and where.
func TestClassParameters(t *testing.T) {
	const disks = `[{"node":"node-1","disks":["/dev/sdb","/dev/sdc"]}]`
	for _, test := range []struct {
		name, nodes string
		more        map[string]string
		want        string // of the error; "": none
	}{
		{name: "disks of one node", nodes: disks},
		{name: "strategy and file system", nodes: disks, more: map[string]string{strategyParameter: "binpack", fsTypeParameter: "xfs"}},
		{name: "no parameter", want: `parameter nodes: required, such as [{"node":"node-1","disks":["/dev/sdb"]}]`},
		{name: "unknown parameter", nodes: disks, more: map[string]string{"size": "1"}, want: "parameter size: unknown; there are nodes, strategy and csi.storage.k8s.io/fstype"},
		{name: "unknown strategy", nodes: disks, more: map[string]string{strategyParameter: "both"}, want: `parameter strategy: "both": must be spread or binpack`},
		{name: "no JSON", nodes: `[{"node":`, want: "parameter nodes: byte 9: unexpected EOF"},
		{name: "unknown field", nodes: `[{"node":"a","disk":["/b"]}]`, want: `json: unknown field "disk"`},
		{name: "no list", nodes: `{"node":"a","disks":["/b"]}`, want: "parameter nodes: byte 1: must be a list, not object"},
		{name: "node is a number", nodes: `[{"node":5,"disks":["/b"]}]`, want: "parameter nodes: byte 10: node: must be a string, not number"},
		{name: "disks are a string", nodes: `[{"node":"a","disks":"/b"}]`, want: "disks: must be a list, not string"},
		{name: "names only", nodes: `["a"]`, want: `must be an object such as {"node":"node-1","disks":["/dev/sdb"]}, not string`},
		{name: "null", nodes: `null`, want: "parameter nodes: the list is empty"},
		{name: "two lists", nodes: disks + disks, want: "text after the list"},
		{name: "empty list", nodes: `[]`, want: "parameter nodes: the list is empty"},
		{name: "no node", nodes: `[{"disks":["/b"]}]`, want: "parameter nodes: [0]: node: required"},
		{name: "node twice", nodes: `[{"node":"a","disks":["/b"]},{"node":"a","disks":["/c"]}]`, want: `parameter nodes: [1]: node "a": already in [0]`},
		{name: "no disks", nodes: `[{"node":"a","disks":[]}]`, want: `parameter nodes: [0]: node "a": disks: the list is empty`},
		{name: "disk twice", nodes: `[{"node":"a","disks":["/b","/b"]}]`, want: `[0]: node "a": disks[1]: "/b": already in disks[0]`},
		{name: "relative path", nodes: `[{"node":"a","disks":["b"]}]`, want: `disks[0]: "b": must be an absolute path without dots`},
		{name: "dots", nodes: `[{"node":"a","disks":["/dev/../etc"]}]`, want: `"/dev/../etc": must be an absolute path without dots`},
	} {
		t.Run(test.name, func(t *testing.T) {
			class := &storagev1.StorageClass{Parameters: map[string]string{}}
			for name, value := range test.more {
				class.Parameters[name] = value
			}
			if test.nodes != "" {
				class.Parameters[nodesParameter] = test.nodes
			}
			got, err := parseClass(class)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v\nwant %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"/dev/sdb", "/dev/sdc"}, got.disksOf("node-1")); diff != "" || got.disksOf("node-2") != nil {
				t.Errorf("disks (-want +got):\n%s", diff)
			}
			if got.binPack != (test.more != nil) || (got.fsType == "xfs") != (test.more != nil) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

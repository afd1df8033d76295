package provisioner

import (
	"testing"

	"k8s.io/utils/ptr"
)

// TestGrantAllows has the rows of upstream's TestIsGranted, and the grants of its
// TestProvisionFromSnapshot and TestProvisionFromPVC.
func TestGrantAllows(t *testing.T) {
	const group = "snapshot.storage.k8s.io"
	from := grantFrom{Kind: claimKind, Namespace: "apps"}
	snapshots := grantTo{Group: group, Kind: snapshotKind}
	named := func(to grantTo, name string) grantTo { to.Name = ptr.To(name); return to }
	snapshot := dataSource{group: group, kind: snapshotKind, namespace: "backup", name: "daily"}
	claim := dataSource{kind: claimKind, namespace: "backup", name: "daily"}
	for _, test := range []struct {
		name   string
		from   []grantFrom
		to     []grantTo
		source dataSource
		want   bool
	}{
		{"all of a kind", []grantFrom{from}, []grantTo{snapshots}, snapshot, true},
		{"by name", []grantFrom{from}, []grantTo{named(snapshots, "daily")}, snapshot, true},
		{"an empty name is all", []grantFrom{from}, []grantTo{named(snapshots, "")}, snapshot, true},
		{"a claim", []grantFrom{from}, []grantTo{{Kind: claimKind}}, claim, true},
		{"several", []grantFrom{{Group: "apps", Kind: "Deployment", Namespace: "apps"}, from}, []grantTo{{Kind: claimKind}, snapshots}, snapshot, true},
		{"none", nil, nil, snapshot, false},
		{"no target", []grantFrom{from}, nil, snapshot, false},
		{"no origin", nil, []grantTo{snapshots}, snapshot, false},
		{"wrong group of the origin", []grantFrom{{Group: "wrong", Kind: claimKind, Namespace: "apps"}}, []grantTo{snapshots}, snapshot, false},
		{"wrong kind of the origin", []grantFrom{{Kind: "Pod", Namespace: "apps"}}, []grantTo{snapshots}, snapshot, false},
		{"wrong namespace of the origin", []grantFrom{{Kind: claimKind, Namespace: "wrong"}}, []grantTo{snapshots}, snapshot, false},
		{"wrong group of the target", []grantFrom{from}, []grantTo{{Group: "wrong", Kind: snapshotKind}}, snapshot, false},
		{"wrong group of a claim", []grantFrom{from}, []grantTo{{Group: "wrong", Kind: claimKind}}, claim, false},
		{"wrong kind of the target", []grantFrom{from}, []grantTo{{Group: group, Kind: claimKind}}, snapshot, false},
		{"wrong name of the target", []grantFrom{from}, []grantTo{named(snapshots, "weekly")}, snapshot, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			grant := referenceGrant{}
			grant.Spec.From, grant.Spec.To = test.from, test.to
			if got := grant.allows("apps", &test.source); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

package snapshotapi_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/snapshotapi"
)

func TestSecretReference(t *testing.T) {
	name, namespace := snapshotapi.SnapshotterSecret.NameKey(), snapshotapi.SnapshotterSecret.NamespaceKey()
	values := map[string]string{"volumesnapshotcontent.name": "content", "volumesnapshot.namespace": "ns", "volumesnapshot.name": "snap"}
	const both = "failed to get name and namespace template from params: "
	for title, test := range map[string]struct {
		parameters map[string]string
		want       *corev1.SecretReference
		err        string
	}{
		"none":         {},
		"no name":      {map[string]string{namespace: "foo"}, nil, both + "either name and namespace for Snapshotter secrets specified, Both must be specified"},
		"no namespace": {map[string]string{name: "foo"}, nil, both + "either name and namespace for Snapshotter secrets specified, Both must be specified"},
		"empty name": {
			map[string]string{name: "", namespace: "foo"},
			nil,
			both + "Snapshotter secrets specified in parameters but value of either namespace or name is empty",
		},
		"valid":                  {map[string]string{name: "name", namespace: "ns"}, &corev1.SecretReference{Name: "name", Namespace: "ns"}, ""},
		"invalid name":           {map[string]string{name: "bad name", namespace: "ns"}, nil, `"bad name" is not a valid secret name`},
		"invalid namespace":      {map[string]string{name: "name", namespace: "n.s"}, nil, `"n.s" is not a valid namespace name`},
		"invalid resolved name":  {map[string]string{name: "${volumesnapshot.name}_", namespace: "ns"}, nil, `"${volumesnapshot.name}_" resolved to "snap_" which is not a valid secret name`},
		"templates":              {map[string]string{name: "a-${volumesnapshotcontent.name}-${volumesnapshot.name}", namespace: "b-${volumesnapshot.namespace}"}, &corev1.SecretReference{Name: "a-content-snap", Namespace: "b-ns"}, ""},
		"unknown tokens":         {map[string]string{name: "a-${z}-${volumesnapshot.annotations['akey']}-$z", namespace: "ns"}, nil, `error resolving value "a-${z}-${volumesnapshot.annotations['akey']}-$z": invalid tokens: ["volumesnapshot.annotations['akey']" "z"]`},
		"a name as a namespace":  {map[string]string{name: "name", namespace: "${volumesnapshot.name}"}, nil, `error resolving value "${volumesnapshot.name}": invalid tokens: ["volumesnapshot.name"]`},
		"that of another secret": {map[string]string{snapshotapi.SnapshotterListSecret.NameKey(): "name"}, nil, ""},
	} {
		t.Run(title, func(t *testing.T) {
			forNamespace := maps.Clone(values)
			delete(forNamespace, "volumesnapshot.name")
			got, err := snapshotapi.SnapshotterSecret.Reference(test.parameters, values, forNamespace)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" || text != test.err {
				t.Errorf("reference (-want +got):\n%s\nerror %q, want %q", diff, text, test.err)
			}
		})
	}
}

func TestDriverParameters(t *testing.T) {
	all := map[string]string{}
	for _, secret := range []snapshotapi.Secret{
		snapshotapi.SnapshotterSecret, snapshotapi.SnapshotterListSecret, snapshotapi.GroupSnapshotterSecret, snapshotapi.GroupGetSecret,
	} {
		all[secret.NameKey()], all[secret.NamespaceKey()] = "a", "b"
	}
	for title, test := range map[string]struct {
		parameters, want map[string]string
		err              string
	}{
		"no prefix":    {map[string]string{"csiFoo": "bar", "bim": "baz"}, map[string]string{"csiFoo": "bar", "bim": "baz"}, ""},
		"one prefixed": {map[string]string{snapshotapi.SnapshotterSecret.NameKey(): "bar", "bim": "baz"}, map[string]string{"bim": "baz"}, ""},
		"all secrets":  {all, map[string]string{}, ""},
		"unknown": {
			map[string]string{"csi.storage.k8s.io/bim": "baz", "csi.storage.k8s.io/a": ""},
			nil,
			`found unknown parameter key "csi.storage.k8s.io/a" with reserved namespace csi.storage.k8s.io/`,
		},
		"empty": {map[string]string{}, map[string]string{}, ""},
	} {
		t.Run(title, func(t *testing.T) {
			got, err := snapshotapi.DriverParameters(test.parameters)
			if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("parameters (-want +got):\n%s\nerror %v, want %q", diff, err, test.err)
			}
		})
	}
	if key := snapshotapi.GroupGetSecret.NameKey(); !strings.HasSuffix(key, "/group-snapshotter-get-secret-name") {
		t.Errorf("key %q", key)
	}
}

// TestOwningGroup has snapshots with and without a group.
func TestOwningGroup(t *testing.T) {
	group := &snapshotapi.VolumeGroupSnapshot{}
	group.Name, group.UID = "all", "u"
	other := group.OwnerReference()
	other.APIVersion = "groupsnapshot.storage.k8s.io/v1beta1"
	kind := group.OwnerReference()
	kind.Kind = "VolumeSnapshot"
	member := &snapshotapi.VolumeSnapshot{}
	member.OwnerReferences = append(member.OwnerReferences, other, kind, group.OwnerReference())
	if name, uid := member.OwningGroup(); name != "all" || uid != "u" || !member.IsMember() {
		t.Errorf("owned by %q, %q", name, uid)
	}
	member.OwnerReferences = member.OwnerReferences[:2]
	var none *snapshotapi.VolumeSnapshot
	if member.IsMember() || none.IsMember() || none.GroupName() != "" || member.GroupName() != "" {
		t.Error("a snapshot with other owners, or none at all, is a member")
	}
}

package provisioner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSecretReference has the rows of upstream's table of that name.
func TestSecretReference(t *testing.T) {
	const old, key = "csiNodePublishSecret", "csi.storage.k8s.io/node-publish-secret-"
	const oldProvisioner, provisioner = "csiProvisionerSecret", "csi.storage.k8s.io/provisioner-secret-"
	type params = map[string]string
	data := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "data", Annotations: params{"akey": "avalue"},
	}}
	for _, test := range []struct {
		name   string
		kind   secretKind
		params params
		want   *corev1.SecretReference
		err    string
	}{
		{name: "no params", kind: nodePublishSecret},
		{
			name: "empty", kind: nodePublishSecret, params: params{old + "Name": "", old + "Namespace": ""},
			err: "failed to get name and namespace template from params: NodePublish secrets specified in parameters " +
				"but value of either namespace or name is empty",
		},
		{
			name: "old name, no namespace", kind: nodePublishSecret, params: params{old + "Name": "foo"},
			err: "failed to get name and namespace template from params: either name and namespace for NodePublish secrets specified, " +
				"Both must be specified",
		},
		{
			name: "name, no namespace", kind: nodePublishSecret, params: params{key + "name": "foo"},
			err: "failed to get name and namespace template from params: either name and namespace for NodePublish secrets specified, " +
				"Both must be specified",
		},
		{
			name: "old namespace, no name", kind: nodePublishSecret, params: params{old + "Namespace": "foo"},
			err: "failed to get name and namespace template from params: either name and namespace for NodePublish secrets specified, " +
				"Both must be specified",
		},
		{
			name: "namespace, no name", kind: nodePublishSecret, params: params{key + "namespace": "foo"},
			err: "failed to get name and namespace template from params: either name and namespace for NodePublish secrets specified, " +
				"Both must be specified",
		},
		{
			name: "old keys", kind: nodePublishSecret, params: params{old + "Name": "name", old + "Namespace": "ns"},
			want: &corev1.SecretReference{Namespace: "ns", Name: "name"},
		},
		{
			name: "old and new keys", kind: nodePublishSecret,
			params: params{old + "Name": "name", old + "Namespace": "ns", key + "name": "name", key + "namespace": "ns"},
			err: "failed to get name and namespace template from params: NodePublish secrets specified in parameters with both \"csi\" and " +
				"\"csi.storage.k8s.io/\" keys",
		},
		{
			name: "old and new names", kind: nodePublishSecret,
			params: params{old + "Name": "name", old + "Namespace": "ns", key + "name": "name"},
			err: "failed to get name and namespace template from params: NodePublish secrets specified in parameters with both \"csi\" and " +
				"\"csi.storage.k8s.io/\" keys",
		},
		{
			name: "old and new namespaces", kind: nodePublishSecret,
			params: params{old + "Name": "name", old + "Namespace": "ns", key + "namespace": "ns"},
			err: "failed to get name and namespace template from params: NodePublish secrets specified in parameters with both \"csi\" and " +
				"\"csi.storage.k8s.io/\" keys",
		},
		{
			name: "old name, new namespace", kind: nodePublishSecret, params: params{old + "Name": "name", key + "namespace": "ns"},
			want: &corev1.SecretReference{Namespace: "ns", Name: "name"},
		},
		{
			name: "new keys", kind: nodePublishSecret, params: params{key + "name": "name", key + "namespace": "ns"},
			want: &corev1.SecretReference{Namespace: "ns", Name: "name"},
		},
		{
			name: "of the provisioner", kind: provisionerSecret, params: params{oldProvisioner + "Name": "name", oldProvisioner + "Namespace": "ns"},
			want: &corev1.SecretReference{Namespace: "ns", Name: "name"},
		},
		{
			name: "of the provisioner, not the claim's", kind: provisionerSecret,
			params: params{oldProvisioner + "Name": "param-name", oldProvisioner + "Namespace": "param-ns"},
			want:   &corev1.SecretReference{Namespace: "param-ns", Name: "param-name"},
		},
		{
			name: "invalid name", kind: nodePublishSecret, params: params{old + "Name": "bad name", old + "Namespace": "ns"},
			err: `"bad name" is not a valid secret name`,
		},
		{
			name: "invalid namespace", kind: nodePublishSecret, params: params{old + "Name": "name", old + "Namespace": "bad ns"},
			err: `"bad ns" is not a valid namespace name`,
		},
		{
			name: "template without namespace", kind: provisionerSecret,
			params: params{provisioner + "name": "static-${pv.name}-${pvc.namespace}-${pvc.name}-${pvc.annotations['akey']}"},
			err: "failed to get name and namespace template from params: either name and namespace for Provisioner secrets specified, " +
				"Both must be specified",
		},
		{
			name: "annotations in the name", kind: provisionerSecret,
			params: params{provisioner + "namespace": "static-${pvc.namespace}", provisioner + "name": "static-${pvc.name}-${pvc.annotations['akey']}"},
			want:   &corev1.SecretReference{Namespace: "static-ns", Name: "static-data-avalue"},
		},
		{
			name: "all tokens", kind: nodePublishSecret,
			params: params{
				old + "Name":      "static-${pv.name}-${pvc.namespace}-${pvc.name}-${pvc.annotations['akey']}",
				old + "Namespace": "static-${pv.name}-${pvc.namespace}",
			},
			want: &corev1.SecretReference{Namespace: "static-pv-ns", Name: "static-pv-ns-data-avalue"},
		},
		{
			name: "all tokens for the provisioner", kind: provisionerSecret,
			params: params{
				oldProvisioner + "Name":      "static-provisioner-${pv.name}-${pvc.namespace}-${pvc.name}",
				oldProvisioner + "Namespace": "static-provisioner-${pv.name}-${pvc.namespace}",
			},
			want: &corev1.SecretReference{Namespace: "static-provisioner-pv-ns", Name: "static-provisioner-pv-ns-data"},
		},
		{
			name: "the claim's name", kind: provisionerSecret, params: params{oldProvisioner + "Name": "${pvc.name}", oldProvisioner + "Namespace": "other"},
			want: &corev1.SecretReference{Namespace: "other", Name: "data"},
		},
		{
			name: "the claim's name and namespace", kind: provisionerSecret,
			params: params{oldProvisioner + "Name": "${pvc.name}", oldProvisioner + "Namespace": "${pvc.namespace}"},
			want:   &corev1.SecretReference{Namespace: "ns", Name: "data"},
		},
		{
			name: "the claim's namespace", kind: provisionerSecret,
			params: params{oldProvisioner + "Name": "static-name-1", oldProvisioner + "Namespace": "${pvc.namespace}"},
			want:   &corev1.SecretReference{Namespace: "ns", Name: "static-name-1"},
		},
		{
			name: "unknown token in the namespace", kind: nodePublishSecret, params: params{old + "Name": "myname", old + "Namespace": "mynamespace${bar}"},
			err: `error resolving value "mynamespace${bar}": invalid tokens: ["bar"]`,
		},
		{
			name: "unknown token in the name", kind: nodePublishSecret, params: params{old + "Name": "myname${foo}", old + "Namespace": "mynamespace"},
			err: `error resolving value "myname${foo}": invalid tokens: ["foo"]`,
		},
		// Not in upstream's table.
		{
			name: "the claim's name in the namespace", kind: provisionerSecret,
			params: params{provisioner + "name": "name", provisioner + "namespace": "${pvc.name}"},
			err:    `error resolving value "${pvc.name}": invalid tokens: ["pvc.name"]`,
		},
		{
			name: "default", kind: nodeExpandSecret,
			params: params{"csi.storage.k8s.io/secret-name": "name", "csi.storage.k8s.io/secret-namespace": "ns"},
			want:   &corev1.SecretReference{Namespace: "ns", Name: "name"},
		},
		{
			name: "half a default", kind: nodeExpandSecret, params: params{"csi.storage.k8s.io/secret-name": "name"},
			err: "failed to get default name and namespace template from params: either name and namespace for Default secrets specified, " +
				"Both must be specified",
		},
		{
			name: "resolved to an invalid name", kind: nodePublishSecret,
			params: params{key + "name": "a ${pvc.name}", key + "namespace": "ns"}, err: `"a ${pvc.name}" resolved to "a data" which is not a valid secret name`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := secretReference(test.kind, test.params, "pv", &data)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != test.err {
				t.Errorf("error %q, want %q", message, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("reference (-want +got):\n%s", diff)
			}
		})
	}
}

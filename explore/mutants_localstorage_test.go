package explore_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// localStorageMutants are defects of dynamic local storage. TestSelectedAgainIsFound has that of I62.
var localStorageMutants = []mutant{
	{
		name: "a PersistentVolume names another node", rule: "I59",
		scenario: "rules: I59\n" + boundLocalVolume, between: client("localstorage", namesNode2), config: holds, within: 1,
	},
	{
		name: "the record of a group lacks its volumes", rule: "I60",
		scenario: "rules: I60\n" + boundLocalVolume, between: client("localstorage", reportsNoVolumes), config: holds, within: 1,
	},
	{
		name: "the free space of a group is never reported again", rule: "I60",
		scenario: "rules: I60\n" + boundLocalVolume, between: client("localstorage", reportsSpace), config: holds, within: 1,
	},
	{
		name: "the record of a full node shows space", rule: "I61",
		scenario: "rules: I61\n" + fullNodeWorld, between: client("localstorage", reportsSpace), config: holds, within: 20,
	},
	{
		name: "a claim gets no notice of more space", rule: "L16",
		scenario: "rules: L16\n" + strings.Replace(lateDiskWorld, "  wait pod web Running\n", "", 1),
		between:  client("localstorage", patchesNoClaims), config: holds, within: 1,
	},
}

// boundLocalVolume is localStorageWorld until the claim is bound, without its pod.
var boundLocalVolume = localStorageWorld[:strings.Index(localStorageWorld, "  wait pod web Running\n")] + "  wait claim data Bound\n  delete pod web\n"

// namesNode2 lets managers create PersistentVolumes of node-2.
func namesNode2(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if v, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "create" {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"node-2"}
		}
		return serve()
	}
}

// reportsNoVolumes lets managers leave the volumes out of their records.
func reportsNoVolumes(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if obj, is := r.Body.(*fake.CustomObject); is {
			unstructured.RemoveNestedField(obj.Content, "status", "volumes")
		}
		return serve()
	}
}

// reportsSpace lets managers report that there is space, whatever there is.
func reportsSpace(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if obj, is := r.Body.(*fake.CustomObject); is && obj.Content["status"] != nil {
			_ = unstructured.SetNestedField(obj.Content, "60Mi", "status", "free")
		}
		return serve()
	}
}

// patchesNoClaims lets the component that serves the extender annotate no claims.
func patchesNoClaims(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Resource.Resource == "persistentvolumeclaims" && r.Verb == "patch" {
			return nil, nil
		}
		return serve()
	}
}

package explore_test

import (
	"context"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// modifies is a claim that gets a class.
const modifies = `components: pvcontroller, provisioner, resizer
user alice
  apply
    apiVersion: storage.k8s.io/v1
    kind: VolumeAttributesClass
    metadata: {name: gold}
    driverName: array.csi.volsim.dev
    parameters: {iops: "3000"}
  create claim data 1Gi
  wait claim data Bound
  patch claim data spec.volumeAttributesClassName=gold
`

// attributesMutants are defects of the modification of volumes.
var attributesMutants = []mutant{
	{
		name: "a driver reports success and does not modify the volume", rule: "I63",
		scenario: modifies, between: driver("resizer", modifiesNothing), config: holds, within: 1,
	},
	{
		name: "a volume is modified to another class than that in the claim's status", rule: "I63",
		history:  "#514, PR #512 of external-resizer",
		scenario: modifies, between: driver("resizer", modifiesToAnother), config: holds, within: 1,
	},
	{
		name: "a volume is modified before the claim's status says so", rule: "I63",
		scenario: modifies, between: client("resizer", swallowsClaims("is in progress.")), config: holds, within: 1,
	},
	{
		name: "the class is not written to the volume", rule: "I63",
		scenario: modifies, between: client("resizer", swallowsVolumes), config: holds, within: 1,
	},
	{
		name: "the end of a modification is not written to the claim's status", rule: "L18",
		scenario: modifies, between: client("resizer", swallowsClaims(`"currentVolumeAttributesClassName"`)), config: holds, within: 1,
	},
}

// modifiesNothing answers ControllerModifyVolume without a call.
func modifiesNothing() invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if method == csispec.Controller_ControllerModifyVolume_FullMethodName {
			return nil
		}
		return invoke(ctx, method, args, reply)
	}
}

// modifiesToAnother changes the parameters of a class.
func modifiesToAnother() invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if r, is := args.(*csispec.ControllerModifyVolumeRequest); is {
			args = &csispec.ControllerModifyVolumeRequest{VolumeId: r.GetVolumeId(), MutableParameters: map[string]string{"iops": "1"}}
		}
		return invoke(ctx, method, args, reply)
	}
}

// swallowsClaims skips the patches of claims' status that contain a text, and treats them as done.
func swallowsClaims(text string) func(own *fake.Clientset) fake.InterceptorFunc {
	return func(own *fake.Clientset) fake.InterceptorFunc {
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if !asks(r, "patch", "persistentvolumeclaims/status") || !strings.Contains(string(r.Patch), text) {
				return serve()
			}
			return given(own.CoreV1().PersistentVolumeClaims(r.Namespace).Get(context.Background(), r.Name, metav1.GetOptions{}))
		}
	}
}

// swallowsVolumes skips the patches of volumes, and treats them as done.
func swallowsVolumes(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "patch", "persistentvolumes") {
			return serve()
		}
		return given(own.CoreV1().PersistentVolumes().Get(context.Background(), r.Name, metav1.GetOptions{}))
	}
}

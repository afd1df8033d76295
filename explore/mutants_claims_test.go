package explore_test

import (
	"context"
	"slices"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/fake"
)

var (
	holds    = explore.Config{Strategy: explore.Holds}
	twoHolds = explore.Config{Strategy: explore.Holds, Depth: 2}
	faults   = explore.Config{Strategy: explore.Faults}
)

// claimMutants are about claims and volumes.
var claimMutants = []mutant{
	{
		name: "a claimRef without a UID is always completed", rule: "I1",
		scenario: `
nodes: 1
user alice
  create claim data 1Gi
  create pod web data
  wait pod web Running
`,
		extra:   twinMaker,
		between: updates("pvcontroller", "status", reserveWhatever),
		config:  holds, within: 1,
	},
	{
		name: "claims are identified by name instead of UID", rule: "I2", history: "kubernetes#23615",
		scenario: `
components: pvcontroller, pvcprotection
user alice
  create volume v1 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
  create claim data 1Gi class=
`,
		between: updates("pvcontroller", "status", inherit),
		config:  holds, within: 8, crowd: 16,
	},
	{
		name: "a conflicting update is forced without reconciling again", rule: "I2", history: "origin#4829",
		scenario: `
components: pvcontroller
user alice
  let replicate pvcontroller
  create claim c1 1Gi class=
  create claim c2 2Gi class=
  create volume v1 2Gi
`,
		between: updates("pvcontroller", "", overcome),
		config:  holds, within: 40, crowd: 58,
	},
	{
		name: "the claim is updated before the volume", rule: "I3", history: "kubernetes#24331",
		scenario: oneClaim,
		between:  client("pvcontroller", claimFirst),
		config:   holds, within: 1,
	},
	{
		name: "the bind-completed annotation is missing", rule: "I4", history: "kubernetes#24331",
		scenario: oneClaim,
		between: updates("pvcontroller", "", func(_ *fake.Clientset, claim *corev1.PersistentVolumeClaim, send send[*corev1.PersistentVolumeClaim]) (*corev1.PersistentVolumeClaim, error) {
			delete(claim.Annotations, storagehelpers.AnnBindCompleted)
			return send(claim)
		}),
		config: holds, within: 1,
	},
	{
		name: "the first volume by name is chosen, whatever its size", rule: "I5",
		scenario: `
components: pvcontroller
user alice
  create volume v1 1Gi
  create volume v2 2Gi
  create claim data 2Gi class=
`,
		between: updates("pvcontroller", "", takeFirst),
		config:  holds, within: 1,
	},
	{
		name: "a volume is bound without a resourceVersion precondition", rule: "I5",
		scenario: `
components: pvcontroller, pvprotection
ends: differ
user alice
  create volume v1 1Gi
  create claim data 1Gi class=
  delete volume v1
`,
		between: updates("pvcontroller", "", func(_ *fake.Clientset, v *corev1.PersistentVolume, send send[*corev1.PersistentVolume]) (*corev1.PersistentVolume, error) {
			v.ResourceVersion = ""
			return send(v)
		}),
		config: twoHolds, within: 320,
	},
	knownMutant("a restarted controller starts with an empty volume cache", "kubernetes-48081"),
	{
		name: "a claim is bound to another volume than it names", rule: "I7",
		scenario: `
components: pvcontroller
user alice
  create volume v1 1Gi
  create volume v2 1Gi
  create claim data 1Gi class= volume=v1
`,
		between: updates("pvcontroller", "", replace),
		config:  holds, within: 1,
	},
	knownMutant("a claim missing from the cache is not read from the API server", "kubernetes-66287"),
	{
		name: "the driver deletes an additional volume", rule: "I8",
		scenario: `
components: pvcontroller, pvcprotection, pvprotection, provisioner
user alice
  create claim data 1Gi
  create claim other 1Gi
  wait claim other Bound
  wait claim data Bound
  delete claim data
`,
		between: driver("provisioner", deleteOlder),
		config:  holds, within: 1,
	},
	{
		name: "a claim whose name is in the cache is not read from the API server", rule: "I8",
		history: "kubernetes#105131, kubernetes#142332",
		scenario: `
components: pvcontroller, pvcprotection
faults: crash(pvcontroller, 1)
ends: differ
user alice
  create claim data 1Gi class=
  delete claim data
  create claim data 1Gi class=
  create volume v1 1Gi
`,
		between: knownMutant("", "kubernetes-66287").between,
		config:  faults, within: 520,
	},
	{
		name: "a failed DeleteVolume counts as success", rule: "I9",
		scenario: dynamic + "faults: driver Internal(DeleteVolume, 1)\n" + comesAndGoes,
		between: driver("provisioner", func() invoking {
			return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
				err := invoke(ctx, method, args, reply)
				if _, is := args.(*csispec.DeleteVolumeRequest); is {
					return nil
				}
				return err
			}
		}),
		config: faults, within: 8,
	},
	{
		name: "a volume is deleted without a UID precondition", rule: "I9",
		scenario: `
components: pvcontroller, pvcprotection, pvprotection, provisioner
ends: differ
user alice
  create volume v1 1Gi reclaim=Delete for=data
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
  delete volume v1
  create volume v1 1Gi handle=other
`,
		between: client("provisioner", byNameAlone),
		config:  holds, within: 40,
	},
	{
		name: "a retried CreateVolume uses another name", rule: "I10",
		history:  "external-provisioner#1448, external-provisioner#1469",
		scenario: dynamic + "faults: driver-lost Unavailable(CreateVolume, 1)\n" + comes,
		between:  driver("provisioner", renameRepeated),
		config:   faults, within: 8, crowd: 8,
	},
	{
		name: "a volume is named after its claim's name instead of its UID", rule: "I10",
		scenario: dynamic + comes,
		between: client("provisioner", func(own *fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				v, ok := r.Body.(*corev1.PersistentVolume)
				if !ok || r.Verb != "create" {
					return serve()
				}
				v = v.DeepCopy()
				v.Name = "pvc-" + v.Spec.ClaimRef.Name
				return own.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
			}
		}),
		config: holds, within: 1,
	},
	knownMutant("a driver's timeout counts as a final error", "external-provisioner-131"),
	{
		name: "a volume's phase is written with stale finalizers", rule: "I12",
		scenario: dynamic + comes,
		between: updates("pvcontroller", "status", func(_ *fake.Clientset, v *corev1.PersistentVolume, send send[*corev1.PersistentVolume]) (*corev1.PersistentVolume, error) {
			v.Finalizers = slices.DeleteFunc(v.Finalizers,
				func(f string) bool { return f == "external-provisioner.volume.kubernetes.io/finalizer" })
			return send(v)
		}),
		config: holds, within: 1,
	},
	{
		name: "a provisioned volume has no finalizer", rule: "I12", history: "kubernetes#109330",
		scenario: dynamic + `
user alice
  create claim data 1Gi
  wait claim data Bound
  delete claim data
`,
		extra:   careless,
		between: client("provisioner", withoutFinalizer),
		config:  holds, within: 1,
	},
	{
		name: "the older one of two default classes is assigned", rule: "I13", history: "kubernetes#111467",
		scenario: `
components: pvcontroller, provisioner
ends: differ
user alice
  delete class standard
  create claim data 1Gi
  create class b default=true
  create class a default=true
`,
		between: updates("pvcontroller", "", lastClass),
		config:  holds, within: 8, crowd: 34,
	},
	{
		name: "a write with a lost answer is repeated unconditionally", rule: "I14",
		scenario: `
components: pvcontroller
faults: lost(pvcontroller, 1)
user alice
  create volume v1 1Gi
  create claim data 1Gi class=
`,
		between: updates("pvcontroller", "", func(_ *fake.Clientset, v *corev1.PersistentVolume, send send[*corev1.PersistentVolume]) (*corev1.PersistentVolume, error) {
			written, err := send(v)
			if apierrors.IsTimeout(err) {
				v.ResourceVersion = ""
				return send(v)
			}
			return written, err
		}),
		config: faults, within: 8,
	},
	knownMutant("pods are not listed before the finalizer is removed", "kubernetes-75980").inCrowd(114),
	{
		name: "pods are listed once for several claims", rule: "I28",
		scenario: `
components: pvcontroller, pvcprotection
ends: differ
user alice
  create claim old 1Gi class=
  delete claim old
  create volume v1 1Gi
  create claim data 1Gi class=
  create pod web data on=node-1
  delete claim data
`,
		between: client("pvcprotection", answerPods(func(first *corev1.PodList) *corev1.PodList { return first })),
		config:  holds, within: 72, crowd: 174,
	},
	{
		name: "a claim's phase is not written", rule: "L1",
		scenario: oneClaim,
		between: updates("pvcontroller", "status", func(_ *fake.Clientset, claim *corev1.PersistentVolumeClaim, _ send[*corev1.PersistentVolumeClaim]) (*corev1.PersistentVolumeClaim, error) {
			return claim, nil
		}),
		config: holds, within: 1,
	},
	{
		name: "a live read is served from a cache", rule: "L2",
		scenario: `
components: pvcontroller, pvcprotection
user alice
  create volume v1 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
`,
		between: client("pvcontroller", answerClaims),
		config:  holds, within: 1,
	},
}

// Pieces of scenarios.
const (
	oneClaim = `
components: pvcontroller
user alice
  create volume v1 1Gi
  create claim data 1Gi class=
`
	dynamic = "components: pvcontroller, pvcprotection, pvprotection, provisioner\n"
	comes   = `
user alice
  create claim data 1Gi
`
	comesAndGoes = `
user alice
  create claim data 1Gi
  delete claim data
`
	protected = `
components: pvcontroller, pvcprotection
user alice
  create volume v1 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data on=node-1
  delete claim data
`
)

func none() cluster.Interceptors { return cluster.Interceptors{} }

// send sends an update.
type send[T fake.Object] func(obj T) (T, error)

// updates intercepts a component's updates of claims or volumes. change receives a copy of the
// object that the component sent.
func updates[T fake.Object](component, subresource string,
	mutate func(own *fake.Clientset, obj T, send send[T]) (T, error),
) func() cluster.Interceptors {
	return client(component, func(own *fake.Clientset) fake.InterceptorFunc {
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			body, ok := r.Body.(T)
			if !ok || r.Verb != "update" || r.Subresource != subresource {
				return serve()
			}
			answer, err := mutate(own, body.DeepCopyObject().(T), func(obj T) (T, error) {
				written, err := put(own, subresource, obj)
				sent, _ := written.(T)
				return sent, err
			})
			if err != nil {
				return nil, err
			}
			return answer, nil
		}
	})
}

// put updates a claim or a volume.
func put(own *fake.Clientset, subresource string, obj fake.Object) (fake.Object, error) {
	ctx, options := context.Background(), metav1.UpdateOptions{}
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		if subresource == "status" {
			return own.CoreV1().PersistentVolumes().UpdateStatus(ctx, o, options)
		}
		return own.CoreV1().PersistentVolumes().Update(ctx, o, options)
	case *corev1.PersistentVolumeClaim:
		if subresource == "status" {
			return own.CoreV1().PersistentVolumeClaims(o.Namespace).UpdateStatus(ctx, o, options)
		}
		return own.CoreV1().PersistentVolumeClaims(o.Namespace).Update(ctx, o, options)
	default:
		panic("update of neither a claim nor a volume")
	}
}

// storedClaim returns the stored claim of a claimRef; nil if it does not exist.
func storedClaim(own *fake.Clientset, ref *corev1.ObjectReference) *corev1.PersistentVolumeClaim {
	if ref == nil {
		return nil
	}
	obj, _ := own.Server().Get("persistentvolumeclaims", ref.Namespace, ref.Name)
	claim, _ := obj.(*corev1.PersistentVolumeClaim)
	return claim
}

// reserveWhatever adds the UID of the claim to the claimRef of an Available volume.
func reserveWhatever(own *fake.Clientset, v *corev1.PersistentVolume,
	send send[*corev1.PersistentVolume],
) (*corev1.PersistentVolume, error) {
	claim := storedClaim(own, v.Spec.ClaimRef)
	if v.Status.Phase != corev1.VolumeAvailable || claim == nil || v.Spec.ClaimRef.UID != "" {
		return send(v)
	}
	v.Spec.ClaimRef.UID = claim.UID
	return own.CoreV1().PersistentVolumes().Update(context.Background(), v, metav1.UpdateOptions{})
}

// inherit rebinds a Released volume to the next claim with that name.
func inherit(own *fake.Clientset, v *corev1.PersistentVolume,
	send send[*corev1.PersistentVolume],
) (*corev1.PersistentVolume, error) {
	claim := storedClaim(own, v.Spec.ClaimRef)
	if v.Status.Phase != corev1.VolumeReleased || claim == nil {
		return send(v)
	}
	v.Spec.ClaimRef.UID = claim.UID
	return own.CoreV1().PersistentVolumes().Update(context.Background(), v, metav1.UpdateOptions{})
}

// overcome repeats a conflicting update of a volume's claimRef with the current resourceVersion.
func overcome(own *fake.Clientset, v *corev1.PersistentVolume,
	send send[*corev1.PersistentVolume],
) (*corev1.PersistentVolume, error) {
	written, err := send(v)
	if !apierrors.IsConflict(err) {
		return written, err
	}
	live, err := own.CoreV1().PersistentVolumes().Get(context.Background(), v.Name, metav1.GetOptions{})
	if err != nil || live.Spec.ClaimRef != nil && v.Spec.ClaimRef != nil &&
		live.Spec.ClaimRef.UID == v.Spec.ClaimRef.UID {
		return live, err
	}
	live.Spec.ClaimRef = v.Spec.ClaimRef
	return send(live)
}

// claimFirst delays the update of a volume until the claim has been updated.
func claimFirst(own *fake.Clientset) fake.InterceptorFunc {
	ctx := context.Background()
	var kept *corev1.PersistentVolume
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		switch body := r.Body.(type) {
		case *corev1.PersistentVolume:
			if body.Spec.ClaimRef != nil {
				kept = body.DeepCopy()
				return kept.DeepCopy(), nil
			}
		case *corev1.PersistentVolumeClaim:
			claim, err := serve()
			if kept == nil || err != nil {
				return claim, err
			}
			written, err := own.CoreV1().PersistentVolumes().Update(ctx, kept, metav1.UpdateOptions{})
			if err == nil {
				written.Status = kept.Status
				_, err = own.CoreV1().PersistentVolumes().UpdateStatus(ctx, written, metav1.UpdateOptions{})
			}
			kept = nil
			return claim, err
		}
		return serve()
	}
}

// takeFirst binds the first volume without a claim.
func takeFirst(own *fake.Clientset, v *corev1.PersistentVolume,
	send send[*corev1.PersistentVolume],
) (*corev1.PersistentVolume, error) {
	for _, obj := range own.Server().List("persistentvolumes") {
		if first := obj.(*corev1.PersistentVolume); first.Spec.ClaimRef == nil && v.Spec.ClaimRef != nil {
			first = first.DeepCopy()
			first.Spec.ClaimRef = v.Spec.ClaimRef
			return send(first)
		}
	}
	return send(v)
}

// replace makes a claim name volume v2. It bypasses the API server's validation.
func replace(own *fake.Clientset, claim *corev1.PersistentVolumeClaim,
	_ send[*corev1.PersistentVolumeClaim],
) (*corev1.PersistentVolumeClaim, error) {
	own.Server().UpdateStored("persistentvolumeclaims", claim.Namespace, claim.Name, func(stored fake.Object) fake.Object {
		changed := stored.(*corev1.PersistentVolumeClaim).DeepCopy()
		changed.Spec.VolumeName = "v2"
		return changed
	})
	return own.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(context.Background(),
		claim.Name, metav1.GetOptions{})
}

// lastClass assigns the last default class by name.
func lastClass(own *fake.Clientset, claim *corev1.PersistentVolumeClaim,
	send send[*corev1.PersistentVolumeClaim],
) (*corev1.PersistentVolumeClaim, error) {
	was := storedClaim(own, &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name})
	if was != nil && was.Spec.StorageClassName == nil && claim.Spec.StorageClassName != nil {
		for _, class := range own.Server().List("storageclasses") {
			name := class.GetName()
			claim.Spec.StorageClassName = &name
		}
	}
	return send(claim)
}

// withoutFinalizer creates volumes without the provisioner's finalizer, and never adds it.
func withoutFinalizer(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		switch v, is := r.Body.(*corev1.PersistentVolume); {
		case is && r.Verb == "create":
			v = v.DeepCopy()
			v.Finalizers = nil
			return own.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
		case r.Verb == "patch" && r.Resource.Resource == "persistentvolumes":
			return own.CoreV1().PersistentVolumes().Get(context.Background(), r.Name, metav1.GetOptions{})
		}
		return serve()
	}
}

// byNameAlone deletes without preconditions.
func byNameAlone(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb != "delete" || r.Resource.Resource != "persistentvolumes" {
			return serve()
		}
		return nil, own.CoreV1().PersistentVolumes().Delete(context.Background(), r.Name, metav1.DeleteOptions{})
	}
}

// deleteOlder also deletes the volume that was created first.
func deleteOlder() invoking {
	var made []string
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		err := invoke(ctx, method, args, reply)
		if r, is := reply.(*csispec.CreateVolumeResponse); is && err == nil {
			made = append(made, r.GetVolume().GetVolumeId())
		}
		if r, is := args.(*csispec.DeleteVolumeRequest); is && err == nil {
			for _, id := range made {
				if id != r.GetVolumeId() {
					return invoke(ctx, method, &csispec.DeleteVolumeRequest{VolumeId: id}, reply)
				}
			}
		}
		return err
	}
}

// renameRepeated changes the name in a retried CreateVolume.
func renameRepeated() invoking {
	asked := map[string]bool{}
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if r, is := args.(*csispec.CreateVolumeRequest); is {
			if asked[r.GetName()] {
				args = &csispec.CreateVolumeRequest{
					Name: r.GetName() +
						"-again", CapacityRange: r.GetCapacityRange(), VolumeCapabilities: r.GetVolumeCapabilities(),
				}
			}
			asked[r.GetName()] = true
		}
		return invoke(ctx, method, args, reply)
	}
}

// answerPods lists the pods once and answers further lists with a function of that result.
func answerPods(answer func(first *corev1.PodList) *corev1.PodList) func(*fake.Clientset) fake.InterceptorFunc {
	return func(own *fake.Clientset) fake.InterceptorFunc {
		var first *corev1.PodList
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if r.Verb != "list" || r.Resource.Resource != "pods" {
				return serve()
			}
			if first == nil {
				var err error
				if first, err = own.CoreV1().Pods(r.Namespace).List(context.Background(),
					metav1.ListOptions{}); err != nil {
					return nil, err
				}
			}
			return answer(first), nil
		}
	}
}

// answerClaims answers a get of a claim with the last version that the component wrote.
func answerClaims(*fake.Clientset) fake.InterceptorFunc {
	written := map[string]runtime.Object{}
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Resource.Resource != "persistentvolumeclaims" {
			return serve()
		}
		if obj, known := written[r.Name]; known && r.Verb == "get" {
			return obj, nil
		}
		obj, err := serve()
		if err == nil {
			written[r.Name] = obj
		}
		return obj, err
	}
}

// eachVolume is a component that calls a function for each changed volume.
func eachVolume(name string, do func(ctx context.Context, p cluster.ComponentContext, v *corev1.PersistentVolume) (time.Duration, error)) []cluster.Component {
	return []cluster.Component{cluster.Reconciler(cluster.ReconcilerConfig{
		Name: name, For: "persistentvolumes",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				v, err := p.Client.CoreV1().PersistentVolumes().Get(ctx, key.Name, metav1.GetOptions{})
				if err != nil {
					return 0, nil //nolint:nilerr // it is gone
				}
				return do(ctx, p, v)
			}, nil
		},
	})}
}

// twinMaker is an administrator who creates a second PersistentVolume for each mounted volume and
// the same claim.
func twinMaker(bool) []cluster.Component {
	return eachVolume("administrator", func(ctx context.Context, p cluster.ComponentContext, v *corev1.PersistentVolume) (time.Duration, error) {
		pod, err := p.Client.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			return time.Minute, nil //nolint:nilerr // it is not there yet
		}
		if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" || v.Name == "twin" {
			return 0, nil
		}
		twin := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "twin"}, Spec: *v.Spec.DeepCopy()}
		twin.Spec.ClaimRef.UID, twin.Spec.ClaimRef.ResourceVersion = "", ""
		twin.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		_, err = p.Client.CoreV1().PersistentVolumes().Create(ctx, twin, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return 0, nil
		}
		return 0, err
	})
}

// careless is an administrator who deletes each volume when it becomes Bound.
func careless(bool) []cluster.Component {
	return eachVolume("administrator", func(ctx context.Context, p cluster.ComponentContext, v *corev1.PersistentVolume) (time.Duration, error) {
		if v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil {
			return 0, nil
		}
		return 0, p.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	})
}

package localpath

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// Manifest has what the provisioner needs: its StorageClass and its namespace.
const Manifest = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path}
provisioner: ` + provisioner + `
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: Namespace
metadata: {name: ` + Namespace + `}
`

// Namespace is where the provisioner creates its helper pods.
const Namespace = "local-path-storage"

// Root is the directory of nodes that has the volumes.
const Root = "/opt/local-path-provisioner"

const (
	provisioner     = "local-path.example.com"
	volumeLabel     = provisioner + "/volume"            // of helpers: the name of the PersistentVolume
	volumeKey       = provisioner + "/persistent-volume" // annotation of a helper that makes a directory: the PersistentVolume, as JSON
	provisionerKey  = "volume.kubernetes.io/storage-provisioner"
	selectedNodeKey = "volume.kubernetes.io/selected-node"
	provisionedKey  = "pv.kubernetes.io/provisioned-by"
)

// A Kind is the source of the PersistentVolumes.
type Kind string

// The kinds.
const (
	Local    Kind = "local"
	HostPath Kind = "hostPath"
)

// Component returns the provisioner. Its keys are the names of PersistentVolumes, also of those that do not exist yet.
func Component(kind Kind) cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "local-path", For: "persistentvolumes", Reads: fake.ReadYourWrites,
		Watches: []cluster.Watch{
			{Resource: "persistentvolumeclaims", Keys: func(obj fake.Object) []types.NamespacedName {
				return []types.NamespacedName{{Name: volumeName(obj)}}
			}},
			{Resource: "pods", Keys: func(obj fake.Object) []types.NamespacedName {
				if name := obj.GetLabels()[volumeLabel]; name != "" {
					return []types.NamespacedName{{Name: name}}
				}
				return nil
			}},
		},
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			p.Informers.Storage().V1().StorageClasses().Informer()
			r := &reconciler{kind, p.Client}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				return 0, r.sync(ctx, key.Name)
			}, nil
		},
	})
}

// volumeName returns the name of the PersistentVolume of a claim.
func volumeName(claim metav1.Object) string { return "pvc-" + string(claim.GetUID()) }

type reconciler struct {
	kind   Kind
	client kubernetes.Interface
}

// sync takes one step for a PersistentVolume.
func (r *reconciler) sync(ctx context.Context, name string) error {
	volume, err := found(r.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return err
	}
	maker, errMaker := found(r.client.CoreV1().Pods(Namespace).Get(ctx, makerName(name), metav1.GetOptions{}))
	remover, errRemover := found(r.client.CoreV1().Pods(Namespace).Get(ctx, removerName(name), metav1.GetOptions{}))
	if err := errors.Join(errMaker, errRemover); err != nil {
		return err
	}
	switch {
	case volume != nil && maker != nil: // before the volume is removed, or the maker would make it again
		return r.deletePod(ctx, maker)
	case isReleased(volume):
		return r.remove(ctx, volume, remover)
	case volume != nil:
		return nil
	case remover != nil:
		return r.deletePod(ctx, remover)
	case maker != nil:
		return r.create(ctx, maker)
	}
	return r.make(ctx, name)
}

// found turns an object that does not exist into nil.
func found[T any](obj *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // callers compare with nil
	}
	return obj, err
}

func isReleased(v *corev1.PersistentVolume) bool {
	return v != nil && v.Annotations[provisionedKey] == provisioner && v.Status.Phase == corev1.VolumeReleased &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// make creates the pod that makes the directory of a claim which has a node.
func (r *reconciler) make(ctx context.Context, name string) error {
	claims, err := r.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		node := claim.Annotations[selectedNodeKey]
		if volumeName(claim) != name || claim.Annotations[provisionerKey] != provisioner || node == "" ||
			claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			continue
		}
		class, err := r.client.StorageV1().StorageClasses().Get(ctx, ptr.Deref(claim.Spec.StorageClassName, ""), metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, err := json.Marshal(r.volumeOf(claim, class, node))
		if err != nil {
			return err
		}
		pod := helper(makerName(name), name, node, directory(claim), `mkdir -m 0777 -p "$VOL_DIR"`)
		pod.Annotations = map[string]string{volumeKey: string(text)}
		return r.createPod(ctx, pod)
	}
	return nil
}

// create creates the PersistentVolume whose directory a pod has made.
func (r *reconciler) create(ctx context.Context, maker *corev1.Pod) error {
	switch maker.Status.Phase {
	case corev1.PodFailed:
		return r.deletePod(ctx, maker) // the next one tries again
	case corev1.PodSucceeded:
		var volume corev1.PersistentVolume
		if err := json.Unmarshal([]byte(maker.Annotations[volumeKey]), &volume); err != nil {
			return fmt.Errorf("pod %s: %w", maker.Name, err)
		}
		_, err := r.client.CoreV1().PersistentVolumes().Create(ctx, &volume, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	return nil
}

// remove lets a pod remove the directory of a PersistentVolume, and deletes the PersistentVolume.
func (r *reconciler) remove(ctx context.Context, v *corev1.PersistentVolume, remover *corev1.Pod) error {
	switch {
	case remover == nil:
		node := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
		return r.createPod(ctx, helper(removerName(v.Name), v.Name, node, pathOf(v), `rm -rf "$VOL_DIR"`))
	case remover.Status.Phase == corev1.PodFailed:
		return r.deletePod(ctx, remover) // the next one tries again
	case remover.Status.Phase == corev1.PodSucceeded && v.DeletionTimestamp == nil:
		_, err := found(&corev1.PersistentVolume{}, r.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}))
		return err
	}
	return nil
}

// volumeOf returns the PersistentVolume of a claim.
func (r *reconciler) volumeOf(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(claim), Annotations: map[string]string{provisionedKey: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class.Name, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
				},
			}}}},
		},
	}
	if r.kind == HostPath {
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: directory(claim), Type: ptr.To(corev1.HostPathDirectoryOrCreate)}
	} else {
		v.Spec.Local = &corev1.LocalVolumeSource{Path: directory(claim)}
	}
	return v
}

// directory returns the directory of a claim on its node.
func directory(claim *corev1.PersistentVolumeClaim) string {
	return path.Join(Root, volumeName(claim)+"_"+claim.Namespace+"_"+claim.Name)
}

func pathOf(v *corev1.PersistentVolume) string {
	if v.Spec.HostPath != nil {
		return v.Spec.HostPath.Path
	}
	return v.Spec.Local.Path
}

// The names of the helpers of a PersistentVolume.
func makerName(volume string) string   { return "helper-pod-create-" + volume }
func removerName(volume string) string { return "helper-pod-delete-" + volume }

// helper returns a pod that executes a command on a node. It runs there whatever the node's taints are.
func helper(name, volume, node, dir, command string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: map[string]string{volumeLabel: volume}},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "helper-pod", Image: "busybox", Command: []string{"/bin/sh", "-c", command},
				Env:          []corev1.EnvVar{{Name: "VOL_DIR", Value: dir}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: path.Dir(dir)}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: path.Dir(dir), Type: ptr.To(corev1.HostPathDirectoryOrCreate),
			}}}},
		},
	}
}

func (r *reconciler) createPod(ctx context.Context, pod *corev1.Pod) error {
	_, err := r.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will show it
	}
	return err
}

// deletePod deletes a helper, if there is one.
func (r *reconciler) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

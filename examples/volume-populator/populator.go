package populator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// A Design is for what the populator waits before it gives a volume to the user's claim.
type Design string

// The designs.
const (
	Patient Design = "patient" // until the pod has succeeded, as lib-volume-populator does
	Eager   Design = "eager"   // until the pod runs: a bug
)

// Namespace is where the populator makes its claims and pods.
const Namespace = "populator"

const (
	volume     = "target" // of the populator's pods
	file       = "hello"
	textKey    = "hello.example.com/text"  // annotation of a pod: what its container writes
	ownerLabel = "hello.example.com/claim" // of the populator's claims and pods: NAMESPACE.NAME of the user's claim
	finalizer  = "hello.example.com/populate-target-protection"
	fromKey    = "hello.example.com/populated-from" // annotation of a PersistentVolume
)

var hellos = schema.GroupVersionResource{Group: "hello.example.com", Version: "v1", Resource: "hellos"}

// Component returns the populator. It reads from caches.
func Component(d Design) cluster.Component {
	ofClaim := func(obj fake.Object) []types.NamespacedName {
		if namespace, name, ok := strings.Cut(obj.GetLabels()[ownerLabel], "."); ok {
			return []types.NamespacedName{{Namespace: namespace, Name: name}}
		}
		return nil
	}
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "populator", For: "persistentvolumeclaims",
		Watches: []cluster.Watch{{Resource: "persistentvolumeclaims", Keys: ofClaim}, {Resource: "pods", Keys: ofClaim}},
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			custom, err := dynamic.NewForConfig(p.RESTConfig())
			if err != nil {
				return nil, err
			}
			// The PersistentVolume decides who gets the data, so it is read from the API server.
			r := &populator{design: d, client: p.Client, live: p.WithReads(fake.ReadLive).Client, custom: custom}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) { return 0, r.sync(ctx, key) }, nil
		},
	})
}

type populator struct {
	design       Design
	client, live kubernetes.Interface
	custom       dynamic.Interface
}

// isFilled reports whether the populator takes the volume of a pod for filled.
func (d Design) isFilled(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || d == Eager && pod.Status.Phase == corev1.PodRunning
}

// sync takes one step for a claim.
func (p *populator) sync(ctx context.Context, key types.NamespacedName) error {
	claim, err := p.client.CoreV1().PersistentVolumeClaims(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !isOurs(claim) {
		return nil
	} else if err != nil {
		return err
	}
	name := "prime-" + string(claim.UID) // of the populator's claim and pod
	prime, err := p.client.CoreV1().PersistentVolumeClaims(Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if apierrors.IsNotFound(err) {
		prime = nil
	}
	switch {
	case claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" && (prime == nil || prime.Status.Phase == corev1.ClaimLost):
		return p.cleanUp(ctx, claim, name)
	case claim.Spec.VolumeName != "":
		return nil // the PersistentVolume controller has yet to see that the prime has lost its volume
	case !slices.Contains(claim.Finalizers, finalizer):
		return p.setFinalizer(ctx, claim, true)
	case prime == nil:
		return p.createPrime(ctx, claim, name)
	}
	pod, err := p.client.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return p.createPod(ctx, claim, name)
	case err != nil || !p.design.isFilled(pod):
		return err
	}
	return p.handOver(ctx, claim, prime)
}

func isOurs(claim *corev1.PersistentVolumeClaim) bool {
	ref := claim.Spec.DataSourceRef
	return claim.Namespace != Namespace && ref != nil && ref.APIGroup != nil && *ref.APIGroup == hellos.Group && ref.Kind == "Hello"
}

func (p *populator) setFinalizer(ctx context.Context, claim *corev1.PersistentVolumeClaim, on bool) error {
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == finalizer })
	if on {
		claim.Finalizers = append(claim.Finalizers, finalizer)
	}
	_, err := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func labelsFor(claim *corev1.PersistentVolumeClaim) map[string]string {
	return map[string]string{ownerLabel: claim.Namespace + "." + claim.Name}
}

func (p *populator) createPrime(ctx context.Context, claim *corev1.PersistentVolumeClaim, name string) error {
	_, err := p.client.CoreV1().PersistentVolumeClaims(Namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsFor(claim)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: claim.Spec.AccessModes, Resources: claim.Spec.Resources,
			StorageClassName: claim.Spec.StorageClassName, VolumeMode: claim.Spec.VolumeMode,
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will show it
	}
	return err
}

// createPod creates the pod that writes the text of the claim's source.
func (p *populator) createPod(ctx context.Context, claim *corev1.PersistentVolumeClaim, name string) error {
	source, err := p.custom.Resource(hellos).Namespace(claim.Namespace).Get(ctx, claim.Spec.DataSourceRef.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	spec, _ := source.Object["spec"].(map[string]any)
	pod := cluster.NewPod(name, name)
	pod.Namespace, pod.Labels, pod.Spec.RestartPolicy = Namespace, labelsFor(claim), corev1.RestartPolicyNever
	pod.Annotations = map[string]string{textKey: fmt.Sprint(spec["text"])}
	_, err = p.client.CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will show it
	}
	return err
}

// handOver gives the volume of the prime to the user's claim.
func (p *populator) handOver(ctx context.Context, claim, prime *corev1.PersistentVolumeClaim) error {
	pv, err := p.live.CoreV1().PersistentVolumes().Get(ctx, prime.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if ref := pv.Spec.ClaimRef; ref != nil && ref.UID == claim.UID {
		return nil
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, fromKey, claim.Namespace+"/"+claim.Spec.DataSourceRef.Name)
	_, err = p.client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
	return err
}

// cleanUp deletes what was made for a claim, then lets the claim go.
func (p *populator) cleanUp(ctx context.Context, claim *corev1.PersistentVolumeClaim, name string) error {
	if !slices.Contains(claim.Finalizers, finalizer) {
		return nil
	}
	if err := p.client.CoreV1().Pods(Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err := p.client.CoreV1().PersistentVolumeClaims(Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return p.setFinalizer(ctx, claim, false)
}
